//! Several data directories: placement, what the metadata says of it, and the failure of one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::Builder;
use levada_config::{BrokerConfig, Sources};
use levada_log::disk::{Disk, RealDisk};
use levada_log::{Append, Background, LogError, Writer};
use levada_metadata::controller::NewTopic;
use levada_process::clock::now_ms;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::upkeep::lines_with;
use crate::broker::{Broker, OpenError};
use crate::quota::MutationQuota;
use crate::replica::Partition;

/// A broker with several directories.
pub(super) struct Life {
    pub(super) broker: Arc<Broker>,
    pub(super) runtime: Runtime,
}

impl Life {
    pub(super) fn open(home: &TempDir, dirs: &[&str]) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), home, dirs)
    }

    pub(super) fn open_on(disk: Arc<dyn Disk>, home: &TempDir, dirs: &[&str]) -> Result<Self, OpenError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let paths: Vec<String> =
            dirs.iter().map(|name| home.path().join(name).display().to_string()).collect();
        let flags = vec![format!("log.dirs={}", paths.join(","))];
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        let entered = runtime.enter();
        let broker = Broker::open_on((disk, Background::default()), config, &[])?;
        drop(entered);
        Ok(Self { broker, runtime })
    }

    pub(super) fn create(&self, name: &str, partitions: i32) {
        let topic =
            NewTopic { name: name.to_owned(), partitions, replication_factor: 1, ..NewTopic::default() };
        let created = self.runtime.block_on(self.broker.controller().create_topics(
            vec![topic],
            MutationQuota::default(),
            false,
        ));
        assert!(created.into_iter().all(|one| one.is_ok()));
    }

    pub(super) fn partition(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.broker.replicas().partition("t", index)
    }

    pub(super) fn append(&self, index: i32) {
        let partition = self.partition(index).unwrap();
        let mut batch = Builder::new();
        batch.push(now_ms(), Some(b"key"), None);
        let append = Append::client(batch.build().unwrap());
        self.runtime.block_on(async { partition.append(append, now_ms()).wait().await }).unwrap();
    }

    /// The directory of each partition of `t`, as the metadata has it.
    pub(super) fn recorded(&self) -> BTreeMap<i32, Uuid> {
        let image = self.broker.metadata().image();
        let topic = image.topic("t").unwrap();
        topic.partitions().map(|(index, partition)| (index, partition.directories[0])).collect()
    }

    /// The id of the directory in which each partition is.
    pub(super) fn actual(&self) -> BTreeMap<i32, Uuid> {
        let id = |index| self.broker.replicas().directory_of("t", index).unwrap();
        self.recorded().keys().map(|index| (*index, id(*index))).collect()
    }

    pub(super) fn ids(&self) -> Vec<Uuid> {
        self.broker.replicas().dirs().iter().map(|dir| dir.id()).collect()
    }

    pub(super) fn fail(&self, log: &Path) {
        self.fail_directory(log.parent().unwrap());
    }

    /// Has an error of the device reported for a directory.
    pub(super) fn fail_directory(&self, dir: &Path) {
        let source = Arc::new(std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        let error = LogError::Io { operation: "sync", path: dir.to_owned(), source };
        let dirs = self.broker.replicas().dirs();
        dirs.iter().find(|one| one.path() == dir).unwrap().report(&error);
        self.broker.act_on_failures();
    }

    fn leader(&self, index: i32) -> i32 {
        self.broker.metadata().image().topic("t").unwrap().partition(index).unwrap().leader
    }
}

impl Drop for Life {
    /// Ends moves, as a serving broker does at its stop. The end of the runtime waits for their
    /// threads, and a move whose directory nothing records any more has no other end.
    fn drop(&mut self) {
        self.broker.replicas().moves().halt();
    }
}

#[test]
fn new_partitions_spread_over_recorded_directories() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("t", 4);
    let actual = life.actual();
    for id in life.ids() {
        assert_eq!(actual.values().filter(|at| **at == id).count(), 2, "{actual:?}");
    }
    assert_eq!(life.recorded(), actual);
    (0..4).for_each(|index| life.append(index));
    life.broker.close();
    drop(life);
    for dir in ["a", "b"] {
        assert!(home.path().join(dir).join(".kafka_cleanshutdown").exists(), "{dir} is marked");
    }
    let life = Life::open(&home, &["a", "b"]).unwrap();
    assert_eq!((life.actual(), life.recorded()), (actual.clone(), actual));
    for index in 0..4 {
        assert_eq!(life.partition(index).unwrap().log().log_end(), 1);
    }
    life.broker.close();
}

#[test]
fn second_directory_joins_single_directory_broker() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a"]).unwrap();
    life.create("t", 2);
    life.append(0);
    life.broker.close();
    drop(life);
    let refused = Life::open(&home, &["b", "a"]).err().unwrap().to_string();
    assert!(refused.contains("metadata.log.dir"), "a new directory gets no metadata log: {refused}");
    assert!(!home.path().join("b/meta.properties").exists());

    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("u", 2);
    assert_eq!(life.partition(0).unwrap().log().log_end(), 1);
    assert!(home.path().join("b/u-0").exists() && home.path().join("b/u-1").exists());
    life.broker.close();
    drop(life);
    let refused = Life::open(&home, &["a"]).err().unwrap().to_string();
    assert!(refused.contains("u-0"), "its partitions are not begun anew: {refused}");
}

