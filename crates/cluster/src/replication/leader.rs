//! A partition that this broker leads: the positions of its followers, the high watermark, and the
//! changes of the in-sync replicas (ISR).
//!
//! A change of the ISR counts only once the controller has committed it. Until then the *maximal*
//! ISR (the committed one and a replica that is about to join) limits the high watermark, so that
//! the high watermark is right for either decision of the controller. A replica that has caught up
//! and may join limits it as well: otherwise the replica would fall behind the high watermark
//! again.
//!
//! The high watermark never falls while this broker leads, and it stands still while the ISR is
//! smaller than the effective `min.insync.replicas`.
//!
//! The driver calls [`Leader::lead`] for every registration in the metadata, [`Leader::appended`]
//! after an append, [`Leader::fetched`] for every fetch of a follower, [`Leader::check_lag`] each
//! half of the greatest lag, and [`Leader::answered`] for a response of the controller. All of them
//! return the [`Effects`]. If another broker leads, the driver drops the machine.

#[cfg(test)]
mod tests;

mod events;
mod replica;

pub use self::events::{
    BrokerStanding, ChangeOutcome, CommittedIsr, Effects, FetchRefusal, FollowerFetch, IsrChange,
    LeaderLimits, LedLog, LedRegistration, NO_BROKER_EPOCH, Standings,
};
use levada_wire::error_code::ErrorCode;

use self::replica::Follower;

/// A change to which the controller has not responded.
#[derive(Clone, Debug)]
struct PendingChange {
    change: IsrChange,
    /// The replica that is about to join; `None` if replicas are about to leave.
    joining: Option<i32>,
}

/// One partition that this broker leads.
#[derive(Clone, Debug)]
pub struct Leader {
    node_id: i32,
    limits: LeaderLimits,
    leader_epoch: i32,
    /// First offset of the leader epoch.
    epoch_start: i64,
    partition_epoch: i32,
    followers: Vec<Follower>,
    committed: Vec<i32>,
    pending: Option<PendingChange>,
    last_change: u64,
    log_end: i64,
    high_watermark: i64,
}

impl Leader {
    /// The leader of a partition from this registration on.
    pub fn new(
        node_id: i32,
        limits: LeaderLimits,
        registered: &LedRegistration,
        log: LedLog,
        now_ms: i64,
    ) -> Self {
        let mut leader = Self {
            node_id,
            limits,
            leader_epoch: registered.leader_epoch,
            epoch_start: log.log_end,
            partition_epoch: registered.partition_epoch,
            followers: Vec::new(),
            committed: registered.isr.clone(),
            pending: None,
            last_change: u64::from(registered.leader_epoch.unsigned_abs()) << 32,
            log_end: log.log_end,
            high_watermark: log.high_watermark.min(log.log_end),
        };
        leader.assign(registered);
        leader.followers.iter_mut().for_each(|follower| {
            follower.begin_epoch(registered.isr.contains(&follower.id), log.log_end, now_ms);
        });
        leader
    }

    /// Takes a registration in which this broker still leads, also that of [`Leader::new`]: the
    /// high watermark may rise immediately. `log_end` is the present one; with a later leader epoch
    /// the log has durably begun that epoch there. A registration that is older than a response of
    /// the controller changes nothing.
    pub fn lead(
        &mut self,
        registered: &LedRegistration,
        log_end: i64,
        standings: Standings<'_>,
        now_ms: i64,
    ) -> Effects {
        if registered.partition_epoch < self.partition_epoch || registered.leader_epoch < self.leader_epoch {
            return Effects::default();
        }
        self.extend(log_end);
        let is_new_epoch = registered.leader_epoch > self.leader_epoch;
        // A response may come before the metadata of the same epoch. The ISR is the same then, and
        // a change that was sent since is still pending.
        if is_new_epoch || registered.partition_epoch > self.partition_epoch {
            self.committed.clone_from(&registered.isr);
            self.pending = None;
        }
        self.partition_epoch = registered.partition_epoch;
        self.assign(registered);
        if is_new_epoch {
            // In an epoch between, another broker may have led, and a follower may have taken that
            // broker's records for those it has a position behind.
            let is_next = registered.leader_epoch - 1 == self.leader_epoch;
            (self.leader_epoch, self.epoch_start) = (registered.leader_epoch, log_end);
            for follower in &mut self.followers {
                if !is_next {
                    *follower = Follower::new(follower.id);
                }
                follower.begin_epoch(registered.isr.contains(&follower.id), log_end, now_ms);
            }
        }
        self.assert_consistent();
        self.advanced(standings, now_ms)
    }

