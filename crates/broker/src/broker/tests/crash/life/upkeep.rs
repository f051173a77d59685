//! Upkeep of a life's logs: compaction, retention, deletion of records.

use std::sync::Arc;

use levada_process::blocking::off_shard;
use rand::RngExt;

use super::{Life, Span};
use crate::replica::Partition;

/// A partition of a topic, by the topic's place among the facts.
type Known = (usize, Arc<Partition>);

impl Life {
    /// Every partition of the living topics.
    fn partitions(&self) -> Vec<Known> {
        let broker = &self.now().broker;
        let of = |at: usize| {
            let topic = &self.facts.topics[at];
            let partition = move |index| broker.replicas().partition_by_id(topic.id, index).unwrap();
            (0..topic.grown.last().unwrap().0).map(move |index| (at, partition(index)))
        };
        self.living().flat_map(of).collect()
    }

    /// Notes that the records before the recovery points are on the device; returns true if any
    /// recovery point has moved.
    fn note_flushed(&mut self, partitions: &[Known]) -> bool {
        let since = self.recorder.count();
        let mut moved = false;
        for (at, partition) in partitions {
            let (topic, index) = (&mut self.facts.topics[*at], partition.index());
            let point = partition.log().recovery_point();
            if topic.flushed_to(index, since) < point {
                topic.flushed.push((index, point, since));
                moved = true;
            }
        }
        moved
    }

    /// Notes that a checkpoint was written: after a crash, logs do not begin earlier.
    pub(super) fn note_checkpoints(&mut self) {
        let partitions = self.partitions();
        self.note_kept(&partitions);
        self.note_flushed(&partitions);
    }

    fn note_kept(&mut self, partitions: &[Known]) {
        let since = self.recorder.count();
        for (at, partition) in partitions {
            let start = partition.log().log_start();
            self.facts.topics[*at].kept_starts.push((partition.index(), start, since));
        }
    }

    pub(super) fn keep_house(&mut self) -> bool {
        let (partitions, broker) = (self.partitions(), self.now().broker.clone());
        self.beside(async move { broker.keep_house().await });
        self.note_kept(&partitions);
        self.note_flushed(&partitions)
    }

    pub(super) fn flush(&mut self) -> bool {
        let at = self.pick();
        let index = self.pick_partition(at);
        let broker = self.now().broker.clone();
        let partition = broker.replicas().partition_by_id(self.facts.topics[at].id, index).unwrap();
        let flushed = partition.clone();
        let done = self.beside(async move { off_shard(move || flushed.log().flush()).await });
        assert!(done.is_ok() || !self.lives(at), "{done:?}");
        self.note_flushed(&[(at, partition)])
    }

    /// Deletes segments that are older than their topics keep them.
    pub(super) fn expire(&mut self) -> bool {
        let (partitions, broker) = (self.partitions(), self.now().broker.clone());
        let before: Vec<i64> = partitions.iter().map(|(_, partition)| partition.log().log_start()).collect();
        let began = self.recorder.count();
        self.beside(async move {
            let replicas = broker.replicas().clone();
            let work = move || {
                for partition in replicas.partitions().all() {
                    replicas.housekeeping().delete_old_segments(&partition);
                }
            };
            off_shard(work).await;
        });
        let span = Span { began, acknowledged: self.recorder.count() };
        let mut moved = false;
        for ((at, partition), before) in partitions.iter().zip(before) {
            let start = partition.log().log_start();
            if start > before {
                self.facts.topics[*at].starts.push((partition.index(), start, span));
                moved = true;
            }
        }
        moved
    }

    /// Deletes old segments of a log because the log is too large.
    pub(super) fn expire_by_size(&mut self) -> bool {
        let at = self.pick_to_shorten();
        let limit = self.random.random_range(0..2_000).to_string();
        self.set(at, "retention.bytes", limit);
        // No record expires meanwhile.
        self.set(at, "retention.ms", "-1".to_owned());
        let before = self.facts.topics[at].starts.len();
        self.expire();
        let moved = self.facts.topics[at].starts.len() > before;
        if self.lives(at) {
            self.set(at, "retention.bytes", "-1".to_owned());
            self.set(at, "retention.ms", "1000000000".to_owned());
        }
        moved
    }

    pub(super) fn delete_records(&mut self) -> bool {
        let at = self.pick_to_shorten();
        let index = self.pick_partition(at);
        let broker = self.now().broker.clone();
        let partition = broker.replicas().partition_by_id(self.facts.topics[at].id, index).unwrap();
        let (start, end) = (partition.log().log_start(), partition.log().high_watermark());
        // One number, whatever the range is: what comes next by chance does not depend on a marker
        // that is there or not yet.
        let share: f64 = self.random.random();
        let offset = start + ((end - start) as f64 * share).round() as i64;
        let ((), span) = self.span(|_| {
            let discarded = partition.lane().with_writer(|writer| writer.advance_log_start(offset)).unwrap();
            broker.replicas().removals().retire(&partition, discarded.unwrap()).unwrap();
            broker.replicas().removals().remove_due();
        });
        self.facts.topics[at].starts.push((index, offset, span));
        offset > start
    }

    pub(super) fn compact(&mut self) -> bool {
        let replicas = self.now().broker.replicas().clone();
        let before = replicas.cleaner().stats().runs;
        let beside = replicas.clone();
        let work = move || {
            while let Some(chosen) = beside.compaction().choose() {
                beside.compaction().compact(&chosen);
            }
            beside.removals().remove_due();
        };
        self.beside(off_shard(work));
        replicas.cleaner().stats().runs > before
    }
}
