//! Tasks of a follower on a real log.

use bytes::Bytes;
use levada_log::batch::Builder;
use levada_log::{Append, OpenOptions, Writer};

use super::*;
use crate::replication::follower::LeaderMarks;

const NOW_MS: i64 = 1;

/// Simulation, seed 40344318, and the property of followers: a former leader kept records of its
/// own where its leader had deleted others, and a crash that brought an older log start back
/// showed them.
#[test]
fn nothing_is_kept_below_the_log_start_of_a_leader_that_cannot_compare_it() {
    let of_this_leader = (4, 4);
    for (leader_epoch, leader_start, expected) in
        [(5, 4, of_this_leader), (4, 4, of_this_leader), (5, 3, (3, 4)), (5, 0, (0, 4))]
    {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, _) = Writer::open(OpenOptions::new(dir.path().join("t-0")), NOW_MS).unwrap();
        writer.lead(4).unwrap();
        for value in 0..4_u8 {
            let mut batch = Builder::new();
            batch.push(0, None, Some(&[value]));
            writer.append(&mut [Append::client(batch.build().unwrap())], NOW_MS).pop().unwrap().unwrap();
        }
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
