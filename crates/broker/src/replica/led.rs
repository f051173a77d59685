//! A replicated partition that this broker leads: the machine of its leader, the requests that wait
//! for the high watermark (acks=all), and the fetches of followers that wait for records.
//! Partitions with one replica have none of this.
//!
//! A small lock covers a step of the machine, and with it the high watermark of the log: after
//! [`Led::resign`] nothing raises it any more.

use std::sync::Arc;

use levada_cluster::directories::ReplicaKey;
use levada_cluster::replication::commits::CommitTicket;
use levada_cluster::replication::isr::IsrResult;
use levada_cluster::replication::leader::{
    BrokerStanding, ChangeOutcome, Effects, FetchRefusal, FollowerFetch, LeaderLimits, LedLog,
};
use levada_cluster::replication::{Commits, Leader};
use levada_process::clock::uptime_ms;
use levada_wire::error_code::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::replica::Leadership;
use crate::replica::replication::Replication;
use crate::replica::waiters::Waiters;

/// Reason for which a stored record is not acknowledged. It may be committed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommitFailure {
    /// Another broker leads now, and its log decides.
    #[error("this broker no longer leads the partition")]
    LeadershipLost,
    /// The replicas in sync have the batch, but they are fewer than `min.insync.replicas`.
    #[error("{in_sync} replicas are in sync, and min.insync.replicas demands {demanded}")]
    NotEnoughReplicas { in_sync: usize, demanded: usize },
    /// The replicas in sync did not have the batch in time.
    #[error("the replicas in sync did not receive the records in time")]
    TimedOut,
}

type Committed = Result<(), CommitFailure>;

/// The parts of a partition that its leadership uses.
pub(crate) struct LedPartition {
    pub(crate) key: ReplicaKey,
    pub(crate) log: Arc<levada_log::Partition>,
    /// Consumers that wait for records.
    pub(crate) consumers: Arc<Waiters>,
}

/// The leadership of one replicated partition.
pub(crate) struct Led {
    of: LedPartition,
    shared: Arc<Replication>,
    followers: Arc<Waiters>,
    state: Mutex<State>,
}

struct State {
    /// Role of the leader; `None` once another broker leads.
    leader: Option<Leader>,
    commits: Commits<oneshot::Sender<Committed>>,
    /// Requests that wait for the low watermark: until all live replicas have deleted records.
    deletions: Commits<oneshot::Sender<Committed>>,
}

/// The watermark that is waited for.
#[derive(Clone, Copy)]
enum Watermark {
    High,
    Low,
}

impl Led {
    /// Begins to lead. The log has begun the leader epoch at its end.
    pub(crate) fn begin(
        of: LedPartition,
        shared: Arc<Replication>,
        leadership: &Leadership,
        min_insync_replicas: i32,
    ) -> Self {
        let log = LedLog { log_end: of.log.log_end(), high_watermark: of.log.high_watermark() };
        let (registered, limits) = (leadership.registration(), shared.limits(min_insync_replicas));
        let leader = Leader::new(shared.node_id(), limits, &registered, log, uptime_ms());
        let state =
            State { leader: Some(leader), commits: Commits::default(), deletions: Commits::default() };
        let led = Self { of, shared, followers: Arc::default(), state: Mutex::new(state) };
        led.lead(leadership);
        led
    }

    /// Applies a later registration in which this broker still leads.
    pub(crate) fn lead(&self, leadership: &Leadership) {
        let registered = leadership.registration();
        self.step(|leader, end, now_ms| leader.lead(&registered, end, &|id| self.standing(id), now_ms));
        // A replica that has left does not keep its records any more, and fetches in an earlier
        // epoch end.
        self.release_deletions();
        self.followers.wake();
    }

    /// Ends the leadership. Completes every waiting request.
    pub(crate) fn resign(&self) {
        let mut state = self.state.lock();
        state.leader = None;
        let lost = state.commits.lost().chain(state.deletions.lost()).collect::<Vec<_>>();
        drop(state);
        for waiter in lost {
            // A connection that has ended needs no response.
            let _ = waiter.send(Err(CommitFailure::LeadershipLost));
        }
        self.followers.wake();
    }

    /// Applies a changed `min.insync.replicas`.
    pub(crate) fn configure(&self, min_insync_replicas: i32) {
        let limits: LeaderLimits = self.shared.limits(min_insync_replicas);
        self.step(|leader, _, now_ms| leader.configure(limits, &|id| self.standing(id), now_ms));
    }

