//! Pending appends to the log, and the results that wait for them.

use std::collections::BTreeMap;

use super::slots::Draft;
use super::{Coordinator, PartResult, Place};
use crate::machine::{EncodedRecord, PersistFailure, PersistId};
use crate::share_state::event::Action;
use crate::share_state::key::ShareKey;
use crate::share_state::records::{Record, TooLong};
use crate::share_state::share::Share;

/// The records of the next append, and the appends that the driver has not reported yet.
#[derive(Debug, Default)]
pub(super) struct Appends {
    asked: u64,
    gathered: Gathered,
    under_way: BTreeMap<PersistId, UnderWay>,
}

/// Records of one append, and its consequences.
#[derive(Debug, Default)]
struct Gathered {
    records: Vec<EncodedRecord>,
    bytes: usize,
    consequences: Consequences,
}

#[derive(Debug, Default)]
struct Consequences {
    /// Keys whose drafts are in the append, each once.
    keys: Vec<ShareKey>,
    /// Results of operations that hold if the records are in the log.
    results: Vec<(Place, PartResult)>,
}

/// An append, and the driver's report about it.
#[derive(Debug)]
struct UnderWay {
    consequences: Consequences,
    /// Reports take effect in the order of the appends: until then this one waits here.
    reported: Option<Result<i64, PersistFailure>>,
}

impl Appends {
    /// Removes and returns the first append if it is reported.
    fn take_reported(&mut self) -> Option<(Consequences, Result<i64, PersistFailure>)> {
        let first = self.under_way.first_entry()?;
        let result = first.get().reported?;
        Some((first.remove().consequences, result))
    }
}

impl Coordinator {
    /// Drafts the next state of a key and adds its record to the next append.
    pub(super) fn write(&mut self, key: &ShareKey, record: &Record) -> Result<(), TooLong> {
        let encoded = record.encode()?;
        if !self.slots.is_drafted(key) {
            self.appends.gathered.consequences.keys.push(key.clone());
        }
        let position = self.appends.gathered.records.len();
        let updates_per_snapshot = self.config.updates_per_snapshot;
        self.slots.draft(key, |draft| draft.apply(record, position, updates_per_snapshot));
        self.appends.gathered.bytes +=
            encoded.key.len() + encoded.value.as_ref().map_or(0, |value| value.len());
        self.appends.gathered.records.push(encoded);
        Ok(())
    }

    /// The result of an operation that holds once the draft of its key, if there is one, is in the
    /// log.
    pub(super) fn result_with_draft(&mut self, key: &ShareKey, place: Place, result: PartResult) {
        if self.slots.is_drafted(key) {
            self.appends.gathered.consequences.results.push((place, result));
        } else {
            self.result(place, result);
        }
    }

    /// Sends the next append to the host if it is large.
    pub(super) fn flush_if_large(&mut self) {
        if self.appends.gathered.bytes >= self.config.batch_bytes {
            self.flush();
        }
    }

    /// Sends the next append to the host, if it has records.
    pub(super) fn flush(&mut self) {
        let Gathered { records, consequences, .. } = std::mem::take(&mut self.appends.gathered);
        if records.is_empty() {
            return;
        }
        consequences.keys.iter().for_each(|key| self.slots.sent(key));
        let id = PersistId(self.appends.asked);
        self.appends.asked += 1;
        let before = self.appends.under_way.insert(id, UnderWay { consequences, reported: None });
        assert!(before.is_none(), "an append has a name of its own");
        self.actions.push(Action::Persist(id, records));
    }

    pub(super) fn persisted(&mut self, id: PersistId, result: Result<i64, PersistFailure>, now_ms: i64) {
        let Some(append) = self.appends.under_way.get_mut(&id) else { return };
        assert!(append.reported.is_none(), "an append is reported once");
        append.reported = Some(result);
        while let Some((consequences, result)) = self.appends.take_reported() {
            if result == Err(PersistFailure::Lost) {
                // The content of the log is unknown: no request is served from memory any more.
                return self.unload();
            }
            self.settle(consequences, result, now_ms);
        }
    }

    /// Handles the end of an append: the records are in the log, or never will be.
    fn settle(&mut self, consequences: Consequences, result: Result<i64, PersistFailure>, now_ms: i64) {
        let Consequences { keys, results } = consequences;
        for key in &keys {
            let Some(draft) = self.slots.take_draft(key) else { continue };
            if let Ok(base_offset) = result {
                self.adopt(key, draft, base_offset);
            }
        }
        for (place, answer) in results {
            self.result(place, result.map_err(Into::into).and(answer));
        }
        for key in &keys {
            self.resume(key, now_ms);
        }
    }

    /// Makes the draft of a key its state; its records are in the log from this offset on.
    fn adopt(&mut self, key: &ShareKey, draft: Draft, base_offset: i64) {
        let offset = |position: usize| base_offset + i64::try_from(position).unwrap_or(0);
        if let Some(position) = draft.removed_at {
            self.floors.remove(offset(position));
        }
        let mut next = draft.share;
        if let (Some(share), Some(position)) = (&mut next, draft.snapshot_at) {
            share.floor = offset(position);
        }
        if next.is_none() {
            self.scans.removed(key);
        }
        self.store(key, next);
    }
}

impl Draft {
    /// Changes the draft by a record at this position of its append.
    fn apply(&mut self, record: &Record, position: usize, updates_per_snapshot: u32) {
        match record {
            Record::Snapshot(_, Some(snapshot)) => {
                self.share = Some(Share::after_snapshot(self.share.as_ref(), snapshot, updates_per_snapshot));
                self.snapshot_at = Some(position);
            }
            Record::Snapshot(_, None) => {
                self.share = None;
                self.removed_at = Some(position);
            }
            Record::Update(_, Some(update)) => {
                if let Some(share) = &mut self.share {
                    share.update(update);
                }
            }
            Record::Update(_, None) | Record::Other(_) => {}
        }
    }
}