    /// Applies changed limits.
    pub fn configure(&mut self, limits: LeaderLimits, standings: Standings<'_>, now_ms: i64) -> Effects {
        self.limits = limits;
        self.advanced(standings, now_ms)
    }

    /// Processes the log end after an append.
    pub fn appended(&mut self, log_end: i64, standings: Standings<'_>, now_ms: i64) -> Effects {
        self.extend(log_end);
        self.advanced(standings, now_ms)
    }

    /// Checks, before the log is read, that the partition has a replica at this broker.
    ///
    /// # Errors
    /// The partition is not assigned to the replica.
    pub fn check_assigned(&self, replica: i32) -> Result<(), FetchRefusal> {
        self.follower(replica).map(|_| ()).ok_or(FetchRefusal::NotAssigned(replica))
    }

    /// Processes a follower's fetch. Not for a fetch whose response makes the follower truncate,
    /// nor for a second read while the fetch waits. `log_end` is the present one.
    ///
    /// # Errors
    /// The partition has no replica there, the fetch comes from an earlier life of the broker, or
    /// the log was read for it in another leader epoch.
    pub fn fetched(
        &mut self,
        fetch: FollowerFetch,
        log_end: i64,
        standings: Standings<'_>,
        now_ms: i64,
    ) -> Result<Effects, FetchRefusal> {
        let replica = fetch.replica;
        if fetch.leader_epoch != self.leader_epoch {
            let (read, present) = (fetch.leader_epoch, self.leader_epoch);
            return Err(FetchRefusal::OtherLeaderEpoch { replica, read, present });
        }
        let at = self.followers.iter().position(|follower| follower.id == replica);
        let at = at.ok_or(FetchRefusal::NotAssigned(replica))?;
        // One read of the metadata: the replica is checked, and the change is made, by the same
        // state of its broker (KAFKA-15221).
        let standing = standings(replica);
        let registered = standing.filter(|standing| !standing.is_fenced).map(|standing| standing.epoch);
        let fetched = fetch.broker_epoch;
        if let Some(registered) = registered.filter(|epoch| fetched != NO_BROKER_EPOCH && *epoch > fetched) {
            return Err(FetchRefusal::StaleBrokerEpoch { replica, fetched, registered });
        }
        self.extend(log_end);
        self.followers[at].take(&fetch, now_ms);
        let change = self.joining(&self.followers[at], standing).map(|id| self.propose(Some(id), &[]));
        let effects = self.advanced(standings, now_ms);
        Ok(Effects { change, ..effects })
    }

    /// Finds replicas that lag for too long, and takes them out of the ISR. `log_end` is the
    /// present one.
    pub fn check_lag(&mut self, log_end: i64, now_ms: i64) -> Effects {
        self.extend(log_end);
        self.assert_consistent();
        if self.pending.is_some() {
            return Effects::default();
        }
        let lagging = |id: &i32| {
            let caught_up = self
                .follower(*id)
                .is_some_and(|follower| follower.is_caught_up(self.log_end, now_ms, self.limits.lag_ms_max));
            *id != self.node_id && !caught_up
        };
        let lagging: Vec<i32> = self.committed.iter().copied().filter(lagging).collect();
        let change = (!lagging.is_empty()).then(|| self.propose(None, &lagging));
        Effects { change, high_watermark: None }
    }

