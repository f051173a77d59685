//! The directory of a broker in a cluster: its format, and who may have it.

use levada_metadata::store::METADATA_DIR;

use super::*;

const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qk";

fn member(dir: &Path) -> BrokerConfig {
    let mut flags: Vec<String> = [
        "process.roles=broker",
        "node.id=1",
        "controller.quorum.bootstrap.servers=c1:9093",
        "controller.listener.names=CONTROLLER",
    ]
    .map(str::to_owned)
    .to_vec();
    flags.push(format!("log.dirs={}", dir.display()));
    BrokerConfig::load(&Sources::flags(flags)).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn member_directory_is_formatted_with_identity_only() {
    let dir = tempdir().unwrap();
    let formatted = format(&member(dir.path()), Some(CLUSTER), (Vec::new(), 0), false);
    let formatted = formatted.unwrap().remove(0).identity;
    assert_eq!((formatted.cluster_id.as_str(), formatted.node_id), (CLUSTER, 1));
    assert_eq!(names(dir.path()), [LOCK_FILE, MetaProperties::FILE_NAME]);
    assert_eq!(Store::member_identity(&RealDisk, dir.path(), 1).unwrap(), formatted);
    let again = format(&member(dir.path()), Some(CLUSTER), (Vec::new(), 0), false).unwrap_err();
    assert!(matches!(again, StorageError::Store(StoreError::Formatted { .. })), "{again}");
    let other = Store::member_identity(&RealDisk, dir.path(), 2).unwrap_err().to_string();
    assert!(other.contains("node.id 1, but 2 is configured"), "{other}");
}

#[test]
fn member_format_requires_cluster_id_without_users() {
    let dir = tempdir().unwrap();
    let refused = format(&member(dir.path()), None, (Vec::new(), 0), false).unwrap_err();
    assert!(matches!(&refused, StorageError::NoClusterId { path } if path == dir.path()), "{refused}");
    let users = vec![UserScramCredentialRecord { name: "alice".to_owned(), ..Default::default() }];
    let refused = format(&member(dir.path()), Some(CLUSTER), (users, 0), false).unwrap_err();
    assert!(matches!(&refused, StorageError::MemberUsers { names } if names == &["alice"]), "{refused}");
}

#[test]
fn unformatted_member_error_names_format_command() {
    let dir = tempdir().unwrap();
    let error = Store::member_identity(&RealDisk, dir.path(), 1).unwrap_err().to_string();
    assert!(error.contains("levada storage format --cluster-id ID"), "{error}");
    assert_eq!(names(dir.path()), [""; 0], "nothing is written");
}

#[test]
fn standalone_directory_does_not_join_cluster() {
    let dir = tempdir().unwrap();
    with_records(dir.path(), topic("t", Vec::new()));
    let error = Store::member_identity(&RealDisk, dir.path(), 1).unwrap_err();
    assert!(matches!(error, StoreError::Alone { .. }), "{error}");
}

#[test]
fn member_accepts_metadata_log_left_by_kafka() {
    let dir = tempdir().unwrap();
    let formatted = format(&member(dir.path()), Some(CLUSTER), (Vec::new(), 0), false);
    let formatted = formatted.unwrap().remove(0).identity;
    let metadata = dir.path().join("__cluster_metadata-0");
    fs::create_dir(&metadata).unwrap();
    let state = r#"{"leaderId":3000,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#;
    fs::write(metadata.join("quorum-state"), state).unwrap();
    assert_eq!(Store::member_identity(&RealDisk, dir.path(), 1).unwrap(), formatted);
}

#[test]
fn fresh_directories_are_formatted_beside_formatted_ones() {
    let home = tempdir().unwrap();
    let [one, more] = ["one", "more"].map(|name| home.path().join(name));
    let alone = member(&one);
    let first = format(&alone, Some(CLUSTER), (Vec::new(), 0), false).unwrap().remove(0).identity;
    let both = member(Path::new(&format!("{},{}", one.display(), more.display())));
    let refused = format(&both, Some(CLUSTER), (Vec::new(), 0), false).unwrap_err();
    assert!(matches!(refused, StorageError::Store(StoreError::Formatted { .. })), "{refused}");
    let formatted = format(&both, None, (Vec::new(), 0), true).unwrap();
    assert_eq!(formatted.iter().map(|one| one.is_new).collect::<Vec<_>>(), [false, true]);
    assert_eq!(formatted[0].identity, first);
    assert_eq!(formatted[1].identity.cluster_id, CLUSTER);
    assert_ne!(formatted[1].identity.directory_id, first.directory_id);
}

/// The directory of a partition without records.
fn partition(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::write(path.join("partition.metadata"), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").unwrap();
}

#[test]
fn member_directory_is_sound_without_metadata_log() {
    let dir = tempdir().unwrap();
    format(&member(dir.path()), Some(CLUSTER), (Vec::new(), 0), false).unwrap();
    partition(&dir.path().join("clicks-0"));
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!((report.severity(), whats(&report)), (Some(Severity::Note), vec!["is not here".to_owned()]));
}

#[test]
fn standalone_broker_without_metadata_log_is_damaged() {
    let dir = tempdir().unwrap();
    with_records(dir.path(), topic("clicks", Vec::new()));
    fs::remove_dir_all(dir.path().join(METADATA_DIR)).unwrap();
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!((report.severity(), whats(&report)), (Some(Severity::Damage), vec!["is missing".to_owned()]));
}

#[test]
fn foreign_quorum_metadata_does_not_judge_partitions() {
    let dir = tempdir().unwrap();
    with_records(dir.path(), topic("clicks", Vec::new()));
    partition(&dir.path().join("moved-0"));
    let path = dir.path().join(MetaProperties::FILE_NAME);
    let identity = fs::read_to_string(&path).unwrap();
    fs::write(&path, identity.replace("node.id=1", "node.id=2")).unwrap();
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!(report.severity(), Some(Severity::Note), "{report:?}");
    assert_eq!(whats(&report), ["the metadata belongs to a quorum of the nodes [1]"]);
}
