//! The list that a compacted log must equal, and everything that was ever written.

use std::collections::BTreeMap;

use levada_base::batch::{self, BatchView, EndMarker, Marker};

/// A record as it must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rec {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: usize,
}

/// A batch as it must lie in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) base: i64,
    pub(crate) last: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) producer: (i64, i16, i32),
    pub(crate) transactional: bool,
    pub(crate) stamped: bool,
    pub(crate) control: bool,
    pub(crate) horizon_ms: Option<i64>,
    pub(crate) codec: u8,
    pub(crate) records: Vec<Rec>,
}

impl Item {
    /// Decodes a batch.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let view = batch::check_stored(bytes).unwrap();
        let mut records = Vec::new();
        for record in batch::records(bytes).unwrap() {
            let record = record.unwrap();
            records.push(Rec {
                offset: view.base_offset() + i64::from(record.offset_delta),
                timestamp: view.timestamp_of(&record),
                key: record.key.map(|key| key.to_vec()),
                value: record.value.map(|value| value.to_vec()),
                headers: record.headers.len(),
            });
        }
        assert_eq!(records.len(), view.record_count() as usize);
        if let Some(latest) = records.iter().map(|record| record.timestamp).max() {
            assert_eq!(view.max_timestamp(), latest);
        }
        Self {
            base: view.base_offset(),
            last: view.last_offset(),
            leader_epoch: view.leader_epoch(),
            producer: (view.producer_id(), view.producer_epoch(), view.base_sequence()),
            transactional: view.is_transactional(),
            stamped: view.is_log_append_time(),
            control: view.is_control(),
            horizon_ms: view.delete_horizon_ms(),
            codec: view.compression().unwrap().id(),
            records,
        }
    }

    fn emptied(&self) -> Self {
        Self { horizon_ms: None, codec: 0, records: Vec::new(), ..self.clone() }
    }
}

/// A transaction of a producer, from its first batch to its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Txn {
    pub(crate) producer_id: i64,
    pub(crate) first: i64,
    /// The marker's offset and what it says; none while it is open.
    pub(crate) end: Option<(i64, Marker)>,
}

/// One producer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    pub(crate) next_sequence: i32,
    /// The offset of its last record under this epoch.
    pub(crate) last: Option<i64>,
}

/// Circumstances of one compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) first_dirty: i64,
    pub(crate) end: i64,
    /// Up to where keys were learnt.
    pub(crate) reached: i64,
    /// Batches before this one were written again.
    pub(crate) rewritten: i64,
    pub(crate) now_ms: i64,
    pub(crate) delete_retention_ms: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Item>,
    pub(crate) end: i64,
    pub(crate) log_start: i64,
    pub(crate) txns: Vec<Txn>,
    pub(crate) producers: BTreeMap<i64, Producer>,
    /// Every record that was ever written, with its transaction.
    pub(crate) written: Vec<(Rec, Option<usize>)>,
}

