//! A copy takes the place of a log.

use std::path::PathBuf;

use super::*;
use crate::{Destination, FailureWatch, Partition, ReadError};

const OK: fn() -> Result<(), LogError> = || Ok(());

impl Kit {
    fn in_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open_in(&self, name: &str) -> Writer {
        let config = LogConfig { segment_bytes: 500, ..LogConfig::default() };
        let options = OpenOptions { config, disk: self.disk.clone(), ..OpenOptions::new(self.in_dir(name)) };
        Writer::open(options, NOW_MS).unwrap().0
    }

    /// A copy of the log up to an offset.
    fn copy(&self, log: &Partition, upto: i64) -> Writer {
        let mut copy = self.open_in("copy");
        copy.resign();
        while copy.partition().log_end() < upto {
            let batches = log.read_batches(copy.partition().log_end(), 1).unwrap();
            assert!(!batches.is_empty(), "the log has this offset");
            copy.append_replica(&batches, from_leader(i32::MAX), NOW_MS).unwrap();
        }
        copy
    }

    fn relocate(&self, log: &mut Writer, copy: Writer) -> Result<(), LogError> {
        let rename = |from: &str, to: &str| fs::rename(self.in_dir(from), self.in_dir(to)).unwrap();
        let commit = || {
            rename("log", "gone");
            rename("copy", "place");
            Ok(())
        };
        let to = Destination {
            dir: self.in_dir("place"),
            background: crate::Background::default(),
            watch: FailureWatch::default(),
            prepare: &OK,
            commit: &commit,
            revert: &OK,
        };
        log.relocate(copy, to, NOW_MS)
    }
}

fn append(log: &mut Writer, count: usize) {
    for _ in 0..count {
        // Of two records each, so that the offset is the sequence number.
        let sequence = i32::try_from(log.partition().log_end()).unwrap();
        let batch = records(Builder::new().producer(7, 0, sequence), 2);
        log.append(&mut [Append::client(batch)], NOW_MS).pop().unwrap().unwrap();
    }
}

#[test]
fn readers_and_writer_continue_in_new_directory() {
    let kit = Kit::new();
    let mut log = kit.open_in("log");
    log.set_leader_epoch(3);
    (0..8).for_each(|_| append(&mut log, 1));
    log.set_leader_epoch(5);
    append(&mut log, 3);
    let (partition, end) = (log.partition().clone(), log.partition().log_end());
    let epochs = partition.epoch_end_offset(3);
    let held = partition.read(0, 1 << 20, end, true).unwrap();
    let copy = kit.copy(&partition, end);
    kit.relocate(&mut log, copy).unwrap();
    fs::remove_dir_all(kit.in_dir("gone")).unwrap();

    assert_eq!(*partition.dir(), kit.in_dir("place"));
    assert_eq!((partition.log_end(), partition.epoch_end_offset(3)), (end, epochs));
    assert_eq!(partition.recovery_point(), end, "the copy is on the device");
    assert!(held.extent.unwrap().file.metadata().unwrap().len() > 0, "ranges of the former files live on");
    assert!(!partition.read_batches(0, 1 << 20).unwrap().is_empty());
    append(&mut log, 4);
    let (end, states) = (partition.log_end(), log.producer_states().len());
    log.close().unwrap();
    let again = kit.open_in("place");
    assert_eq!((again.partition().log_end(), again.producer_states().len()), (end, states));
    assert_eq!(again.partition().epoch_end_offset(3), epochs);
}

#[test]
fn incomplete_copy_is_refused_and_log_continues() {
    let kit = Kit::new();
    let mut log = kit.open_in("log");
    log.set_leader_epoch(1);
    append(&mut log, 6);
    let copy = kit.copy(log.partition(), 8);
    assert!(matches!(kit.relocate(&mut log, copy), Err(LogError::Corrupt { .. })));
    append(&mut log, 1);
    let (partition, place) = (log.partition(), kit.in_dir("log"));
    assert_eq!((partition.is_offline(), &*partition.dir()), (false, &place));
    assert!(!matches!(partition.read_batches(0, 1), Err(ReadError::Storage(_))));
}

#[test]
fn log_stays_online_after_reverted_move() {
    let failed = || Err(LogError::io("rename", Path::new("log"), std::io::Error::from_raw_os_error(ENOSPC)));
    for is_reverted in [true, false] {
        let kit = Kit::new();
        let mut log = kit.open_in("log");
        log.set_leader_epoch(1);
        append(&mut log, 3);
        let copy = kit.copy(log.partition(), log.partition().log_end());
        let revert = || if is_reverted { Ok(()) } else { failed() };
        let to = Destination {
            dir: kit.in_dir("place"),
            background: crate::Background::default(),
            watch: FailureWatch::default(),
            prepare: &OK,
            commit: &failed,
            revert: &revert,
        };
        assert!(matches!(log.relocate(copy, to, NOW_MS), Err(LogError::Io { .. })));
        assert_eq!(log.partition().is_offline(), !is_reverted);
        if is_reverted {
            append(&mut log, 1);
            let read = log.partition().read_batches(0, 1 << 20).unwrap();
            assert!(!read.is_empty() && log.partition().log_end() == 8);
        }
    }
}
