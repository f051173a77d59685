//! Directories that a broker has left, and what became of them since.

mod member;

use std::fs;
use std::path::Path;

use levada_config::Sources;
use levada_log::check::Severity;
use levada_metadata::controller::Decision;
use levada_metadata::records::{ConfigRecord, FeatureLevelRecord, PartitionRecord, Record, TopicRecord};
use levada_metadata::store::StoreLimits;
use levada_wire::Uuid;
use tempfile::tempdir;

use super::*;

fn config(dir: &Path) -> BrokerConfig {
    let flags = [format!("log.dirs={}", dir.display()), "node.id=1".to_owned()];
    BrokerConfig::load(&Sources::flags(flags)).unwrap()
}

/// Formats a directory and writes these records to its metadata log.
fn with_records(dir: &Path, records: Vec<Record>) {
    let config = config(dir);
    let options = StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        node_id: 1,
        cluster_id: None,
        controller: controller_endpoint(),
        min_insync_replicas: config.topic_defaults.min_insync_replicas,
        users: Vec::new(),
        limits: StoreLimits::default(),
        others: None,
        other_dirs: Vec::new(),
        serves_tiers: false,
    };
    let (mut store, _) = Store::open(&options, 0).unwrap();
    store.update(0, |_, _| Decision { records, outcome: () }).unwrap();
}

fn topic(name: &str, directories: Vec<Uuid>) -> Vec<Record> {
    let topic_id = Uuid::from_bytes([7; 16]);
    let partition = PartitionRecord {
        topic_id,
        replicas: vec![1],
        leader: 1,
        isr: vec![1],
        directories,
        ..Default::default()
    };
    vec![TopicRecord { name: name.to_owned(), topic_id }.into(), partition.into()]
}

fn whats(report: &Report) -> Vec<String> {
    let partitions = report.partitions.iter().flat_map(|one| &one.checked.findings);
    report.findings.iter().chain(partitions).map(|finding| finding.what.clone()).collect()
}

#[test]
fn cluster_starts_with_users_from_format() {
    let dir = tempdir().unwrap();
    let user = UserScramCredentialRecord { name: "alice".to_owned(), mechanism: 2, ..Default::default() };
    format(&config(dir.path()), None, (vec![user], 0), false).unwrap();
    with_records(dir.path(), topic("t", Vec::new()));
    let options = StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.path().to_owned(),
        node_id: 1,
        cluster_id: None,
        controller: controller_endpoint(),
        min_insync_replicas: 1,
        users: Vec::new(),
        limits: StoreLimits::default(),
        others: None,
        other_dirs: Vec::new(),
        serves_tiers: false,
    };
    let (store, _) = Store::open(&options, 0).unwrap();
    assert!(store.image().credentials().find("alice", 2).is_some());
}

#[test]
fn a_directory_is_formatted_once() {
    let dir = tempdir().unwrap();
    let config = config(dir.path());
    let identity = format(&config, Some("a-cluster"), (Vec::new(), 0), false).unwrap().remove(0).identity;
    assert_eq!((&*identity.cluster_id, identity.node_id), ("a-cluster", 1));
    let again = format(&config, None, (Vec::new(), 0), false);
    assert!(matches!(again, Err(StorageError::Store(StoreError::Formatted { .. }))), "{again:?}");
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!(report.severity(), None, "{report:?}");
    assert_eq!(info(dir.path(), &[]).unwrap().identity, Some(identity));
}

#[test]
fn format_refuses_directory_with_unidentified_logs() {
    let dir = tempdir().unwrap();
    fs::create_dir(dir.path().join("clicks-0")).unwrap();
    fs::write(dir.path().join("clicks-0/00000000000000000000.log"), [0; 61]).unwrap();
    let refused = format(&config(dir.path()), None, (Vec::new(), 0), false);
    assert!(matches!(refused, Err(StorageError::Store(StoreError::Unidentified { .. }))), "{refused:?}");
    assert!(matches!(check(dir.path(), &[], &|_, _| {}), Err(StorageError::Unformatted { .. })));
}

#[test]
fn check_refuses_a_directory_in_use() {
    let dir = tempdir().unwrap();
    format(&config(dir.path()), None, (Vec::new(), 0), false).unwrap();
    let held = lock(dir.path()).unwrap();
    let refused = check(dir.path(), &[], &|_, _| {});
    assert!(matches!(refused, Err(StorageError::DataDir(DataDirError::InUse { .. }))), "{refused:?}");
    assert!(info(dir.path(), &[]).unwrap().in_use);
    drop(held);
    assert!(!info(dir.path(), &[]).unwrap().in_use);
    assert!(check(dir.path(), &[], &|_, _| {}).is_ok());
    assert!(matches!(
        check(&dir.path().join("nowhere"), &[], &|_, _| {}),
        Err(StorageError::Unreadable { .. })
    ));
}

