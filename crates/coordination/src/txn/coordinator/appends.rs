//! Pending appends to the log, and their continuations.

use std::collections::BTreeMap;

use super::{Coordinator, Draft};
use crate::machine::{EncodedRecord, PersistFailure, PersistId, Ticket};
use crate::txn::error::TxnError;
use crate::txn::event::{Action, Outcome};
use crate::txn::records::{Record, TooLong, Value};
use crate::txn::request::ProducerIdentity;
use crate::txn::transaction::{NO_EPOCH, Transaction, TxnState};

/// Appends that the driver has not reported yet.
#[derive(Debug, Default)]
pub(super) struct Appends {
    asked: u64,
    under_way: BTreeMap<PersistId, PendingWrite>,
}

#[derive(Debug)]
enum PendingWrite {
    /// The next state of a transactional id.
    State { transactional_id: String, next: Box<Transaction>, then: Continuation },
    /// Tombstones of ids that are removed.
    Removal(Vec<String>),
}

/// Continuation of a logged state.
#[derive(Debug)]
pub(super) enum Continuation {
    /// Sends the outcome.
    Reply(Ticket, Outcome),
    /// The producer gets its new state, and the decision is carried out.
    End(Ticket),
    /// The decision is carried out; the client must retry its request.
    Retry(Ticket),
    /// The decision is carried out; no request waits for it.
    Abort,
    /// The decision has been carried out.
    Completed,
}

impl Continuation {
    fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Reply(ticket, _) | Self::End(ticket) | Self::Retry(ticket) => Some(*ticket),
            Self::Abort | Self::Completed => None,
        }
    }
}

impl Coordinator {
    /// Requests the driver to log an id's next state, which takes effect after that.
    pub(super) fn transit(
        &mut self,
        transactional_id: String,
        next: Transaction,
        then: Continuation,
        now_ms: i64,
    ) {
        if let Some(entry) = self.entries.get_mut(&transactional_id) {
            let before = entry.current.state;
            assert!(before.may_become(next.state), "{before:?} does not become {:?}", next.state);
            if !matches!(then, Continuation::Completed) {
                assert!(entry.draft.is_none(), "a transactional id has one draft");
                entry.draft = Some(Draft::Transit);
            }
        }
        let record = Record::Transaction(transactional_id.clone(), Some(Value::from(&next)));
        let write = PendingWrite::State { transactional_id, next: Box::new(next), then };
        self.append(record.encode().map(|record| vec![record]), write, now_ms);
    }

    /// Requests the driver to log the removal of ids.
    pub(super) fn forget(&mut self, transactional_ids: Vec<String>, now_ms: i64) {
        for transactional_id in &transactional_ids {
            if let Some(entry) = self.entries.get_mut(transactional_id) {
                entry.draft = Some(Draft::Removal);
            }
        }
        let records = transactional_ids.iter().map(|id| Record::Transaction(id.clone(), None).encode());
        let records = records.collect();
        self.append(records, PendingWrite::Removal(transactional_ids), now_ms);
    }

    /// Records that cannot be written at all have failed already.
    fn append(&mut self, records: Result<Vec<EncodedRecord>, TooLong>, write: PendingWrite, now_ms: i64) {
        match records {
            Ok(records) => {
                let id = PersistId(self.appends.asked);
                self.appends.asked += 1;
                let before = self.appends.under_way.insert(id, write);
                assert!(before.is_none(), "an append has a name of its own");
                self.actions.push(Action::Persist(id, records));
            }
            Err(_) => self.settle(write, Err(PersistFailure::TooLarge), now_ms),
        }
    }

    pub(super) fn persisted(&mut self, id: PersistId, result: Result<i64, PersistFailure>, now_ms: i64) {
        if let Some(write) = self.appends.under_way.remove(&id) {
            self.settle(write, result, now_ms);
        }
    }

    /// Refuses the requests of writes in progress: the next coordinator learns from the log which
    /// of them took effect.
    pub(super) fn abandon_appends(&mut self) {
        for write in std::mem::take(&mut self.appends.under_way).into_values() {
            if let PendingWrite::State { then, .. } = write
                && let Some(ticket) = then.ticket()
            {
                self.reply(ticket, Outcome::Refused(TxnError::NotCoordinator));
            }
        }
    }

    /// Handles the end of an append: the records are in the log, or never will be.
    fn settle(&mut self, write: PendingWrite, result: Result<i64, PersistFailure>, now_ms: i64) {
        match (write, result) {
            (PendingWrite::Removal(transactional_ids), Ok(_)) => {
                for transactional_id in transactional_ids {
                    self.entries.remove(&transactional_id);
                }
            }
            (PendingWrite::Removal(transactional_ids), Err(_)) => {
                for transactional_id in transactional_ids {
                    if let Some(entry) = self.entries.get_mut(&transactional_id) {
                        entry.draft = None;
                    }
                }
            }
            (PendingWrite::State { transactional_id, next, then }, Ok(_)) => {
                let is_open = next.state == TxnState::Ongoing;
                if let Some(entry) = self.entries.get_mut(&transactional_id) {
                    if is_open && entry.current.state != TxnState::Ongoing {
                        entry.opened_ms = self.alarms.now_ms();
                    }
                    entry.current = *next;
                    entry.draft = None;
                }
                self.follow(&transactional_id, then, now_ms);
                if is_open {
                    self.watch_open();
                }
            }
            (PendingWrite::State { transactional_id, then, .. }, Err(failure)) => {
                self.fail(transactional_id, &then, failure);
            }
        }
        if result == Err(PersistFailure::Lost) {
            self.unload();
        }
    }

    fn follow(&mut self, transactional_id: &str, then: Continuation, now_ms: i64) {
        match then {
            Continuation::Reply(ticket, outcome) => self.reply(ticket, outcome),
            Continuation::End(ticket) => {
                let owner = self.carry_out(transactional_id, now_ms);
                self.reply(ticket, Outcome::End(owner.unwrap_or(ProducerIdentity::NONE)));
            }
            Continuation::Retry(ticket) => {
                self.carry_out(transactional_id, now_ms);
                self.reply(ticket, Outcome::Refused(TxnError::ConcurrentTransactions));
            }
            Continuation::Abort => {
                self.carry_out(transactional_id, now_ms);
            }
            Continuation::Completed => {
                let state = self.entries.get(transactional_id).map(|entry| entry.current.state);
                self.ended.count(state);
            }
        }
    }

    fn fail(&mut self, transactional_id: String, then: &Continuation, failure: PersistFailure) {
        if let Some(ticket) = then.ticket() {
            self.reply(ticket, Outcome::Refused(failure.into()));
        }
        if matches!(then, Continuation::Completed) {
            // The decision is in the log and its markers are written: only the record of that is
            // missing.
            return self.alarms.resume_in(self.config.retry_ms, transactional_id);
        }
        let Some(entry) = self.entries.get_mut(&transactional_id) else { return };
        // The transaction stays unchanged; an id without a record does not exist.
        entry.draft = None;
        if entry.current.producer_epoch == NO_EPOCH {
            self.entries.remove(&transactional_id);
        }
    }
}
