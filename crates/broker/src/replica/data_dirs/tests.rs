//! Placement by what the directories have; nothing is served here.

use levada_config::Sources;
use levada_log::checkpoint::PartitionMetadata;
use levada_log::disk::RealDisk;
use levada_metadata::uuid::random;
use tempfile::TempDir;

use super::*;

fn config(home: &TempDir, names: &[&str]) -> BrokerConfig {
    let dirs: Vec<String> = names.iter().map(|name| home.path().join(name).display().to_string()).collect();
    BrokerConfig::load(&Sources::flags(vec![format!("log.dirs={}", dirs.join(","))])).unwrap()
}

fn open(home: &TempDir, names: &[&str]) -> Result<DataDirs, DataDirError> {
    DataDirs::open((Arc::new(RealDisk), Background::default()), &config(home, names))
}

fn key(topic: &str, index: i32) -> TopicPartition {
    (topic.to_owned(), index)
}

fn name(dir: &DataDir) -> &str {
    dir.path().file_name().unwrap().to_str().unwrap()
}

fn make(home: &TempDir, path: &str, topic_id: Option<Uuid>) {
    let dir = home.path().join(path);
    std::fs::create_dir_all(&dir).unwrap();
    if let Some(id) = topic_id {
        PartitionMetadata { topic_id: id.to_bytes() }.store(&RealDisk, &dir).unwrap();
    }
}

#[test]
fn partition_directory_is_found_assigned_or_emptiest() {
    let home = tempfile::tempdir().unwrap();
    make(&home, "a/t-0", None);
    make(&home, "a/t-1", None);
    make(&home, "b/t-2", None);
    let dirs = open(&home, &["a", "b"]).unwrap();
    let ids = [random(), random()];
    dirs.dirs.iter().zip(ids).for_each(|(dir, id)| dir.identify_as(id));
    let home_of =
        |index, recorded| name(dirs.home(&key("t", index), recorded, |_| false).unwrap()).to_owned();
    assert_eq!([home_of(0, ids[1]), home_of(2, ids[0])], ["a", "b"], "where they are");
    assert_eq!(home_of(3, Uuid::ZERO), "b", "one is there, two are in the other");
    assert_eq!(home_of(4, ids[1]), "b", "assigned");
    assert_eq!(home_of(5, Uuid::ZERO), "a");
    let cordoned = |dir: &Path| dir.ends_with("a");
    assert_eq!(name(dirs.home(&key("t", 6), Uuid::ZERO, cordoned).unwrap()), "b");
    assert_eq!(name(dirs.home(&key("t", 7), Uuid::ZERO, |_| true).unwrap()), "a", "all are cordoned");
}

#[test]
fn partition_in_two_directories_error_names_paths() {
    let home = tempfile::tempdir().unwrap();
    make(&home, "a/t-0", None);
    make(&home, "b/t-0", None);
    let refused = open(&home, &["a", "b"]).err().unwrap().to_string();
    for path in ["t-0", "a/t-0", "b/t-0"] {
        assert!(refused.contains(path), "{refused}");
    }
}

#[test]
fn directory_of_deleted_namesake_is_set_aside() {
    let home = tempfile::tempdir().unwrap();
    let ids = [random(), random()];
    make(&home, "a/t-0", Some(ids[0]));
    make(&home, "b/t-0", Some(ids[1]));
    let dirs = open(&home, &["a", "b"]).unwrap();
    dirs.quarantine_strays(|_, _| Some(ids[1])).unwrap();
    assert_eq!(name(dirs.of(&key("t", 0)).unwrap()), "b");
    assert!(!home.path().join("a/t-0").exists());
    assert!(home.path().join("b/t-0").exists());
}

#[test]
fn foreign_directories_are_left_unchanged() {
    let home = tempfile::tempdir().unwrap();
    for (path, file) in [
        ("a/backup-2024", "notes.txt"),
        ("a/to-delete", "notes.txt"),
        ("a/gone-0", "00000000000000000000.log"),
        ("a/gone-1.0123456789abcdef0123456789abcdef-delete", "00000000000000000000.log"),
    ] {
        std::fs::create_dir_all(home.path().join(path)).unwrap();
        std::fs::write(home.path().join(path).join(file), b"bytes").unwrap();
    }
    std::fs::create_dir_all(home.path().join("b")).unwrap();
    let dirs = open(&home, &["a", "b"]).unwrap();
    dirs.quarantine_strays(|_, _| None).unwrap();
    let entries = std::fs::read_dir(home.path().join("a")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    assert_eq!(names[..1], ["backup-2024"]);
    assert!(names[1].starts_with("gone-0.") && names[1].ends_with("-stray"), "{names:?}");
    assert_eq!(names[2..], ["to-delete"]);
}

#[test]
fn unusable_directory_is_omitted_unless_holding_metadata() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("b"), "no directory").unwrap();
    let dirs = open(&home, &["a", "b"]).unwrap();
    assert_eq!(dirs.offline().collect::<Vec<_>>(), [home.path().join("b")]);
    let placed = |recorded| dirs.home(&key("t", 0), recorded, |_| false).map(|dir| name(dir).to_owned());
    assert!(matches!(placed(random()), Err(LogError::Offline { .. })), "it may be in the other");
    assert!(matches!(placed(LOST_DIRECTORY), Err(LogError::Offline { .. })), "as well");
    assert_eq!(placed(Uuid::ZERO).unwrap(), "a");
    drop(dirs);
    assert!(matches!(open(&home, &["b", "a"]), Err(DataDirError::Unusable { .. })));
}