impl List {
    /// Takes a batch that was appended and patched.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (item, view) = (Item::of(bytes), BatchView::parse(bytes).unwrap());
        self.end = item.last + 1;
        let mut txn = None;
        if item.producer.0 >= 0 {
            let producer = self.producers.entry(item.producer.0).or_default();
            if producer.epoch != item.producer.1 {
                *producer = Producer { epoch: item.producer.1, ..Producer::default() };
            }
            if item.control {
                let marker = EndMarker::parse(bytes).unwrap().marker;
                if let Some(open) = self.open_txn(item.producer.0) {
                    self.txns[open].end = Some((item.base, marker));
                }
            } else {
                producer.next_sequence = view.last_sequence().wrapping_add(1) & i32::MAX;
                producer.last = Some(item.last);
                if item.transactional {
                    txn = Some(self.open_txn(item.producer.0).unwrap_or_else(|| {
                        let first = item.base;
                        self.txns.push(Txn { producer_id: item.producer.0, first, end: None });
                        self.txns.len() - 1
                    }));
                }
            }
        }
        if !item.control {
            self.written.extend(item.records.iter().map(|record| (record.clone(), txn)));
        }
        self.items.push(item);
    }

    pub(crate) fn open_txn(&self, producer_id: i64) -> Option<usize> {
        self.txns.iter().position(|txn| txn.producer_id == producer_id && txn.end.is_none())
    }

    pub(crate) fn last_stable(&self) -> i64 {
        let open = self.txns.iter().filter(|txn| txn.end.is_none()).map(|txn| txn.first).min();
        open.map_or(self.end, |first| first.max(self.log_start))
    }

    /// The transaction of a batch of records, or the one that a marker ends.
    fn txn_of(&self, item: &Item) -> Option<&Txn> {
        self.txns.iter().find(|txn| {
            let until = txn.end.map_or(i64::MAX, |(offset, _)| offset);
            item.transactional
                && txn.producer_id == item.producer.0
                && (txn.first..=until).contains(&item.base)
        })
    }

    fn is_aborted(&self, item: &Item) -> bool {
        let txn = self.txn_of(item).and_then(|txn| txn.end);
        !item.control && txn.is_some_and(|(_, marker)| marker == Marker::Abort)
    }

    /// Applies a compaction to the list.
    pub(crate) fn clean(&mut self, round: Round) {
        let mut last = BTreeMap::new();
        for item in self.items.iter().filter(|item| !item.control && !self.is_aborted(item)) {
            for record in &item.records {
                if (round.first_dirty..round.reached).contains(&record.offset) {
                    last.insert(record.key.clone(), record.offset);
                }
            }
        }
        let items = self.items.iter().filter_map(|item| {
            if item.base < round.rewritten { self.clean_item(item, &last, round) } else { Some(item.clone()) }
        });
        self.items = items.collect();
    }

    fn clean_item(&self, item: &Item, last: &BTreeMap<Option<Vec<u8>>, i64>, round: Round) -> Option<Item> {
        let is_over = item.horizon_ms.is_some_and(|horizon_ms| horizon_ms <= round.now_ms);
        let of_same = |other: &&Item| !other.control && self.txn_of(other) == self.txn_of(item);
        let is_bare =
            item.control && (self.txn_of(item).is_none() || !self.items.iter().any(|other| of_same(&other)));
        let is_current = |record: &&Rec| {
            record.offset >= round.reached
                || record.key.is_some()
                    && last.get(&record.key).is_none_or(|last| record.offset >= *last)
                    && (record.value.is_some() || !is_over)
        };
        let records: Vec<Rec> = if item.control {
            if is_bare && is_over { Vec::new() } else { item.records.clone() }
        } else if self.is_aborted(item) {
            Vec::new()
        } else {
            item.records.iter().filter(is_current).cloned().collect()
        };
        let producer = self.producers.get(&item.producer.0);
        let is_last = producer.is_some_and(|producer| match producer.last {
            Some(last) => item.last == last,
            None => item.control && item.producer.1 == producer.epoch,
        });
        if records.is_empty() {
            return (is_last || item.last + 1 == round.end).then(|| item.emptied());
        }
        let wants_horizon = is_bare || records.iter().any(|record| record.value.is_none());
        let from_now = Some(round.now_ms + round.delete_retention_ms).filter(|_| wants_horizon);
        Some(Item { horizon_ms: item.horizon_ms.or(from_now), records, ..item.clone() })
    }

    /// The last value of each key that counts, below an offset; none for a tombstone.
    pub(crate) fn last_values(&self, upto: i64) -> BTreeMap<Vec<u8>, Rec> {
        let mut last = BTreeMap::new();
        for (record, txn) in self.written.iter().filter(|(record, _)| record.offset < upto) {
            let counts =
                txn.is_none_or(|txn| self.txns[txn].end.is_some_and(|(_, end)| end == Marker::Commit));
            if let Some(key) = record.key.clone().filter(|_| counts) {
                last.insert(key, record.clone());
            }
        }
        last
    }
}
