//! Share-group state as KIP-932 has it, one offset at a time: what requests do to a key, what a log
//! adds up to, and which states may be left after a crash.

use std::collections::BTreeMap;

use crate::machine::EncodedRecord;
use crate::share_state::batches::StateBatch;
use crate::share_state::error::ShareStateError;
use crate::share_state::key::ShareKey;
use crate::share_state::records::Record;
use crate::share_state::request::{Operation, PartAnswer, StateSummary, StoredState};

/// The state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) state_epoch: i32,
    pub(super) leader_epoch: i32,
    pub(super) start_offset: i64,
    pub(super) delivery_complete_count: i32,
    /// Count and state of each offset that has them.
    offsets: BTreeMap<i64, (i16, i8)>,
    /// Lowest leader epoch and state epoch that are not fenced.
    pub(super) fences: (i32, i32),
}

impl Known {
    /// The state without the fences, which a log that is pruned may not have.
    pub(super) fn unfenced(&self) -> Self {
        Self { fences: (0, 0), ..self.clone() }
    }

    fn add(&mut self, batches: &[StateBatch]) {
        for batch in batches {
            for offset in batch.first_offset.max(self.start_offset)..=batch.last_offset {
                let delivery = (batch.delivery_count, batch.delivery_state);
                let known = self.offsets.entry(offset).or_insert(delivery);
                *known = delivery.max(*known);
            }
        }
        self.offsets = self.offsets.split_off(&self.start_offset);
    }

    /// Number of offsets that are acknowledged or archived.
    fn complete(&self) -> i32 {
        let complete = self.offsets.values().filter(|(_, state)| [2, 4].contains(state));
        i32::try_from(complete.count()).unwrap()
    }

    pub(super) fn stored(&self) -> StoredState {
        let mut batches: Vec<StateBatch> = Vec::new();
        for (&offset, &(delivery_count, delivery_state)) in &self.offsets {
            let single =
                StateBatch { first_offset: offset, last_offset: offset, delivery_state, delivery_count };
            let continues = |last: &&mut StateBatch| {
                (last.last_offset + 1, last.delivery_count, last.delivery_state)
                    == (offset, delivery_count, delivery_state)
            };
            match batches.last_mut().filter(continues) {
                Some(last) => last.last_offset = offset,
                None => batches.push(single),
            }
        }
        StoredState { state_epoch: self.state_epoch, start_offset: self.start_offset, batches }
    }

    pub(super) fn summary(&self) -> StateSummary {
        StateSummary {
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
        }
    }
}

/// The response to an operation on a key of a topic that exists, and the state after it.
pub(super) fn apply(
    before: Option<&Known>,
    operation: &Operation,
) -> (Result<PartAnswer, ShareStateError>, Option<Known>) {
    let unchanged = before.cloned();
    let refused = |error| (Err(error), unchanged.clone());
    match (operation, before) {
        (Operation::Initialize(part), _) => {
            let fences = before.map_or((i32::MIN, i32::MIN), |known| known.fences);
            if part.state_epoch != -1 && part.state_epoch < fences.1 {
                return refused(ShareStateError::FencedStateEpoch);
            }
            let next = Known {
                state_epoch: part.state_epoch,
                leader_epoch: 0,
                start_offset: part.start_offset,
                delivery_complete_count: if part.start_offset == -1 { -1 } else { 0 },
                offsets: BTreeMap::new(),
                fences: (fences.0.max(0), fences.1.max(part.state_epoch)),
            };
            (Ok(PartAnswer::Done), Some(next))
        }
        (Operation::Delete(_), _) => (Ok(PartAnswer::Done), None),
        (Operation::Summarize(_), _) => {
            let summary = before.map_or(StateSummary::UNINITIALIZED, Known::summary);
            (Ok(PartAnswer::Summary(summary)), unchanged)
        }
        (_, None) => refused(ShareStateError::UNINITIALIZED),
        (Operation::Read(part), Some(known)) => {
            if part.leader_epoch != -1 && part.leader_epoch < known.fences.0 {
                return refused(ShareStateError::FencedLeaderEpoch);
            }
            let mut next = known.clone();
            if part.leader_epoch > known.fences.0 {
                (next.leader_epoch, next.fences.0) = (part.leader_epoch, part.leader_epoch);
            }
            (Ok(PartAnswer::State(known.stored())), Some(next))
        }
        (Operation::Write(part), Some(known)) => {
            if part.leader_epoch != -1 && part.leader_epoch < known.fences.0 {
                return refused(ShareStateError::FencedLeaderEpoch);
            }
            if part.state_epoch != -1 && part.state_epoch < known.fences.1 {
                return refused(ShareStateError::FencedStateEpoch);
            }
            let mut next = known.clone();
            next.start_offset = known.start_offset.max(part.start_offset);
            next.delivery_complete_count = part.delivery_complete_count;
            next.add(&part.batches);
            if part.start_offset != -1
                && part.start_offset < known.start_offset
                && part.delivery_complete_count != -1
            {
                next.delivery_complete_count = known.delivery_complete_count.max(next.complete());
            }
            (Ok(PartAnswer::Done), Some(next))
        }
    }
}

/// The states that a log adds up to, and the number of updates since the last snapshot of each key.
pub(super) fn of_log<'a>(log: impl Iterator<Item = &'a EncodedRecord>) -> BTreeMap<ShareKey, (Known, usize)> {
    let mut keys: BTreeMap<ShareKey, (Known, usize)> = BTreeMap::new();
    for record in log {
        match Record::decode(record.key.clone(), record.value.clone()).unwrap() {
            Record::Snapshot(key, None) => drop(keys.remove(&key)),
            Record::Snapshot(key, Some(snapshot)) => {
                let fences = keys.get(&key).map_or((i32::MIN, i32::MIN), |(known, _)| known.fences);
                let mut known = Known {
                    state_epoch: snapshot.state_epoch,
                    leader_epoch: snapshot.leader_epoch,
                    start_offset: snapshot.start_offset,
                    delivery_complete_count: snapshot.delivery_complete_count,
                    offsets: BTreeMap::new(),
                    fences: (fences.0.max(snapshot.leader_epoch), fences.1.max(snapshot.state_epoch)),
                };
                known.add(&snapshot.batches);
                keys.insert(key, (known, 0));
            }
            Record::Update(key, Some(update)) => {
                // A log that is pruned may have updates before the first snapshot: of them the
                // leader epoch stays.
                let (known, updates) = keys.entry(key).or_insert_with(|| {
                    let fences = (i32::MIN, i32::MIN);
                    (Known { start_offset: update.start_offset, fences, ..Known::default() }, 0)
                });
                known.start_offset = known.start_offset.max(update.start_offset);
                known.leader_epoch = update.leader_epoch;
                known.fences.0 = known.fences.0.max(update.leader_epoch);
                known.delivery_complete_count = update.delivery_complete_count;
                known.add(&update.batches);
                *updates += 1;
            }
            record => panic!("{record:?}"),
        }
    }
    keys
}