    /// Processes the controller's response to the change of this number: the committed ISR, or an
    /// error code.
    pub fn answered(
        &mut self,
        number: u64,
        answer: Result<&CommittedIsr, i16>,
        standings: Standings<'_>,
        now_ms: i64,
    ) -> (ChangeOutcome, Effects) {
        let Some(pending) = self.pending.take_if(|pending| pending.change.number == number) else {
            return (ChangeOutcome::Stale, Effects::default());
        };
        match answer.map_err(ErrorCode::of_code) {
            Ok(answer)
                if answer.leader_epoch == self.leader_epoch
                    && answer.partition_epoch >= self.partition_epoch =>
            {
                let outcome = self.commit(answer);
                (outcome, self.advanced(standings, now_ms))
            }
            Ok(_) => {
                self.pending = Some(pending);
                (ChangeOutcome::Stale, Effects::default())
            }
            // The controller confirms the partition epoch and has changed nothing.
            Err(Some(ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica)) => {
                (ChangeOutcome::Reset, self.advanced(standings, now_ms))
            }
            // An earlier request, whose answer was lost, may have made the change. Without it the
            // high watermark could pass a member of the ISR.
            Err(Some(
                ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::InvalidUpdateVersion
                | ErrorCode::InvalidRequest
                | ErrorCode::NewLeaderElected,
            )) => {
                self.pending = Some(pending);
                (ChangeOutcome::Unsettled, Effects::default())
            }
            Err(_) => {
                let change = pending.change.clone();
                self.pending = Some(pending);
                (ChangeOutcome::Retry(change), Effects::default())
            }
        }
    }

    /// Leader epoch of the latest registration.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// First offset of the leader epoch. Until the high watermark has reached it, this broker does
    /// not have the latest committed offset.
    pub fn epoch_start(&self) -> i64 {
        self.epoch_start
    }

    /// The high watermark.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The replicas in sync, as committed.
    pub fn isr(&self) -> &[i32] {
        &self.committed
    }

    /// True while the controller has not responded to a change.
    pub fn is_change_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Number of replicas, this broker's included.
    pub fn replicas(&self) -> usize {
        self.followers.len() + 1
    }

    /// True if some replica is not in sync.
    pub fn is_under_replicated(&self) -> bool {
        self.committed.len() < self.replicas()
    }

    /// `min.insync.replicas`, but not more than the partition has replicas (KIP-966).
    pub fn effective_min_insync(&self) -> usize {
        self.replicas().min(self.limits.min_insync_replicas as usize)
    }

    /// True if the ISR is smaller than the effective minimum: acks=all is refused before the
    /// append, and the high watermark does not advance.
    pub fn is_under_min_insync(&self) -> bool {
        self.committed.len() < self.effective_min_insync()
    }

    /// True if even with the replica that is about to join, the ISR is smaller than the effective
    /// minimum: acks=all fails although the high watermark covers the records.
    pub fn has_fallen_short(&self) -> bool {
        self.in_sync_soon() < self.effective_min_insync()
    }

    /// Number of replicas in sync, with the replica that is about to join.
    pub fn in_sync_soon(&self) -> usize {
        let joining = self.pending.as_ref().and_then(|pending| pending.joining);
        self.committed.len() + usize::from(joining.is_some())
    }

    /// Lowest log start of the living replicas, where `log_start` is this broker's: records before
    /// it are deleted everywhere.
    pub fn low_watermark(&self, log_start: i64, standings: Standings<'_>) -> i64 {
        let alive = |follower: &&Follower| standings(follower.id).is_some_and(|broker| !broker.is_fenced);
        let starts = self.followers.iter().filter(alive).map(|follower| follower.log_start);
        starts.fold(log_start, i64::min)
    }

    /// Members of the ISR, without this broker, that can serve a consumer at this offset: their ids
    /// with their log ends, the most advanced first.
    pub fn holders(&self, offset: i64) -> Vec<(i32, i64)> {
        let can = |follower: &&Follower| {
            self.committed.contains(&follower.id)
                && follower.log_end >= offset
                && follower.log_start <= offset
        };
        let mut holders: Vec<_> =
            self.followers.iter().filter(can).map(|follower| (follower.id, follower.log_end)).collect();
        holders.sort_by_key(|(id, log_end)| (-log_end, *id));
        holders
    }

    /// Log end of a follower, -1 if it has not fetched; `None` if it is not a replica.
    pub fn follower_end(&self, replica: i32) -> Option<i64> {
        self.follower(replica).map(|follower| follower.log_end)
    }

