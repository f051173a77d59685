//! Operations on directories that fail (rename, sync, open, list, creation, removal), at each step
//! of a move, of a deletion, of a displacement and of a checkpoint, while the broker continues.
//!
//! Two invariants: a log of which nothing on disk has changed serves, and a log that is offline in
//! a working directory is among the lost ones.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use levada_io::map::WriteMap;
use levada_log::checkpoint::PartitionMetadata;
use levada_log::disk::{DirEntry, Disk, ReadFiles, RealDisk};
use levada_metadata::controller::{METADATA_TOPIC, NewTopic, TopicKey};
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use parking_lot::Mutex;
use rustix::io::Errno;
use tempfile::TempDir;

use super::directories::Life;
use super::moving::{moving_on, names};
use crate::quota::MutationQuota;

/// The real disk, with operations that fail.
#[derive(Debug, Default)]
struct FailingDisk(Mutex<Option<Fault>>);

/// Calls of one operation that fail, but for the first ones.
#[derive(Clone, Copy, Debug)]
struct Fault {
    operation: &'static str,
    errno: Errno,
    spared: usize,
    failed: usize,
    failures_max: usize,
}

impl FailingDisk {
    /// Lets all calls fail but the first ones.
    fn fail(&self, operation: &'static str, errno: Errno, spared: usize) {
        *self.0.lock() = Some(Fault { operation, errno, spared, failed: 0, failures_max: usize::MAX });
    }

    /// Lets one call fail.
    fn fail_once(&self, operation: &'static str, errno: Errno, spared: usize) {
        *self.0.lock() = Some(Fault { operation, errno, spared, failed: 0, failures_max: 1 });
    }

    /// Ends the fault; true if a call has failed.
    fn heal(&self) -> bool {
        self.0.lock().take().is_some_and(|fault| fault.failed > 0)
    }

    /// The metadata log has other rules.
    fn ask(&self, operation: &str, path: &Path) -> io::Result<()> {
        if path.to_string_lossy().contains(METADATA_TOPIC) {
            return Ok(());
        }
        match self.0.lock().as_mut().filter(|fault| fault.operation == operation) {
            Some(fault) if fault.spared > 0 => fault.spared -= 1,
            Some(fault) if fault.failed < fault.failures_max => {
                fault.failed += 1;
                return Err(fault.errno.into());
            }
            _ => {}
        }
        Ok(())
    }
}

