//! The state of idempotent producers: rejects out-of-order batches, recognises repeated ones, and
//! tracks open transactions. A state machine without clock or disk; its snapshots are in
//! [`snapshot`].

use std::collections::{BTreeMap, HashMap};

use levada_base::Source;
use levada_base::batch::{BatchView, EndMarker, Marker};

use crate::AppendError;
use crate::index::Aborted;
use crate::marks::Ended;

mod last;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

pub use self::last::LastRecords;

/// Batches stored per producer: the limit of a client's batches in flight.
const WINDOW: usize = 5;

/// One batch of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) last_sequence: i32,
    pub(crate) last_offset: i64,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp: i64,
}

impl Written {
    fn first_sequence(&self) -> i32 {
        self.last_sequence.wrapping_sub(self.offset_delta) & i32::MAX
    }

    pub(crate) fn base_offset(&self) -> i64 {
        self.last_offset - i64::from(self.offset_delta)
    }
}

/// State of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) last_timestamp: i64,
    pub(crate) transaction_start: Option<i64>,
    window: [Written; WINDOW],
    used: usize,
    // Time of the last batch: by the clock if this process appended it, else by its last timestamp.
    seen_ms: i64,
}

impl Producer {
    fn new(epoch: i16, now_ms: i64) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: -1,
            transaction_start: None,
            window: [Written::default(); WINDOW],
            used: 0,
            seen_ms: now_ms,
        }
    }

    /// The last batch of the current epoch.
    pub(crate) fn last(&self) -> Option<&Written> {
        self.window[..self.used].last()
    }

    fn last_sequence(&self) -> i32 {
        self.last().map_or(-1, |written| written.last_sequence)
    }

    fn begin_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.used = 0;
        }
    }

    fn push(&mut self, written: Written) {
        if self.used == WINDOW {
            self.window.rotate_left(1);
            self.used -= 1;
        }
        self.window[self.used] = written;
        self.used += 1;
    }
}

/// A batch that may be appended, or a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceCheck {
    New,
    Duplicate(Written),
}

/// A transaction that a marker has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) marker: Marker,
}

impl Completed {
    /// The ended transactions, which hold the last stable offset back until their markers are
    /// replicated.
    pub(crate) fn ended(&self) -> Ended {
        Ended { first_offset: self.first_offset, marker_offset: self.last_offset }
    }

    /// Entry in the transaction index, if the transaction was aborted. `first_unstable` is that of
    /// the producers with this transaction ended.
    pub(crate) fn aborted(&self, first_unstable: Option<i64>) -> Option<Aborted> {
        (self.marker == Marker::Abort).then(|| Aborted {
            producer_id: self.producer_id,
            first_offset: self.first_offset,
            last_offset: self.last_offset,
            last_stable: first_unstable.unwrap_or(self.last_offset + 1),
        })
    }
}

/// A producer as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub epoch: i16,
    /// The sequence number of its last record, -1 if it has written none under this epoch.
    pub last_sequence: i32,
    /// The timestamp of its last batch.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that ended its last transaction, -1 if none did.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction.
    pub transaction_start: Option<i64>,
}

/// All producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    known: HashMap<i64, Producer>,
    // First offset of an open transaction -> its producer.
    open: BTreeMap<i64, i64>,
    // Former states of the producers that a group changed, to be restored if its write fails.
    undo: Vec<(i64, Option<Producer>)>,
}

impl Producers {
    /// The first offset of the oldest open transaction.
    pub(crate) fn first_unstable(&self) -> Option<i64> {
        self.open.first_key_value().map(|(offset, _)| *offset)
    }

    /// Checks a batch with a producer id. `version` is that of the transaction protocol.
    pub(crate) fn check(
        &self,
        batch: &BatchView<'_>,
        source: Source,
        version: u8,
    ) -> Result<SequenceCheck, AppendError> {
        let producer_id = batch.producer_id();
        if batch.is_control() {
            return self.check_marker(batch, version);
        }
        let (epoch, sequence) = (batch.producer_epoch(), batch.base_sequence());
        let out_of_order = |expected| AppendError::OutOfOrderSequence { producer_id, sequence, expected };
        let Some(producer) = self.known.get(&producer_id) else {
            // Its records may have been deleted since: any first sequence will do, except where the
            // protocol rules that out.
            let must_start = source == Source::Client && version >= 2 && batch.is_transactional();
            return if must_start && sequence != 0 { Err(out_of_order(0)) } else { Ok(SequenceCheck::New) };
        };
        if source == Source::Client
            && let Some(written) = duplicate(producer, batch)
        {
            return Ok(SequenceCheck::Duplicate(written));
        }
        if epoch < producer.epoch {
            return Err(AppendError::ProducerEpoch { producer_id, epoch, current: producer.epoch });
        }
        if source == Source::Client {
            let expected = match producer.last_sequence() {
                _ if epoch != producer.epoch => 0,
                last => last.wrapping_add(1) & i32::MAX,
            };
            if sequence != expected {
                return Err(out_of_order(expected));
            }
        }
        if producer.transaction_start.is_some() && !batch.is_transactional() {
            let what = "records outside the transaction it has open";
            return Err(AppendError::TransactionState { producer_id, what });
        }
        Ok(SequenceCheck::New)
    }

    /// True if the log has a batch of the producer.
    pub(crate) fn knows(&self, batch: &BatchView<'_>) -> bool {
        self.known.contains_key(&batch.producer_id())
    }

