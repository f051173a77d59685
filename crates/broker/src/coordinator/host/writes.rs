//! Writes of a coordinator, and the end of their wait for the replicas in sync.

use std::sync::Arc;
use std::time::Duration;

use levada_log::Append;

use super::{Slot, State};
use crate::clock::now_ms;
use crate::coordinator::replay::stored;
use crate::machine::{Machine, PersistFailure, PersistId, Signal};
use crate::replica::lane::{SubmitError, Submitted};
use crate::tasks::caught;

/// Longest wait of a request for the replicas in sync of a coordinator's partition, as Kafka's
/// `offsets.commit.timeout.ms`. The coordinator waits for longer: a write that is committed later
/// takes effect then, as a coordinator that replays the log would have it.
const COMMIT_WAIT: Duration = Duration::from_secs(5);

impl<M: Machine> Slot<M> {
    /// Appends a batch; returns the result, or none if a later step reports it.
    pub(super) fn persist(
        self: &Arc<Self>,
        state: &State<M>,
        id: PersistId,
        payload: &M::Payload,
    ) -> Option<Result<i64, PersistFailure>> {
        let Some((partition, leader_epoch)) = &state.partition else {
            return Some(Err(PersistFailure::Unavailable));
        };
        let now = now_ms();
        let limit_bytes = partition.config().max_message_bytes as usize;
        let batch = match M::batch(payload, limit_bytes, now) {
            Ok(batch) => Append { leader_epoch: *leader_epoch, ..batch },
            Err(failure) => return Some(Err(failure)),
        };
        let led = partition.led();
        if led.as_ref().is_some_and(|led| led.shortage().is_some()) {
            return Some(Err(PersistFailure::Unavailable));
        }
        let submitted = partition.append(batch, now).committed_at_last(led);
        match submitted {
            Submitted::Done(result) => Some(stored::<M>(partition, result.map_err(SubmitError::Refused))),
            queued => {
                let (slot, partition, term) = (self.clone(), partition.clone(), state.term);
                let next_ticket = state.next_ticket;
                tokio::spawn(async move {
                    let stored_at_last = async {
                        let mut stored_later = Box::pin(queued.wait());
                        let result = match tokio::time::timeout(COMMIT_WAIT, &mut stored_later).await {
                            Ok(result) => result,
                            Err(_) => {
                                slot.dismiss(term, next_ticket);
                                stored_later.await
                            }
                        };
                        let result = stored::<M>(&partition, result);
                        slot.step_in(term, Signal::Persisted(id, result).into());
                    };
                    if caught("write of a coordinator", stored_at_last).await.is_err() {
                        slot.abandon(term);
                    }
                });
                None
            }
        }
    }

    /// Ends the service of a machine whose state cannot be trusted, because it has panicked, until
    /// the next term. All waiting requests are refused.
    pub(super) fn abandon(&self, term: u64) {
        let mut state = self.state.lock();
        if state.term == term {
            (state.partition, state.is_expected, state.dismissed_before) = (None, false, state.next_ticket);
            state.waiting.clear();
        }
    }

    /// Refuses the requests before this ticket, one of which waits for a write that takes too long:
    /// they may be asked again. The write is not given up.
    fn dismiss(&self, term: u64, before: u64) {
        let mut state = self.state.lock();
        if state.term == term {
            state.waiting.retain(|ticket, _| ticket.0 >= before);
            state.dismissed_before = state.dismissed_before.max(before);
        }
    }
}
