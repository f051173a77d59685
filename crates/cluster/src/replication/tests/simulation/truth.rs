//! The outside view of the partition: what was shown as committed, and what was acknowledged. Every
//! event is checked against it.

use std::collections::{BTreeMap, HashMap};

use bytes::BytesMut;
use levada_base::batch::{self, BatchView, Builder};
use levada_log::Partition;

/// An acknowledged batch.
#[derive(Clone, Debug)]
struct Acknowledged {
    offset: i64,
    /// Leader epoch of the acknowledgement.
    epoch: i32,
}

/// Committed and acknowledged batches of the partition.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Batches below a high watermark, by offset.
    committed: BTreeMap<i64, Vec<u8>>,
    /// Batches acknowledged with acks=all, by the number in their record.
    acknowledged: HashMap<u64, Acknowledged>,
    /// The node that acknowledges in each leader epoch.
    acknowledges: HashMap<i32, i32>,
    committed_end: i64,
    /// Records before this offset were deleted.
    deleted_end: i64,
    /// True if leaders may have shown batches that are not in `committed`.
    is_rewritten: bool,
    pub(super) count: usize,
}

/// The number that a client wrote into the record of a batch.
pub(super) fn number_of(bytes: &[u8]) -> Option<u64> {
    let record = batch::records(bytes).ok()?.next()?.ok()?;
    Some(u64::from_be_bytes(record.value?.as_ref().try_into().ok()?))
}

/// The batches of a log from an offset on, up to another one.
pub(super) fn batches(partition: &Partition, from: i64, upto: i64) -> Result<Vec<Vec<u8>>, String> {
    let (mut found, mut at) = (Vec::new(), from);
    while at < upto {
        let bytes = partition.read_batches(at, 1 << 20).map_err(|error| format!("reading {at}: {error}"))?;
        let mut rest = &bytes[..];
        while let Ok(batch) = batch::check_stored(rest) {
            if batch.base_offset() >= upto {
                break;
            }
            at = batch.last_offset() + 1;
            found.push(batch.bytes().to_vec());
            rest = &rest[batch.size_bytes()..];
        }
        if rest.len() == bytes.len() {
            return Err(format!("no batch at offset {at}, the log ends at {}", partition.log_end()));
        }
    }
    Ok(found)
}

impl Truth {
    /// Compares what a node shows as committed from `from` on; its leader shows it first.
    pub(super) fn shown(
        &mut self,
        (node, leads): (i32, bool),
        partition: &Partition,
        from: i64,
    ) -> Result<i64, String> {
        let high = partition.high_watermark();
        for bytes in batches(partition, from.max(partition.log_start()), high)? {
            let batch = BatchView::parse(&bytes).map_err(|error| error.to_string())?;
            let offset = batch.base_offset();
            if batch.last_offset() >= high {
                return Err(format!(
                    "node {node}: the high watermark {high} is within the batch at {offset}"
                ));
            }
            match self.committed.get(&offset) {
                Some(known) if *known == bytes => {}
                Some(known) => {
                    let epoch = BatchView::parse(known).map_or(-1, |known| known.leader_epoch());
                    return Err(format!(
                        "invariant 2: node {node} shows another batch at {offset} (epoch {}) than was committed (epoch {epoch})",
                        batch.leader_epoch()
                    ));
                }
                // A leader that an unclean election has replaced may have committed it since.
                None if !leads && self.is_rewritten => {}
                None if leads => drop(self.committed.insert(offset, bytes)),
                None => {
                    return Err(format!(
                        "invariant 3: node {node} shows offset {offset}, which no leader did"
                    ));
                }
            }
        }
        if leads {
            self.committed_end = self.committed_end.max(high);
        }
        Ok(high)
    }

    /// Not all that a leader shows is compared: damage is in a part that no opening has looked at.
    pub(super) fn tolerate_gaps(&mut self) {
        self.is_rewritten = true;
    }

    /// End of what a leader has shown.
    pub(super) fn committed_end(&self) -> i64 {
        self.committed_end
    }

    /// Records before an offset were deleted.
    pub(super) fn delete(&mut self, upto: i64) {
        self.deleted_end = self.deleted_end.max(upto);
    }

    /// A log begins no later than records were deleted.
    pub(super) fn check_start(&self, node: i32, partition: &Partition) -> Result<(), String> {
        let (start, deleted) = (partition.log_start(), self.deleted_end);
        if start > deleted {
            Err(format!(
                "invariant 9: the log of node {node} begins at {start}, records were deleted up to {deleted}"
            ))
        } else {
            Ok(())
        }
    }

