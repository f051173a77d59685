//! Writes of a coordinator, and the end of their wait for the replicas in sync.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use levada_base::Append;
use levada_coordination::machine::{Machine, PersistFailure, PersistId, Signal, Ticket};
use levada_process::clock::now_ms;
use levada_process::tasks::caught;
use parking_lot::MutexGuard;
use tokio::sync::oneshot;

use super::{Host, Slot, State};
use crate::coordinator::replay::stored;
use crate::replica::Partition;
use crate::replica::submitted::{SubmitError, Submitted};

/// Longest wait of a request for its response, and of the members of a group for its write, as
/// Kafka's `offsets.commit.timeout.ms`. The coordinator waits longer: a write that is committed
/// later still takes effect, as it would in a coordinator that replays the log.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

impl<M: Machine> Host<M> {
    /// Number of announcements that wait for the load of a coordinator.
    #[cfg(test)]
    pub(crate) fn held_at(&self, index: i32) -> usize {
        self.slots.at(index).map_or(0, |slot| slot.state.lock().held.as_ref().map_or(0, Vec::len))
    }
}

/// A batch in the lane of the coordinator's partition.
pub(super) struct Write {
    id: PersistId,
    term: u64,
    partition: Arc<Partition>,
    submitted: Submitted,
    /// True if this thread writes the lane's batches.
    is_ours: bool,
}

/// The lock of a slot. Its release writes the records that the steps under the lock have queued in
/// the lane, which may wait for the storage, and reports the results in further steps.
pub(super) struct Locked<'a, M: Machine> {
    slot: &'a Arc<Slot<M>>,
    /// State of the coordinator; `None` only during the release.
    state: Option<MutexGuard<'a, State<M>>>,
}

impl<M: Machine> Deref for Locked<'_, M> {
    type Target = State<M>;

    fn deref(&self) -> &State<M> {
        self.state.as_ref().expect("the lock is held")
    }
}

impl<M: Machine> DerefMut for Locked<'_, M> {
    fn deref_mut(&mut self) -> &mut State<M> {
        self.state.as_mut().expect("the lock is held")
    }
}

impl<M: Machine> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let mut writes = std::mem::take(&mut state.writes);
        drop(state);
        while let Some(Write { id, term, partition, submitted, is_ours }) = writes.pop_front() {
            if is_ours {
                partition.write_queued(now_ms());
            }
            // A machine that has panicked gets no results.
            if std::thread::panicking() {
                continue;
            }
            match submitted.if_done() {
                Ok(result) => {
                    let result = stored::<M>(&partition, result.map_err(SubmitError::Refused));
                    let mut state = self.slot.state.lock();
                    if state.term == term {
                        self.slot.step_locked(&mut state, Signal::Persisted(id, result).into());
                    }
                    writes.append(&mut state.writes);
                }
                Err(queued) => self.slot.report_later(id, term, partition, queued),
            }
        }
    }
}

impl<M: Machine> Slot<M> {
    /// Waits for the lock, never for the storage.
    pub(super) fn lock(self: &Arc<Self>) -> Locked<'_, M> {
        Locked { slot: self, state: Some(self.state.lock()) }
    }

    /// Hands a batch to the lane; returns the result, or none if a later step reports it.
    pub(super) fn persist(
        &self,
        state: &mut State<M>,
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
        let (submitted, is_ours) = partition.enqueue(batch);
        match submitted.accepted() {
            Err(refused) => Some(stored::<M>(partition, Err(SubmitError::Refused(refused)))),
            Ok(queued) => {
                let (partition, submitted) = (partition.clone(), queued.committed_at_last(led));
                state.writes.push_back(Write { id, term: state.term, partition, submitted, is_ours });
                None
            }
        }
    }

    /// Reports the result of a write when there is one.
    fn report_later(
        self: &Arc<Self>,
        id: PersistId,
        term: u64,
        partition: Arc<Partition>,
        queued: Submitted,
    ) {
        let slot = self.clone();
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
    }

    /// Ends the service of a machine that has panicked, and whose state therefore cannot be
    /// trusted, until the next term. Refuses all waiting requests.
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
                // The response may have come in the last moment.
                answer.try_recv().ok()
            }
        }
    }

    /// Refuses a request that has waited for too long. The machine gets no event: a write is not
    /// abandoned, and a queued request is still processed.
    fn dismiss(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if state.waiting.remove(&ticket).is_some() {
            state.dismissed.insert(ticket);
        }
    }
}
