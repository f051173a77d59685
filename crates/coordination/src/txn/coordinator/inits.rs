//! InitProducerId: a producer takes over a transactional id, or continues after an error.

use super::{Coordinator, Decision, Entry};
use crate::txn::error::TxnError;
use crate::txn::request::{InitRequest, Protocol};
use crate::txn::transaction::{NO_PRODUCER, Transaction, TxnState};

impl Coordinator {
    pub(super) fn decide_init(&mut self, request: &InitRequest, now_ms: i64) -> Result<Decision, TxnError> {
        validate(request, self.config.max_timeout_ms)?;
        if !self.entries.contains_key(&request.transactional_id) {
            let Some(producer_id) = self.spare_ids.pop() else { return Ok(Decision::NeedProducerId) };
            let current = Transaction::new(producer_id, request.timeout_ms, now_ms);
            self.entries.insert(request.transactional_id.clone(), Entry::new(current));
            self.watch_unused();
        }
        let entry = self.entries.get(&request.transactional_id).ok_or(TxnError::UnknownServerError)?;
        if entry.draft.is_some() {
            return Err(TxnError::ConcurrentTransactions);
        }
        let current = &entry.current;
        if !request.expected.is_none_or(|expected| current.knows(expected)) {
            return Err(TxnError::ProducerFenced);
        }
        if current.state.is_prepared() {
            return Err(TxnError::ConcurrentTransactions);
        }
        if current.state == TxnState::Ongoing {
            return Ok(decide_abort(current, &mut self.spare_ids, now_ms));
        }
        let expected_epoch = request.expected.map(|(_, epoch)| epoch);
        if current.is_exhausted() && expected_epoch.is_none_or(|epoch| epoch == current.producer_epoch) {
            let Some(producer_id) = self.spare_ids.pop() else { return Ok(Decision::NeedProducerId) };
            let next = current.next_producer(producer_id, request.timeout_ms, expected_epoch, now_ms);
            return Ok(Decision::Transit(next));
        }
        current.next_epoch(request.timeout_ms, expected_epoch, now_ms).map(Decision::Transit)
    }
}

/// The coordinator's own decision to abort an open transaction, because the producer was replaced
/// or was too slow. No client receives the resulting epoch.
pub(super) fn decide_abort(current: &Transaction, spare_ids: &mut Vec<i64>, now_ms: i64) -> Decision {
    let mut next_producer_id = NO_PRODUCER;
    if current.is_exhausted() {
        let Some(producer_id) = spare_ids.pop() else { return Decision::NeedProducerId };
        next_producer_id = producer_id;
    }
    Decision::Prepare(current.prepared(false, Protocol::EpochBump, next_producer_id, now_ms))
}

fn validate(request: &InitRequest, max_timeout_ms: i32) -> Result<(), TxnError> {
    if request.transactional_id.is_empty() {
        Err(TxnError::InvalidRequest)
    } else if request.enable_two_phase_commit {
        Err(TxnError::TransactionalIdAuthorizationFailed)
    } else if request.keep_prepared {
        Err(TxnError::UnsupportedVersion)
    } else if !(1..=max_timeout_ms).contains(&request.timeout_ms) {
        Err(TxnError::InvalidTransactionTimeout)
    } else {
        Ok(())
    }
}