impl ReadFiles for FailingDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.ask("open", path).and_then(|()| RealDisk.open(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.ask("list", dir).and_then(|()| RealDisk.list(dir))
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.ask("create", path).and_then(|()| RealDisk.create(path))
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.ask("create", path).and_then(|()| RealDisk.write_file(path, bytes))
    }

    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.ask("write", path).and_then(|()| RealDisk.write_at(file, path, parts, at))
    }

    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        RealDisk.copy(from, path, into, len)
    }

    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        RealDisk.truncate(file, path, len)
    }

    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        self.ask("allocate", path).and_then(|()| RealDisk.allocate(file, path, position, len))
    }

    fn write_mapped(&self, map: &mut WriteMap, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        RealDisk.write_mapped(map, path, bytes, at)
    }

    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, path, time)
    }

    fn sync(&self, _: &File, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask("sync_dir", dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask("rename", from)?;
        if from.is_dir() {
            self.ask("rename of a directory", from)?;
        }
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask("remove", path).and_then(|()| RealDisk.remove(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.ask("create_dir", path).and_then(|()| RealDisk.create_dir(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask("remove_dir", dir).and_then(|()| RealDisk.remove_dir(dir))
    }

    fn protect(&self, path: &Path) -> io::Result<()> {
        RealDisk.protect(path)
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

const LONG: std::time::Duration = std::time::Duration::from_secs(20);

/// Errors of the disk that end by themselves.
const ERRNOS: [Errno; 4] = [Errno::NOSPC, Errno::DQUOT, Errno::ACCESS, Errno::MFILE];

/// Runs `round` with the first call of each operation failing, then with the second, and so on,
/// until the work is done before the fault begins.
fn at_each_step(operations: &[&'static str], round: impl Fn(&Arc<FailingDisk>, &dyn Fn(), &str) -> bool) {
    for (at, operation) in operations.iter().enumerate() {
        let mut was_hit = false;
        for spared in 0.. {
            let errno = ERRNOS[(at + spared) % ERRNOS.len()];
            let disk = Arc::<FailingDisk>::default();
            let case = format!("{operation} {spared} {errno:?}");
            let begin = || disk.fail(operation, errno, spared);
            if !round(&disk, &begin, &case) {
                break;
            }
            was_hit = true;
            assert!(spared < 200, "{case}: the work has no end");
        }
        assert!(was_hit, "no {operation} is part of the work");
    }
}

fn is_lost(life: &Life) -> bool {
    life.broker.replicas().lost(uptime_ms()).contains(&("t".to_owned(), 0))
}

fn delete(life: &Life) {
    let key = TopicKey { name: Some("t".to_owned()), topic_id: Uuid::ZERO };
    let deleted = life.broker.controller().delete_topics(vec![key], MutationQuota::default());
    assert!(life.runtime.block_on(deleted).pop().unwrap().1.is_ok());
}

/// Creates a topic whose partition may not be opened yet.
fn begin_topic(life: &Life) {
    let topic =
        NewTopic { name: "t".to_owned(), partitions: 1, replication_factor: 1, ..NewTopic::default() };
    let created = life.broker.controller().create_topics(vec![topic], MutationQuota::default(), false);
    drop(life.runtime.block_on(created));
}

fn keep_house(life: &Life) {
    life.runtime.block_on(life.broker.keep_house());
}

#[test]
fn failed_move_step_leaves_log_in_service() {
    at_each_step(&["rename", "sync_dir", "open", "create", "create_dir", "write"], |disk, begin, case| {
        let home = tempfile::tempdir().unwrap();
        let (life, [from, to]) = moving_on(disk.clone(), &home);
        begin();
        life.move_to(home.path().join(to)).unwrap();
        let log = life.partition(0).unwrap().shared_log();
        let is_over = || {
            let is_settled = log.is_offline() || life.is_in(&home, to) || names(&home, to).is_empty();
            is_settled && life.broker.replicas().moves().to(&home.path().join(to)).is_empty()
        };
        life.run_moves(is_over);
        let was_hit = disk.heal();
        if log.is_offline() {
            // Two operations have failed, the second of those that undo the first.
            assert!(is_lost(&life), "{case}: nobody hears of the log");
            return was_hit;
        }
        life.append(0);
        assert_eq!(life.end(), 21, "{case}");
        keep_house(&life);
        assert_eq!(life.recorded(), life.actual(), "{case}");
        if !life.is_in(&home, to) {
            life.move_to(home.path().join(to)).unwrap();
            life.run_moves(|| life.is_in(&home, to));
        }
        keep_house(&life);
        // The thread of the move may still be removing the former directory.
        let deadline = std::time::Instant::now() + LONG;
        while !names(&home, from).is_empty() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((names(&home, from), names(&home, to)), (vec![], vec!["t-0".to_owned()]), "{case}");
        life.append(0);
        life.broker.close();
        drop((life, log));
        let life = Life::open(&home, &["a", "b"]).unwrap();
        assert_eq!(life.end(), 22, "{case}");
        was_hit
    });
}

#[test]
fn one_failed_rename_keeps_moving_log_online() {
    // The reserve of the directory has space for a name, and housekeeping makes it again.
    let cases = [(0, Errno::ACCESS, 0), (1, Errno::ACCESS, 0), (0, Errno::NOSPC, 1), (1, Errno::NOSPC, 1)];
    for (spared, errno, place) in cases {
        let (home, disk) = (tempfile::tempdir().unwrap(), Arc::<FailingDisk>::default());
        let (life, [from, to]) = moving_on(disk.clone(), &home);
        let end = [from, to][place];
        let held = life.partition(0).unwrap();
        let moves = life.runtime.spawn(life.broker.replicas().clone().run_moves());
        let records = life.runtime.spawn(life.broker.clone().run_directory_records());
        life.move_to(home.path().join(to)).unwrap();
        // The renames of the last step are those of directories.
        disk.fail_once("rename of a directory", errno, spared);
        let has_ended = || life.broker.replicas().moves().to(&home.path().join(to)).is_empty();
        let is_settled = || names(&home, to).is_empty() || life.is_in(&home, to);
        while !(has_ended() && (held.log().is_offline() || is_settled())) {
            life.runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(2)).await });
        }
        moves.abort();
        records.abort();
        disk.heal();
        assert!(!held.log().is_offline() && life.is_in(&home, end), "rename {spared}, {errno:?}");
        life.append(0);
        assert_eq!(names(&home, to).len(), place, "rename {spared}, {errno:?}: no copy is left");
    }
}

#[test]
fn topic_deletion_completes_after_directory_errors() {
    at_each_step(&["rename", "remove_dir"], |disk, begin, case| {
        let home = tempfile::tempdir().unwrap();
        let (life, [from, _]) = moving_on(disk.clone(), &home);
        begin();
        delete(&life);
        let was_hit = disk.heal();
        keep_house(&life);
        assert_eq!(names(&home, from), [""; 0], "{case}");
        life.create("t", 1);
        life.append(0);
        assert_eq!(life.end(), 1, "{case}");
        was_hit
    });
}

#[test]
fn topic_is_recreated_although_renames_fail() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Arc::<FailingDisk>::default());
    let (life, [from, _]) = moving_on(disk.clone(), &home);
    disk.fail("rename of a directory", Errno::NOSPC, 0);
    delete(&life);
    assert_eq!(names(&home, from), [""; 0], "its space is free immediately");
    life.create("t", 1);
    life.append(0);
    assert_eq!(life.end(), 1);
}

/// Leaves the directory of a topic that the metadata does not have.
fn leave_stray(home: &TempDir, dir: &str, name: &str) {
    let path = home.path().join(dir).join(name);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("00000000000000000000.log"), "").unwrap();
    PartitionMetadata { topic_id: [9; 16] }.store(&RealDisk, &path).unwrap();
}

#[test]
fn new_topic_serves_despite_unmovable_stray_directory() {
    at_each_step(&["rename"], |disk, begin, case| {
        let home = tempfile::tempdir().unwrap();
        let life = Life::open_on(disk.clone(), &home, &["a"]).unwrap();
        leave_stray(&home, "a", "t-0");
        begin();
        begin_topic(&life);
        let was_hit = disk.heal();
        keep_house(&life);
        life.append(0);
        assert_eq!(life.end(), 1, "{case}");
        was_hit
    });
}

#[test]
fn startup_with_unmovable_stray_serves_other_partitions() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Arc::<FailingDisk>::default());
    let life = Life::open_on(disk.clone(), &home, &["a"]).unwrap();
    life.create("t", 1);
    life.append(0);
    life.broker.close();
    drop(life);
    leave_stray(&home, "a", "old-0");
    disk.fail("rename of a directory", Errno::NOSPC, 0);
    let life = Life::open_on(disk, &home, &["a"]).unwrap();
    assert_eq!(life.end(), 1);
    life.append(0);
}

#[test]
fn failed_checkpoint_write_is_retried_while_serving() {
    at_each_step(&["rename", "sync_dir", "create"], |disk, begin, case| {
        let home = tempfile::tempdir().unwrap();
        let life = Life::open_on(disk.clone(), &home, &["a"]).unwrap();
        life.create("t", 1);
        life.append(0);
        life.partition(0).unwrap().log().flush().unwrap();
        begin();
        life.broker.replicas().checkpoints().store();
        let was_hit = disk.heal();
        keep_house(&life);
        let stored = std::fs::read_to_string(home.path().join("a/recovery-point-offset-checkpoint")).unwrap();
        assert!(stored.contains("t 0 1"), "{case}: {stored}");
        life.append(0);
        assert!(!is_lost(&life), "{case}");
        was_hit
    });
}