#[test]
fn check_compares_metadata_with_partition_directories() {
    let dir = tempdir().unwrap();
    with_records(dir.path(), topic("clicks", Vec::new()));
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!((report.severity(), whats(&report)), (Some(Severity::Mended), vec!["is missing".to_owned()]));
    fs::write(dir.path().join("recovery-point-offset-checkpoint"), "0\n1\nclicks 0 12\n").unwrap();
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    assert_eq!(report.severity(), Some(Severity::Damage));
    assert!(whats(&report)[0].contains("up to offset 12"), "{report:?}");
    fs::remove_file(dir.path().join("recovery-point-offset-checkpoint")).unwrap();
    for (name, text) in [("clicks-0", "topic_id: AAAAAAAAAAAAAAAAAAAAAQ"), ("ghost-0", "")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("partition.metadata"), format!("version: 0\n{text}")).unwrap();
    }
    let report = check(dir.path(), &[], &|_, _| {}).unwrap();
    let told = whats(&report);
    assert!(told.iter().any(|what| what.contains("belongs to a topic of id")), "{told:?}");
    assert!(told.iter().any(|what| what.contains("does not contain this partition")), "{told:?}");
}

#[test]
fn check_separates_metadata_damage_from_torn_tail() {
    let dir = tempdir().unwrap();
    with_records(dir.path(), topic("clicks", Vec::new()));
    fs::create_dir(dir.path().join("clicks-0")).unwrap();
    let path = dir.path().join("__cluster_metadata-0/00000000000000000000.log");
    let whole = fs::read(&path).unwrap();
    let severity = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let report = check(dir.path(), &[], &|_, _| {}).unwrap();
        let log = report.partitions.iter().find(|one| one.topic == "__cluster_metadata").unwrap();
        log.checked.severity()
    };
    assert_eq!(severity(&whole), None);
    assert_eq!(severity(&whole[..whole.len() - 1]), Some(Severity::Mended));
    let mut damaged = whole.clone();
    damaged[70] ^= 1;
    assert_eq!(severity(&damaged), Some(Severity::Damage));
}

#[test]
fn unsupported_takeover_is_named_and_changes_nothing() {
    let elsewhere = vec![Uuid::from_bytes([9; 16])];
    let level = FeatureLevelRecord { name: "metadata.version".to_owned(), feature_level: 99 };
    let unknown = FeatureLevelRecord { name: "time.travel".to_owned(), feature_level: 1 };
    for (records, words) in [
        (topic("clicks", elsewhere), "clicks-0 lie in another"),
        (vec![level.into()], "metadata.version 99"),
        (vec![unknown.into()], "time.travel 1"),
    ] {
        let dir = tempdir().unwrap();
        with_records(dir.path(), records);
        fs::write(dir.path().join(".kafka_cleanshutdown"), "{}").unwrap();
        let before = contents(dir.path());
        let refused = crate::broker::Broker::open(config(dir.path()), &[]).err().unwrap().to_string();
        assert!(refused.contains(words), "{refused}");
        assert_eq!(contents(dir.path()), before, "{words}");
        assert!(info(dir.path(), &[]).unwrap().objections[0].contains(words));
        assert!(whats(&check(dir.path(), &[], &|_, _| {}).unwrap()).iter().any(|what| what.contains(words)));
    }
}

#[test]
fn tiered_topics_need_remote_storage() {
    let tiered = ConfigRecord {
        resource_type: 2,
        resource_name: "clicks".to_owned(),
        name: "remote.storage.enable".to_owned(),
        value: Some("true".to_owned()),
    };
    let dir = tempdir().unwrap();
    let mut records = topic("clicks", Vec::new());
    records.push(tiered.into());
    with_records(dir.path(), records);
    fs::write(dir.path().join(".kafka_cleanshutdown"), "{}").unwrap();
    let before = contents(dir.path());
    let refused = crate::broker::Broker::open(config(dir.path()), &[]).err().unwrap().to_string();
    assert!(refused.contains("set remote.log.storage.system.enable=true"), "{refused}");
    assert_eq!(contents(dir.path()), before);
}

/// Every file below a directory with its bytes, the lock left out.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&entry.path()));
        } else if entry.file_name() != LOCK_FILE {
            found.push((entry.path(), fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}