#[test]
fn offline_directory_prevents_all_partitions_open_line() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("t", 4);
    life.fail_directory(&home.path().join("b"));
    let (lines, _logged) = lines_with("all partitions are open");
    (0..3).for_each(|_| life.broker.keep_rooms());
    assert_eq!(*lines.lock(), 0);
    life.broker.close();
}

#[test]
fn failed_directory_leaves_other_directory_serving() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("t", 4);
    (0..4).for_each(|index| life.append(index));
    let second = life.ids()[1];
    let (lost, kept): (Vec<i32>, Vec<i32>) = (0..4).partition(|index| life.actual()[index] == second);
    let held = life.partition(lost[0]).unwrap();
    life.fail(&held.log().dir());
    for index in &lost {
        assert_eq!(life.partition(*index).err(), Some(ErrorCode::KafkaStorageError));
        assert_eq!(life.leader(*index), -1);
    }
    assert_eq!(held.check_leader(-1), Err(ErrorCode::KafkaStorageError));
    kept.iter().for_each(|index| life.append(*index));
    life.runtime.block_on(life.broker.keep_house());
    assert_eq!(life.broker.replicas().offline(), 2, "they stay offline, and known");
    let registered = life.broker.metadata().image();
    assert_eq!(registered.brokers().broker(life.broker.node_id()).unwrap().log_dirs, [life.ids()[0]]);
    life.create("v", 2);
    assert!(home.path().join("a/v-0").exists() && home.path().join("a/v-1").exists());
    assert_eq!(life.broker.fatal_reason(), None);
    life.broker.close();
    assert!(home.path().join("a/.kafka_cleanshutdown").exists());
    assert!(!home.path().join("b/.kafka_cleanshutdown").exists());
    drop((life, held, registered));

    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.broker.replicas().recovery().wait(std::time::Duration::from_secs(60));
    for index in 0..4 {
        assert_eq!(life.leader(index), life.broker.node_id());
        let records = if kept.contains(&index) { 2 } else { 1 };
        assert_eq!(life.partition(index).unwrap().log().log_end(), records);
    }
    life.broker.close();
}

#[test]
fn failed_metadata_directory_ends_process() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("t", 2);
    let first = life.ids()[0];
    let index = *life.actual().iter().find(|(_, at)| **at == first).unwrap().0;
    let held = life.partition(index).unwrap();
    life.fail(&held.log().dir());
    let reason = life.broker.fatal_reason().unwrap();
    assert!(reason.contains(&home.path().join("a").display().to_string()), "{reason}");
    life.broker.close();
}

#[test]
fn missing_directory_takes_only_its_partitions_offline() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.create("t", 4);
    (0..4).for_each(|index| life.append(index));
    let second = life.ids()[1];
    let lost: Vec<i32> = (0..4).filter(|index| life.actual()[index] == second).collect();
    life.broker.close();
    drop(life);
    std::fs::rename(home.path().join("b"), home.path().join("kept")).unwrap();
    std::fs::write(home.path().join("b"), "a disk that cannot be mounted").unwrap();

    let life = Life::open(&home, &["a", "b"]).unwrap();
    for index in 0..4 {
        if lost.contains(&index) {
            assert_eq!(life.partition(index).err(), Some(ErrorCode::KafkaStorageError));
            assert_eq!(life.leader(index), -1);
        } else {
            life.append(index);
        }
    }
    life.broker.close();
    drop(life);
    std::fs::remove_file(home.path().join("b")).unwrap();
    std::fs::rename(home.path().join("kept"), home.path().join("b")).unwrap();
    let life = Life::open(&home, &["a", "b"]).unwrap();
    life.broker.replicas().recovery().wait(std::time::Duration::from_secs(60));
    lost.iter().for_each(|index| assert_eq!(life.partition(*index).unwrap().log().log_end(), 1));
    life.broker.close();
}

/// The checkpoints alone show that the partition had records: a new log that begins at their
/// offsets lacks no records of its own.
#[test]
fn missing_partition_directory_is_reported_lost() {
    let home = tempfile::tempdir().unwrap();
    let life = Life::open(&home, &["a"]).unwrap();
    life.create("t", 1);
    life.append(0);
    let delete = |writer: &mut Writer| writer.advance_log_start(1).unwrap().remove().unwrap();
    life.partition(0).unwrap().lane().with_writer(delete);
    life.broker.close();
    drop(life);
    std::fs::remove_dir_all(home.path().join("a/t-0")).unwrap();

    let life = Life::open(&home, &["a"]).unwrap();
    let warnings = life.broker.replicas().warnings();
    let loss = "records of t-0 are lost: its batches end at offset 0, and it had ended at 1 or later";
    assert!(matches!(&warnings[..], [one] if one.starts_with(loss)), "{warnings:?}");
    // No offset of the checkpoint has a second record.
    life.append(0);
    let partition = life.partition(0).unwrap();
    assert_eq!((partition.log().log_start(), partition.log().log_end()), (1, 2));
    life.broker.close();
}