    fn check_marker(&self, batch: &BatchView<'_>, version: u8) -> Result<SequenceCheck, AppendError> {
        let producer_id = batch.producer_id();
        let Some(marker) = EndMarker::parse(batch.bytes()) else { return Ok(SequenceCheck::New) };
        let Some(producer) = self.known.get(&producer_id) else { return Ok(SequenceCheck::New) };
        let (epoch, current) = (batch.producer_epoch(), producer.epoch);
        // The second protocol raises the epoch with every marker: a marker without a new epoch is
        // late, unless it repeats the last one with no batch after it.
        let is_late = version >= 2 && epoch == current && producer.transaction_start.is_some();
        if epoch < current || is_late {
            return Err(AppendError::ProducerEpoch { producer_id, epoch, current });
        }
        if marker.coordinator_epoch < producer.coordinator_epoch {
            let (epoch, current) = (marker.coordinator_epoch, producer.coordinator_epoch);
            return Err(AppendError::CoordinatorEpoch { epoch, current });
        }
        Ok(SequenceCheck::New)
    }

    /// Records a batch whose offsets are assigned. Reversible until [`Producers::commit`].
    pub(crate) fn note(&mut self, batch: &BatchView<'_>, now_ms: i64) -> Option<Completed> {
        let id = batch.producer_id();
        if id < 0 {
            return None;
        }
        let former = self.known.get(&id).copied();
        self.undo.push((id, former));
        let mut producer = former.unwrap_or_else(|| Producer::new(batch.producer_epoch(), now_ms));
        producer.seen_ms = now_ms;
        producer.begin_epoch(batch.producer_epoch());
        producer.last_timestamp = batch.max_timestamp();
        let mut completed = None;
        if batch.is_control() {
            if let Some(end) = EndMarker::parse(batch.bytes()) {
                let first = producer.transaction_start.take();
                producer.coordinator_epoch = end.coordinator_epoch;
                completed = first.map(|first_offset| Completed {
                    producer_id: id,
                    first_offset,
                    last_offset: batch.last_offset(),
                    marker: end.marker,
                });
            }
        } else {
            producer.push(Written {
                last_sequence: batch.last_sequence(),
                last_offset: batch.last_offset(),
                offset_delta: batch.last_offset_delta(),
                timestamp: batch.max_timestamp(),
            });
            if batch.is_transactional() && producer.transaction_start.is_none() {
                producer.transaction_start = Some(batch.base_offset());
            }
        }
        self.put(id, Some(producer));
        completed
    }

    /// True if the producer has a transaction open under this epoch.
    pub(crate) fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        let known = self.known.get(&producer_id);
        known.is_some_and(|producer| producer.epoch == epoch && producer.transaction_start.is_some())
    }

    /// The earliest last timestamp of a producer with an open transaction; none if no transaction
    /// is open.
    pub(crate) fn stalest_open_ms(&self) -> Option<i64> {
        let open = self.open.values().filter_map(|id| self.known.get(id));
        open.map(|producer| producer.last_timestamp).min()
    }

    /// State of each producer, by id.
    pub(crate) fn states(&self) -> Vec<ProducerState> {
        let states = self.known.iter().map(|(id, producer)| ProducerState {
            producer_id: *id,
            epoch: producer.epoch,
            last_sequence: producer.last_sequence(),
            last_timestamp: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_start: producer.transaction_start,
        });
        let mut states: Vec<ProducerState> = states.collect();
        states.sort_unstable_by_key(|state| state.producer_id);
        states
    }

    /// The last record of each.
    pub(crate) fn last_records(&self) -> LastRecords {
        let last = |producer: &Producer| producer.last().map(|written| written.last_offset);
        let known = self.known.iter();
        let by_producer = known.map(|(id, one)| (*id, (one.epoch, last(one)))).collect();
        LastRecords { by_producer, open: self.open.clone() }
    }

    /// Ends every transaction that is not `still_open`, given by first offset and producer.
    pub(crate) fn end_transactions(&mut self, still_open: &BTreeMap<i64, i64>) {
        let is_open = |start: i64, id: i64| still_open.get(&start) == Some(&id);
        self.open.retain(|start, id| is_open(*start, *id));
        for (id, producer) in &mut self.known {
            producer.transaction_start = producer.transaction_start.filter(|start| is_open(*start, *id));
        }
    }

    /// Makes all recorded changes final.
    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    /// Restores the states of the last commit.
    pub(crate) fn roll_back(&mut self) {
        while let Some((id, former)) = self.undo.pop() {
            self.put(id, former);
        }
    }

    /// Removes producers that have not written for `expiration_ms` and have no open transaction;
    /// returns their number.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.known.len();
        self.known.retain(|_, producer| {
            producer.transaction_start.is_some() || now_ms.saturating_sub(producer.seen_ms) < expiration_ms
        });
        // The memory of many short-lived producers is released.
        if self.known.len() < self.known.capacity() / 4 {
            self.known.shrink_to_fit();
        }
        debug_assert!(self.open.values().all(|id| self.known.contains_key(id)), "open transactions stay");
        before - self.known.len()
    }

    fn put(&mut self, id: i64, state: Option<Producer>) {
        let start_of = |producer: Option<&Producer>| producer.and_then(|producer| producer.transaction_start);
        let (before, after) = (start_of(self.known.get(&id)), start_of(state.as_ref()));
        if before != after {
            before.and_then(|offset| self.open.remove(&offset));
            after.and_then(|offset| self.open.insert(offset, id));
        }
        match state {
            Some(producer) => self.known.insert(id, producer),
            None => self.known.remove(&id),
        };
    }
}

fn duplicate(producer: &Producer, batch: &BatchView<'_>) -> Option<Written> {
    if producer.epoch != batch.producer_epoch() {
        return None;
    }
    let sequences = (batch.base_sequence(), batch.last_sequence());
    let known = producer.window[..producer.used].iter();
    known.copied().find(|written| (written.first_sequence(), written.last_sequence) == sequences)
}
