//! Writes of a coordinator, and the end of their wait for the replicas in sync.

use std::sync::Arc;
use std::time::Duration;

use levada_log::Append;
use tokio::sync::oneshot;

use super::{Host, Slot, State};
use crate::clock::now_ms;
use crate::coordinator::replay::stored;
use crate::machine::{Machine, PersistFailure, PersistId, Signal, Ticket};
use crate::replica::lane::{SubmitError, Submitted};
use crate::tasks::caught;

/// Longest wait of a request for its answer, and of the members of a group for its write, as
/// Kafka's `offsets.commit.timeout.ms`. The coordinator waits for longer: a write that is committed
/// later takes effect then, as a coordinator that replays the log would have it.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

impl<M: Machine> Host<M> {
    /// Number of announcements that wait for the load of a coordinator.
    #[cfg(test)]
    pub(crate) fn held_at(&self, index: i32) -> usize {
        self.slots.at(index).map_or(0, |slot| slot.state.lock().held.as_ref().map_or(0, Vec::len))
    }
}

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
                tokio::spawn(async move {
                    let stored_at_last = async {
                        let mut stored_later = Box::pin(queued.wait());
                        let result = match tokio::time::timeout(ANSWER_WAIT, &mut stored_later).await {
                            Ok(result) => result,
                            Err(_) => {
                                slot.step_in(term, Signal::Overdue(id).into());
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
            state.partition = None;
            state.expect_no_more();
            let waiting = std::mem::take(&mut state.waiting);
            state.dismissed.extend(waiting.into_keys());
        }
    }

    /// Waits for the outcome of a request; a request with a limit is refused after [`ANSWER_WAIT`].
    pub(super) async fn outcome(
        &self,
        ticket: Ticket,
        mut answer: oneshot::Receiver<M::Outcome>,
        has_limit: bool,
    ) -> Option<M::Outcome> {
        if !has_limit {
            return answer.await.ok();
        }
        match tokio::time::timeout(ANSWER_WAIT, &mut answer).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.dismiss(ticket);
                // The answer may have come in the last moment.
                answer.try_recv().ok()
            }
        }
    }

    /// Refuses a request that has waited for too long. The machine gets no event: a write is not
    /// given up, and a request that waits for its turn still takes it.
    fn dismiss(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if state.waiting.remove(&ticket).is_some() {
            state.dismissed.insert(ticket);
        }
    }
}
