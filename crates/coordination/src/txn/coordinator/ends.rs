//! EndTxn: distinguishes new decisions, repeated requests and errors.
//!
//! A classic client keeps its epoch, so that a repeated request looks like the first one: it is
//! decided by the state alone. A client of the other protocol has a new epoch after every end; a
//! request under the epoch before is a repetition, one under the current epoch is the next end.
//! Responses while no transaction is open:
//!
//! | state          | abort, repeated   | abort    | commit, repeated  | commit            |
//! |----------------|-------------------|----------|-------------------|-------------------|
//! | Empty          | PRODUCER_FENCED   | decision | PRODUCER_FENCED   | INVALID_TXN_STATE |
//! | CompleteAbort  | same response     | decision | INVALID_TXN_STATE | INVALID_TXN_STATE |
//! | CompleteCommit | INVALID_TXN_STATE | decision | same response     | INVALID_TXN_STATE |

use super::{Coordinator, Decision, Draft};
use crate::txn::error::TxnError;
use crate::txn::event::Outcome;
use crate::txn::request::{EndRequest, ProducerIdentity, Protocol};
use crate::txn::transaction::{NO_PRODUCER, Transaction, TxnState};

impl Coordinator {
    pub(super) fn decide_end(&mut self, request: &EndRequest, now_ms: i64) -> Result<Decision, TxnError> {
        let entry = self.named(&request.transactional_id)?;
        match request.protocol {
            Protocol::Classic => decide_classic(&entry.current, entry.draft.as_ref(), request, now_ms),
            Protocol::EpochBump => {
                if entry.draft.is_some() {
                    return Err(TxnError::ConcurrentTransactions);
                }
                let current = entry.current.clone();
                if let Some(repeated) = judge(&current, request)? {
                    return Ok(Decision::Answer(Outcome::End(repeated)));
                }
                let mut next_producer_id = NO_PRODUCER;
                if current.is_exhausted() {
                    let Some(producer_id) = self.spare_ids.pop() else {
                        return Ok(Decision::NeedProducerId);
                    };
                    next_producer_id = producer_id;
                }
                let next = current.prepared(request.commit, request.protocol, next_producer_id, now_ms);
                Ok(Decision::Prepare(next))
            }
        }
    }
}

fn decide_classic(
    current: &Transaction,
    draft: Option<&Draft>,
    request: &EndRequest,
    now_ms: i64,
) -> Result<Decision, TxnError> {
    if current.producer_id != request.producer_id {
        return Err(TxnError::InvalidProducerIdMapping);
    }
    if current.producer_epoch != request.producer_epoch {
        return Err(TxnError::ProducerFenced);
    }
    if draft.is_some() {
        return Err(TxnError::ConcurrentTransactions);
    }
    match (current.state, request.commit) {
        (TxnState::Ongoing, commit) => {
            Ok(Decision::Prepare(current.prepared(commit, request.protocol, NO_PRODUCER, now_ms)))
        }
        (TxnState::CompleteCommit, true) | (TxnState::CompleteAbort, false) => {
            Ok(Decision::Answer(Outcome::End(ProducerIdentity::NONE)))
        }
        (TxnState::PrepareCommit, true) | (TxnState::PrepareAbort, false) => {
            Err(TxnError::ConcurrentTransactions)
        }
        _ => Err(TxnError::InvalidTxnState),
    }
}

/// Response to a repeated request; none if this request ends the transaction.
fn judge(current: &Transaction, request: &EndRequest) -> Result<Option<ProducerIdentity>, TxnError> {
    let EndRequest { producer_id, producer_epoch, commit, .. } = *request;
    if current.producer_id != producer_id && !current.ran_over_from(producer_id, producer_epoch) {
        return Err(TxnError::InvalidProducerIdMapping);
    }
    let repeated = current.is_retried_by(producer_id, producer_epoch);
    let is_current = current.producer_epoch == producer_epoch;
    let known = match current.state {
        TxnState::Empty | TxnState::Ongoing => is_current,
        TxnState::PrepareCommit | TxnState::PrepareAbort => repeated,
        TxnState::CompleteCommit | TxnState::CompleteAbort => repeated || is_current,
    };
    if !known {
        return Err(TxnError::ProducerFenced);
    }
    match (current.state, commit, repeated) {
        (TxnState::Ongoing, _, _)
        | (TxnState::Empty, false, _)
        | (TxnState::CompleteCommit | TxnState::CompleteAbort, false, false) => Ok(None),
        (TxnState::CompleteCommit, true, true) | (TxnState::CompleteAbort, false, true) => {
            Ok(Some(current.owner()))
        }
        (TxnState::PrepareCommit, true, _) | (TxnState::PrepareAbort, false, _) => {
            Err(TxnError::ConcurrentTransactions)
        }
        _ => Err(TxnError::InvalidTxnState),
    }
}