    /// Notes that a leader has acknowledged a batch.
    pub(super) fn acknowledge(
        &mut self,
        (node, epoch): (i32, i32),
        (number, offset): (u64, i64),
        all: bool,
    ) -> Result<(), String> {
        let other = *self.acknowledges.entry(epoch).or_insert(node);
        if other != node {
            return Err(format!("invariant 6: nodes {node} and {other} acknowledge in epoch {epoch}"));
        }
        self.count += 1;
        if all {
            self.acknowledged.insert(number, Acknowledged { offset, epoch });
        }
        Ok(())
    }

    /// An unclean election has made this log the truth; returns the offset from which on it
    /// differs from what was committed.
    pub(super) fn rewrite(&mut self, partition: &Partition) -> Result<i64, String> {
        let (start, end) = (partition.log_start(), partition.log_end());
        let mut same = start;
        for bytes in batches(partition, start, end)? {
            let batch = BatchView::parse(&bytes).map_err(|error| error.to_string())?;
            if self.committed.get(&batch.base_offset()).is_some_and(|known| *known != bytes) {
                // The log may begin within the batch.
                same = same.min(batch.base_offset());
                break;
            }
            same = batch.last_offset() + 1;
        }
        self.committed.split_off(&same);
        self.is_rewritten = true;
        self.committed_end = self.committed_end.min(same);
        Ok(same)
    }

    /// Looks in the log of the last leader for every batch that was acknowledged in the leader
    /// epoch `floor` or later: before, an unclean election may have lost it.
    pub(super) fn audit(&self, partition: &Partition, floor: i32) -> Result<(), String> {
        let log_start = partition.log_start();
        let mut found = HashMap::new();
        for bytes in batches(partition, log_start, partition.log_end())? {
            let offset = BatchView::parse(&bytes).map_err(|error| error.to_string())?.base_offset();
            let number = number_of(&bytes).ok_or_else(|| format!("the batch at {offset} has no number"))?;
            if let Some(before) = found.insert(number, offset) {
                return Err(format!("batch {number} is at {before} and at {offset}"));
            }
        }
        for (number, acknowledged) in &self.acknowledged {
            let counts = acknowledged.epoch >= floor && acknowledged.offset >= log_start;
            if counts && found.get(number) != Some(&acknowledged.offset) {
                return Err(format!(
                    "invariant 1: batch {number}, acknowledged at {} with acks=all, is lost",
                    acknowledged.offset
                ));
            }
        }
        Ok(())
    }
}

/// Batches of a leader that begin before the end of the follower's log: the last batch of the log
/// and the first one of the response are one batch. None if one of the logs has nothing before.
pub(super) fn merged(log: &Partition, leader_start: i64, records: &[u8]) -> Option<BytesMut> {
    let first = BatchView::parse(records).ok()?;
    let offset = first.base_offset();
    let is_within = offset > log.log_start().max(leader_start) && offset == log.log_end();
    let before = log.read_batches(offset - 1, 1).ok().filter(|_| is_within)?;
    let base = BatchView::parse(&before).ok()?.base_offset();
    let mut builder = Builder::new().base_offset(base).leader_epoch(first.leader_epoch());
    for _ in base..=first.last_offset() {
        builder.push(first.base_timestamp(), None, Some(&u64::MAX.to_be_bytes()));
    }
    builder.build().ok()
}

/// The first batch of a response with other records, and a checksum that is right.
pub(super) fn replaced(records: &[u8]) -> Option<BytesMut> {
    let first = BatchView::parse(records).ok()?;
    let mut builder = Builder::new().base_offset(first.base_offset()).leader_epoch(first.leader_epoch());
    if first.producer_id() >= 0 {
        builder = builder.producer(first.producer_id(), first.producer_epoch(), first.base_sequence());
    }
    for _ in 0..first.record_count() {
        builder.push(first.base_timestamp(), None, Some(&u64::MAX.to_be_bytes()));
    }
    builder.build().ok()
}

/// The leader epochs of a log against its batches.
pub(super) fn check_epochs(node: i32, partition: &Partition) -> Result<(), String> {
    let mut last = -1;
    for bytes in batches(partition, partition.log_start(), partition.log_end())? {
        let batch = BatchView::parse(&bytes).map_err(|error| error.to_string())?;
        let (offset, epoch) = (batch.base_offset(), batch.leader_epoch());
        let known = partition.epoch_at(offset.max(partition.log_start()));
        if epoch < last || known != epoch {
            return Err(format!(
                "invariant 5: node {node} has epoch {epoch} at {offset} after {last}; its epochs say {known}"
            ));
        }
        last = epoch;
    }
    Ok(())
}
