//! Acknowledged records, and the part of them that must be readable.

use std::collections::BTreeMap;

use bytes::BytesMut;
use levada_base::batch::{BatchView, Builder};
use levada_log::Appended;
use levada_process::clock::now_ms;
use levada_remote::Store;

use super::node::{Limits, Node};

/// `retention.ms` of the topic.
pub(super) const RETENTION_MS: i64 = 3_600_000;

/// A batch in the log.
struct Fact {
    offset: i64,
    epoch: i32,
    crc: u32,
    bytes: i64,
    /// True if `retention.ms` lets the batch go.
    is_old: bool,
}

/// Acknowledged batches, and how far the log's start may be.
pub(super) struct Ledger {
    limits: Limits,
    facts: Vec<Fact>,
    /// Offset before which a client has deleted all records.
    deleted_before: i64,
    /// The highest start of a log so far.
    pub(super) start: i64,
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, facts: Vec::new(), deleted_before: 0, start: 0 }
    }

    /// A batch for the log. Its content is unique.
    pub(super) fn batch(&self, is_old: bool, padding: usize) -> BytesMut {
        let time_ms = if is_old { now_ms() - 2 * RETENTION_MS } else { now_ms() };
        let value = format!("{}:{}", self.facts.len(), ".".repeat(padding));
        let mut batch = Builder::new();
        batch.push(time_ms, None, Some(value.as_bytes()));
        batch.build().unwrap()
    }

    /// A batch is acknowledged.
    pub(super) fn note(&mut self, batch: &[u8], is_old: bool, (appended, epoch): (Appended, i32)) {
        let crc = BatchView::parse(batch).unwrap().stored_crc();
        let (offset, bytes) = (appended.base_offset, batch.len() as i64);
        self.facts.push(Fact { offset, epoch, crc, bytes, is_old });
    }

    pub(super) fn note_deletion(&mut self, before: i64) {
        self.deleted_before = self.deleted_before.max(before);
    }

    pub(super) fn end(&self) -> i64 {
        self.facts.last().map_or(0, |fact| fact.offset + 1)
    }

    /// Checks the start of a log: it passes only records that a limit, or a client, lets go.
    pub(super) fn check_start(&mut self, node: &Node) -> Result<(), String> {
        let start = node.partition().log().log_start();
        if start <= self.start {
            return Ok(());
        }
        let kept = |fact: &&Fact| fact.offset < start && fact.offset >= self.deleted_before && !fact.is_old;
        if let Some(kept) = self.facts.iter().rev().find(kept) {
            // Later records may have gone by their age since.
            let later = self.facts.iter().filter(|fact| fact.offset > kept.offset);
            let left: i64 = later.map(|fact| fact.bytes).sum();
            // A segment counts whole until a client has deleted all of its records.
            let deleted = if self.deleted_before > 0 { i64::from(self.limits.segment_bytes) } else { 0 };
            if self.limits.retention_bytes < 0 || left + deleted < self.limits.retention_bytes {
                return Err(format!(
                    "the log of node {} begins at {start}, and retention keeps offset {}: {left} bytes follow",
                    node.id, kept.offset
                ));
            }
        }
        self.start = start;
        Ok(())
    }

    /// Reads all records of the leader's log from an offset on, its own and the remote ones.
    pub(super) fn check_records(&self, node: &Node, from: i64, store: &Store) -> Result<(), String> {
        let (partition, remote) = (node.partition(), node.remote().ok_or("the remote side is not known")?);
        let log = partition.log();
        let lineage = log.leader_epochs();
        let local = local(log);
        let mut copies = BTreeMap::new();
        for fact in self.facts.iter().filter(|fact| fact.offset >= from) {
            let Fact { offset, epoch, crc, .. } = *fact;
            let known = lineage.iter().rev().find(|(_, start)| *start <= offset).map(|(epoch, _)| *epoch);
            if known.is_some_and(|known| known != epoch) {
                return Err(format!(
                    "offset {offset} of epoch {epoch} is in epoch {known:?} of node {}",
                    node.id
                ));
            }
            let found = if offset >= log.local_log_start() {
                local.get(&offset).copied()
            } else {
                let segment = remote.segment_for(epoch, offset).map_err(|error| error.to_string())?;
                let segment = segment.ok_or_else(|| {
                    format!("no segment has offset {offset} of epoch {epoch}; the local log of node {} begins at {}", node.id, log.local_log_start())
                })?;
                let copy = copies.entry(segment.id.id).or_insert_with(|| copied(store, &segment));
                copy.as_ref().map_err(Clone::clone)?.get(&offset).copied()
            };
            if found != Some((epoch, crc)) {
                return Err(format!("offset {offset} is {found:?}, not {:?}", (epoch, crc)));
            }
        }
        Ok(())
    }
}

/// Epoch and checksum of each batch, by offset.
type Batches = BTreeMap<i64, (i32, u32)>;

fn local(log: &levada_log::Partition) -> Batches {
    let (mut found, mut next) = (Batches::new(), log.local_log_start());
    while next < log.high_watermark() {
        let bytes = log.read_batches(next, 1 << 20).unwrap();
        found.extend(batches(&bytes));
        next = found.last_key_value().expect("a batch is there").0 + 1;
    }
    found
}

fn copied(store: &Store, segment: &levada_tiered::RemoteSegment) -> Result<Batches, String> {
    let mut bytes = Vec::new();
    let mut take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let size = u64::from(segment.size.unsigned_abs());
    store.fetch_log(segment, 0..size, &mut take).map_err(|error| error.to_string())?;
    Ok(batches(&bytes))
}

/// The batches of one record each.
fn batches(mut bytes: &[u8]) -> Batches {
    let mut found = Batches::new();
    while let Ok(batch) = BatchView::parse(bytes) {
        found.insert(batch.base_offset(), (batch.leader_epoch(), batch.stored_crc()));
        bytes = &bytes[batch.size_bytes()..];
    }
    found
}
