//! Tasks of a follower on a real log.

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_log::{Append, OpenOptions, Writer};

use super::*;
use crate::replication::follower::LeaderMarks;

const NOW_MS: i64 = 1;

fn append(writer: &mut Writer, value: u8) {
    let mut batch = Builder::new();
    batch.push(0, None, Some(&[value]));
    writer.append(&mut [Append::client(batch.build().unwrap())], NOW_MS).pop().unwrap().unwrap();
}

fn open(dir: &tempfile::TempDir) -> Writer {
    Writer::open(OpenOptions::new(dir.path().join("t-0")), NOW_MS).unwrap().0
}

/// Simulation, seeds 42305260 and 42409414: a log that began at a former leader's log start was
/// taken for one that had the records of the present leader before it.
#[test]
fn only_an_empty_log_restarts_at_earlier_offset() {
    for (appends, to, expected) in [(0, 3, (3, 3)), (0, 9, (9, 9)), (0, 12, (9, 9)), (1, 3, (9, 10))] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(&dir);
        writer.restart_at(9, NOW_MS).unwrap().remove().unwrap();
        writer.lead(4).unwrap();
        (0..appends).for_each(|value| append(&mut writer, value));
        writer.resign();
        let log = writer.partition().clone();
        let attempt = apply(&mut writer, &Task::Lower(to), 5, log_end(&log), NOW_MS).unwrap();
        assert!(matches!(attempt, Attempt::Applied(applied) if applied.end == log_end(&log)));
        assert_eq!((log.log_start(), log.log_end()), expected, "{appends} {to}");
    }
}

/// Simulation, seed 40344318, and the property of followers: a former leader kept records of its
/// own where its leader had deleted others, and a crash that brought an older log start back
/// showed them.
#[test]
fn log_ending_at_new_leader_start_is_emptied() {
    let of_this_leader = (4, 4);
    for (leader_epoch, leader_start, expected) in
        [(5, 4, of_this_leader), (4, 4, of_this_leader), (5, 3, (3, 4)), (5, 0, (0, 4))]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(&dir);
        writer.lead(4).unwrap();
        (0..4).for_each(|value| append(&mut writer, value));
        writer.resign();
        let log = writer.partition().clone();
        let marks = LeaderMarks { high_watermark: 4, log_start: leader_start };
        let task = Task::Append { records: Bytes::new(), marks };
        let end = log_end(&log);
        let mut attempt = || apply(&mut writer, &task, leader_epoch, end, NOW_MS).unwrap();
        let is_emptied = matches!(attempt(), Attempt::Emptied(_));
        assert_eq!(is_emptied, (leader_epoch, leader_start) == (5, 4), "{leader_epoch} {leader_start}");
        assert!(matches!(attempt(), Attempt::Applied(applied) if applied.end == end));
        assert_eq!((log.log_start(), log.log_end()), expected, "{leader_epoch} {leader_start}");
    }
}
