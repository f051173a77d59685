//! The vector that a log must equal: every batch ever accepted and not cut off again, and what
//! follows from them.

use std::collections::BTreeMap;

use levada_base::batch::{self, BatchView, EndMarker, Marker};

/// A batch as it must lie in the log.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
}

impl Stored {
    pub(crate) fn view(&self) -> BatchView<'_> {
        BatchView::parse(&self.bytes).expect("the model made it")
    }

    pub(crate) fn base(&self) -> i64 {
        self.view().base_offset()
    }

    pub(crate) fn last(&self) -> i64 {
        self.view().last_offset()
    }

    /// (offset, timestamp) of its records.
    pub(crate) fn records(&self) -> impl Iterator<Item = (i64, i64)> {
        let (base, time) = (self.base(), self.view().base_timestamp());
        let records = batch::records(&self.bytes).expect("the model made it");
        records.map(move |record| {
            let record = record.expect("the model made it");
            (base + i64::from(record.offset_delta), time + record.timestamp_delta)
        })
    }
}

/// One producer, from its batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    /// (first sequence, last sequence, base offset) of the last five batches of the epoch.
    pub(crate) window: Vec<(i32, i32, i64)>,
    pub(crate) open_since: Option<i64>,
    /// Number of batches of the window that a snapshot may have left out: all but the last that
    /// were there when the log was opened.
    pub(crate) doubtful: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) batches: Vec<Stored>,
    pub(crate) log_start: i64,
    pub(crate) end: i64,
    pub(crate) epoch: i32,
    /// Offsets at which epochs began.
    pub(crate) epochs: Vec<(i32, i64)>,
    pub(crate) producers: BTreeMap<i64, Producer>,
    pub(crate) aborted: Vec<Aborted>,
    pub(crate) lost_snapshot: bool,
}

impl Model {
    /// Takes a batch that the log has accepted and patched.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let stored = Stored { bytes: bytes.to_vec() };
        self.end = stored.last() + 1;
        self.note(&stored);
        self.batches.push(stored);
    }

    fn note(&mut self, stored: &Stored) {
        let view = stored.view();
        if view.producer_id() < 0 {
            return;
        }
        let producer = self.producers.entry(view.producer_id()).or_default();
        if producer.epoch != view.producer_epoch() {
            producer.epoch = view.producer_epoch();
            producer.window.clear();
            producer.doubtful = 0;
        }
        if let Some(marker) = view.is_control().then(|| EndMarker::parse(&stored.bytes).expect("a marker")) {
            if let Some(first) = producer.open_since.take()
                && marker.marker == Marker::Abort
            {
                let aborted = Aborted { producer_id: view.producer_id(), first, last: view.last_offset() };
                self.aborted.push(aborted);
            }
            return;
        }
        producer.window.push((view.base_sequence(), view.last_sequence(), view.base_offset()));
        if producer.window.len() > 5 {
            producer.window.remove(0);
            producer.doubtful = producer.doubtful.saturating_sub(1);
        }
        if view.is_transactional() {
            producer.open_since.get_or_insert(view.base_offset());
        }
    }

    pub(crate) fn last_stable(&self) -> i64 {
        let oldest = self.producers.values().filter_map(|producer| producer.open_since).min();
        oldest.map_or(self.end, |first| first.max(self.log_start))
    }

    /// Lets the log end at `offset`, before the batch that reaches over it.
    pub(crate) fn truncate(&mut self, offset: i64) {
        self.end = self
            .batches
            .iter()
            .find(|stored| stored.last() >= offset)
            .map_or(offset, |stored| stored.base().min(offset));
        self.batches.retain(|stored| stored.last() < offset);
        self.log_start = self.log_start.min(self.end);
        let end = self.end;
        self.epochs.retain(|(_, first)| *first < end);
        self.begin_epoch(self.epoch);
        self.reload();
    }

    /// Nothing is left of a log whose start had been moved beyond what is left.
    pub(crate) fn start_over(&mut self, log_start: i64) {
        *self = Self { log_start, end: log_start, epoch: self.epoch, ..Self::default() };
        self.begin_epoch(self.epoch);
    }

    /// Reloads the producers from a snapshot and the records after it, which may contain less than
    /// the whole log.
    pub(crate) fn reload(&mut self) {
        self.producers.clear();
        self.aborted.clear();
        for stored in self.batches.clone() {
            self.note(&stored);
        }
        for producer in self.producers.values_mut() {
            producer.doubtful = producer.window.len().saturating_sub(1);
        }
    }

    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
        if self.epochs.last().is_none_or(|(last, _)| *last < epoch) {
            let end = self.end;
            self.epochs.retain(|(_, first)| *first < end);
            self.epochs.push((epoch, end));
        }
    }

    pub(crate) fn advance(&mut self, offset: i64) {
        self.log_start = self.log_start.max(offset);
        let covered = self.epochs.iter().rposition(|(_, first)| *first <= self.log_start);
        if let Some(current) = covered {
            self.epochs.drain(..current);
            self.epochs[0].1 = self.epochs[0].1.max(self.log_start);
        }
    }
}