    /// Wakes followers after an append, and consumers if the high watermark has risen with it.
    pub(crate) fn appended(&self) {
        self.followers.wake();
        self.step(|leader, end, now_ms| leader.appended(end, &|id| self.standing(id), now_ms));
    }

    /// Checks that the partition has a replica at this broker. `names_epoch` is true if the fetch
    /// names a leader epoch, which is then the present one.
    pub(crate) fn check_follower(&self, replica: i32, names_epoch: bool) -> Result<(), ErrorCode> {
        let state = self.state.lock();
        let leader = state.leader.as_ref().ok_or(ErrorCode::NotLeaderOrFollower)?;
        match leader.check_assigned(replica) {
            Ok(()) => Ok(()),
            // The follower has a later assignment than this broker, and retries.
            Err(_) if names_epoch => Err(ErrorCode::UnknownLeaderEpoch),
            Err(_) => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Processes the position of a follower from its fetch, after the log was read for it.
    pub(crate) fn fetched(&self, fetch: FollowerFetch) -> Result<(), ErrorCode> {
        let mut state = self.state.lock();
        let Some(leader) = &mut state.leader else { return Err(ErrorCode::NotLeaderOrFollower) };
        let end = self.of.log.log_end();
        let taken = leader.fetched(fetch, end, &|id| self.standing(id), uptime_ms());
        let effects = taken.map_err(|refusal| match refusal {
            FetchRefusal::NotAssigned(_) => ErrorCode::UnknownLeaderEpoch,
            FetchRefusal::StaleBrokerEpoch { .. } | FetchRefusal::OtherLeaderEpoch { .. } => {
                ErrorCode::NotLeaderOrFollower
            }
        })?;
        let has_deletions = !state.deletions.is_empty();
        self.act(state, effects);
        if has_deletions {
            self.release_deletions();
        }
        Ok(())
    }

    /// Removes replicas from the ISR that have lagged for `replica.lag.time.max.ms`.
    pub(crate) fn check_lag(&self, now_ms: i64) {
        self.step(|leader, end, _| leader.check_lag(end, now_ms));
    }

    /// Processes the controller's result for a change.
    pub(crate) fn answered(&self, result: &IsrResult) {
        let mut state = self.state.lock();
        let Some(leader) = &mut state.leader else { return };
        let answer = result.answer.as_ref().map_err(|code| *code);
        let now_ms = uptime_ms();
        let (outcome, effects) = leader.answered(result.number, answer, &|id| self.standing(id), now_ms);
        if let ChangeOutcome::Committed { joined, left } = outcome {
            tracing::info!(
                partition = %self.of.log.dir().display(),
                in_sync = ?leader.isr(),
                joined,
                left,
                "replicas in sync changed"
            );
        }
        self.shared.settled(self.of.key, outcome);
        self.act(state, effects);
    }

    /// Registers fetches of followers: an append wakes them.
    pub(crate) fn followers(&self) -> &Arc<Waiters> {
        &self.followers
    }

    /// The number of replicas in sync if acks=all is to be refused: it is smaller than the
    /// effective `min.insync.replicas`.
    pub(crate) fn shortage(&self) -> Option<usize> {
        self.view(|leader| leader.is_under_min_insync().then(|| leader.isr().len())).flatten()
    }

    /// True if the high watermark is below `offset`.
    pub(crate) fn is_uncommitted(&self, offset: i64) -> bool {
        self.view(|leader| leader.high_watermark() < offset).unwrap_or(true)
    }

    /// True if the high watermark has not reached the start of the leader epoch: the former leader
    /// may have shown a higher one.
    pub(crate) fn is_before_epoch(&self) -> bool {
        self.view(|leader| leader.epoch_start() > leader.high_watermark()).unwrap_or(false)
    }

    /// State of a replica's broker. A replica in directory LOST counts as fenced: the high
    /// watermark does not wait for it to join the ISR again.
    fn standing(&self, replica: i32) -> Option<BrokerStanding> {
        self.shared.standing(self.of.key, replica)
    }

    /// Reads the machine; `None` once another broker leads.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&Leader) -> T) -> Option<T> {
        self.state.lock().leader.as_ref().map(look)
    }

    /// Lowest log start of the living replicas.
    pub(crate) fn low_watermark(&self) -> Option<i64> {
        let log_start = self.of.log.log_start();
        self.view(|leader| leader.low_watermark(log_start, &|id| self.standing(id)))
    }

    /// Waits until the high watermark is at least `offset`.
    pub(crate) async fn wait_for_high_watermark(&self, offset: i64, deadline: Instant) -> Committed {
        self.wait(Watermark::High, offset, Some(deadline)).await
    }

    /// Like [`Led::wait_for_high_watermark`], without a deadline, while this broker leads.
    pub(crate) async fn wait_while_leading(&self, offset: i64) -> Committed {
        self.wait(Watermark::High, offset, None).await
    }

    /// Waits until the low watermark is at least `offset`.
    pub(crate) async fn wait_for_low_watermark(&self, offset: i64, deadline: Instant) -> Committed {
        self.wait(Watermark::Low, offset, Some(deadline)).await
    }

    async fn wait(&self, watermark: Watermark, offset: i64, deadline: Option<Instant>) -> Committed {
        let (sender, receiver) = oneshot::channel();
        let ticket = {
            let mut state = self.state.lock();
            let Some(leader) = &state.leader else { return Err(CommitFailure::LeadershipLost) };
            match watermark {
                Watermark::High if leader.high_watermark() >= offset => return verdict(leader),
                Watermark::Low
                    if leader.low_watermark(self.of.log.log_start(), &|id| self.standing(id)) >= offset =>
                {
                    return Ok(());
                }
                Watermark::High => state.commits.wait(offset, sender),
                Watermark::Low => state.deletions.wait(offset, sender),
            }
        };
        let _cancel = Cancel { led: self, watermark, ticket };
        let answer = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, receiver).await,
            None => Ok(receiver.await),
        };
        match answer {
            Ok(answer) => answer.unwrap_or(Err(CommitFailure::LeadershipLost)),
            Err(_) => Err(CommitFailure::TimedOut),
        }
    }

    /// Steps the machine with the log end and the time.
    fn step(&self, step: impl FnOnce(&mut Leader, i64, i64) -> Effects) {
        let mut state = self.state.lock();
        // Under the lock, so that the ends of two threads arrive in order.
        let end = self.of.log.log_end();
        let Some(leader) = &mut state.leader else { return };
        let effects = step(leader, end, uptime_ms());
        self.act(state, effects);
    }

    /// Applies the effects to the log, the controller and the waiters.
    fn act(&self, mut state: parking_lot::MutexGuard<'_, State>, effects: Effects) {
        if let Some(change) = effects.change {
            self.shared.submit(self.of.key, change);
        }
        let Some(high) = effects.high_watermark else { return };
        let end = self.of.log.log_end();
        debug_assert!(high <= end, "a high watermark of {high} is above the log end {end}");
        self.of.log.raise_high_watermark(high);
        let verdict = state.leader.as_ref().map_or(Err(CommitFailure::LeadershipLost), verdict);
        let reached = state.commits.reached(high).collect::<Vec<_>>();
        drop(state);
        for waiter in reached {
            // As in `resign`.
            let _ = waiter.send(verdict);
        }
        self.of.consumers.wake();
    }

    /// Completes requests for deletions that all live replicas have carried out.
    pub(crate) fn release_deletions(&self) {
        let mut state = self.state.lock();
        if state.deletions.is_empty() {
            return;
        }
        let log_start = self.of.log.log_start();
        let Some(leader) = &state.leader else { return };
        let low = leader.low_watermark(log_start, &|id| self.standing(id));
        let released = state.deletions.reached(low).collect::<Vec<_>>();
        drop(state);
        for waiter in released {
            // As in `resign`.
            let _ = waiter.send(Ok(()));
        }
    }
}

/// The result for records below the high watermark.
fn verdict(leader: &Leader) -> Committed {
    if leader.has_fallen_short() {
        let (in_sync, demanded) = (leader.in_sync_soon(), leader.effective_min_insync());
        return Err(CommitFailure::NotEnoughReplicas { in_sync, demanded });
    }
    Ok(())
}

/// Ends a wait when its task ends.
struct Cancel<'a> {
    led: &'a Led,
    watermark: Watermark,
    ticket: CommitTicket,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let mut state = self.led.state.lock();
        let waiting = match self.watermark {
            Watermark::High => &mut state.commits,
            Watermark::Low => &mut state.deletions,
        };
        // Most have been answered.
        drop(waiting.cancel(self.ticket));
    }
}