    fn follower(&self, id: i32) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id == id)
    }

    fn extend(&mut self, log_end: i64) {
        // The reports of two threads' appends may arrive in another order.
        self.log_end = self.log_end.max(log_end);
    }

    /// Keeps the followers that are still replicas, and adds the new ones.
    fn assign(&mut self, registered: &LedRegistration) {
        self.followers.retain(|follower| registered.replicas.contains(&follower.id));
        for id in registered.replicas.iter().copied().filter(|id| *id != self.node_id) {
            if self.follower(id).is_none() {
                self.followers.push(Follower::new(id));
            }
        }
    }

    /// The follower's id if it may and should join the ISR.
    fn joining(&self, follower: &Follower, standing: Option<BrokerStanding>) -> Option<i32> {
        let is_in_sync = follower.log_end >= self.high_watermark && follower.log_end >= self.epoch_start;
        let may_join = self.pending.is_none() && !self.committed.contains(&follower.id);
        (may_join && is_in_sync && follower.is_eligible(standing)).then_some(follower.id)
    }

    fn propose(&mut self, joining: Option<i32>, leaving: &[i32]) -> IsrChange {
        let members = self.committed.iter().copied().filter(|id| !leaving.contains(id)).chain(joining);
        // The controller refuses members that it has taken out in the meantime by the partition
        // epoch, so that a member that has not fetched needs no broker epoch.
        let epoch =
            |id| self.follower(id).and_then(|follower| follower.broker_epoch).unwrap_or(NO_BROKER_EPOCH);
        let isr = members.map(|id| (id, epoch(id))).collect();
        assert!(self.pending.is_none(), "a change is proposed while another is pending: {self:?}");
        self.last_change += 1;
        let change = IsrChange {
            number: self.last_change,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            isr,
        };
        self.pending = Some(PendingChange { change: change.clone(), joining });
        self.assert_consistent();
        change
    }

    fn commit(&mut self, answer: &CommittedIsr) -> ChangeOutcome {
        let outside = |of: &[i32], ids: &[i32]| ids.iter().filter(|id| !of.contains(id)).count();
        let joined = outside(&self.committed, &answer.isr);
        let left = outside(&answer.isr, &self.committed);
        self.committed.clone_from(&answer.isr);
        assert!(answer.partition_epoch >= self.partition_epoch, "the partition epoch falls: {self:?}");
        self.partition_epoch = answer.partition_epoch;
        ChangeOutcome::Committed { joined, left }
    }

    fn advanced(&mut self, standings: Standings<'_>, now_ms: i64) -> Effects {
        Effects { high_watermark: self.advance(standings, now_ms), change: None }
    }

    /// Raises the high watermark to the lowest log end of the replicas that count.
    fn advance(&mut self, standings: Standings<'_>, now_ms: i64) -> Option<i64> {
        if self.is_under_min_insync() {
            return None;
        }
        let joining = self.pending.as_ref().and_then(|pending| pending.joining);
        let mut offset = self.log_end;
        for follower in self.followers.iter().filter(|follower| follower.log_end < self.log_end) {
            let counts = self.committed.contains(&follower.id)
                || joining == Some(follower.id)
                || (follower.is_caught_up(self.log_end, now_ms, self.limits.lag_ms_max)
                    && follower.is_eligible(standings(follower.id)));
            if counts {
                offset = offset.min(follower.log_end);
            }
        }
        (offset > self.high_watermark).then(|| {
            debug_assert!(
                offset <= self.log_end,
                "high watermark {offset} after the log end {}",
                self.log_end
            );
            self.high_watermark = offset;
            offset
        })
    }

    /// Asserts the invariants after every change of the registration or of the ISR.
    fn assert_consistent(&self) {
        assert!(self.high_watermark <= self.log_end, "the high watermark is after the log end: {self:?}");
        if let Some(pending) = &self.pending {
            assert_eq!(pending.change.partition_epoch, self.partition_epoch, "a change of an older epoch");
            assert_eq!(pending.change.number, self.last_change, "a change that is not the latest");
        }
    }
}