#[test]
fn device_error_takes_directory_out_of_use() {
    use rustix::io::Errno;
    let fails = |errno: Errno| {
        let home = tempfile::tempdir().unwrap();
        let dirs = open(&home, &["a", "b"]).unwrap();
        let (path, source) = (home.path().join("b/t-0"), Arc::new(errno.into()));
        dirs.dirs[1].report(&LogError::Io { operation: "sync", path, source });
        assert!(!dirs.dirs[0].has_failed());
        dirs.dirs[1].has_failed()
    };
    // As the kernel's block layer and file systems return them from a sync.
    for errno in [
        Errno::IO,
        Errno::NODEV,
        Errno::NXIO,
        Errno::STALE,
        Errno::UCLEAN,
        Errno::BADMSG,
        Errno::NOTCONN,
        Errno::NODATA,
        Errno::NOLINK,
        Errno::REMOTEIO,
        Errno::TIMEDOUT,
        Errno::BADE,
        Errno::ILSEQ,
    ] {
        assert!(fails(errno), "{errno}");
    }
    let others =
        [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::MFILE, Errno::NOMEM, Errno::NOENT, Errno::ACCESS];
    for errno in others {
        assert!(!fails(errno), "{errno}");
    }
}

#[test]
fn directory_refuses_records_after_transient_append_error() {
    use rustix::io::Errno;
    let refuses = |errno: Errno| {
        let home = tempfile::tempdir().unwrap();
        let dirs = open(&home, &["a", "b"]).unwrap();
        let (path, source) = (home.path().join("b/t-0"), Arc::new(errno.into()));
        let error = LogError::Io { operation: "append to", path, source };
        dirs.dirs[1].report(&error);
        let is_of_any_work = dirs.dirs[1].refuses_records();
        dirs.dirs[1].report_refused(&error);
        assert!(!dirs.dirs[0].refuses_records());
        (dirs.dirs[1].refuses_records(), is_of_any_work)
    };
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
        assert_eq!(refuses(errno), (true, false), "{errno}");
    }
    assert_eq!(refuses(Errno::ROFS), (true, true));
    for errno in [Errno::IO, Errno::ACCESS, Errno::FBIG] {
        assert_eq!(refuses(errno), (false, false), "{errno}");
    }
}

fn future(home: &TempDir, dir: &str, topic_id: Uuid) -> String {
    let name = format!("t-0.{}-future", "7".repeat(32));
    make(home, &format!("{dir}/{name}"), Some(topic_id));
    name
}

#[test]
fn copy_replaces_lost_log_when_directories_are_online() {
    let (home, topic_id) = (tempfile::tempdir().unwrap(), random());
    let name = future(&home, "b", topic_id);
    let adopt = |dirs: &DataDirs| {
        let ids = [random(), random()];
        dirs.dirs.iter().zip(ids).for_each(|(dir, id)| dir.identify_as(id));
        dirs.adopt_copy(&dirs.dirs[1], &key("t", 0), (topic_id, ids[1]))
    };
    // The log may be there.
    std::fs::write(home.path().join("c"), "no directory").unwrap();
    let dirs = open(&home, &["a", "b", "c"]).unwrap();
    assert!(matches!(adopt(&dirs), Err(LogError::Offline { .. })));
    drop(dirs);
    std::fs::remove_file(home.path().join("c")).unwrap();
    assert!(home.path().join("b").join(&name).exists());
    adopt(&open(&home, &["a", "b", "c"]).unwrap()).unwrap();
    assert!(home.path().join("b/t-0").exists() && !home.path().join("b").join(&name).exists());
}

#[test]
fn checkpoints_omit_partitions_of_other_directories() {
    let home = tempfile::tempdir().unwrap();
    make(&home, "a/t-0", None);
    make(&home, "b/t-1", None);
    let dirs = open(&home, &["a", "b"]).unwrap();
    dirs.begin().unwrap();
    dirs.store(OffsetCheckpoint::RecoveryPoint, Offsets::from([(key("t", 0), 10), (key("t", 1), 20)]))
        .unwrap();
    dirs.mark_clean(7);
    drop(dirs);
    let load = |dir: &str| OffsetCheckpoint::RecoveryPoint.load(&RealDisk, &home.path().join(dir)).unwrap();
    assert_eq!(load("a"), Offsets::from([(key("t", 0), 10)]));
    assert_eq!(load("b"), Offsets::from([(key("t", 1), 20)]));
    let left = open(&home, &["a", "b"]).unwrap().look().unwrap();
    assert_eq!((left.clean, left.broker_epoch), (true, Some(7)));
    assert_eq!([left.of(&key("t", 0)), left.of(&key("t", 1))].map(|left| left.recovery_point), [10, 20]);
    // A directory that does not open may have lost records.
    std::fs::rename(home.path().join("b"), home.path().join("away")).unwrap();
    std::fs::write(home.path().join("b"), "no directory").unwrap();
    assert_eq!(open(&home, &["a", "b"]).unwrap().look().unwrap().broker_epoch, None);
}
