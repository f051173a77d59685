//! A replica whose log lacks records that it has had, while another replica may have them. Until
//! it is in sync again it does not lead, and its broker reports it as lost; if it is elected
//! nevertheless, it compares the ends of all replicas first.

use levada_cluster::replication::Recount;
use levada_cluster::replication::apply::log_end;
use levada_cluster::replication::leader::Standings;
use levada_cluster::replication::recount::{ReplicaEnd, Verdict};
use levada_log::Shortfall;
use parking_lot::Mutex;

use super::Partition;
use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::leadership::Leadership;

/// State of such a replica.
pub(in crate::replica) struct Doubt {
    shortfall: Shortfall,
    /// Offsets for the checkpoints until the log changes. A next start finds the same losses, if
    /// this one ends before, although the opening may have removed their evidence.
    claims: Option<PartitionAtShutdown>,
    recount: Recount,
}

impl Doubt {
    /// The doubt about a log that is on the device.
    pub(in crate::replica) fn new(shortfall: Shortfall, claims: PartitionAtShutdown) -> Self {
        let recovery_point = claims.recovery_point.max(shortfall.claimed);
        let claims = Some(PartitionAtShutdown { recovery_point, ..claims });
        Self { shortfall, claims, recount: Recount::default() }
    }
}

impl Partition {
    /// Marks the log as one that may lack records. A log that does lack some is not led yet.
    pub(in crate::replica) fn doubted(self, doubt: Option<Doubt>) -> Self {
        Self { doubt: Mutex::new(doubt), ..self }
    }

    /// True if the log lacks records that another replica may have.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.lock().is_some()
    }

    /// The records that the log lacks, and that another replica may have.
    pub(crate) fn shortfall(&self) -> Option<Shortfall> {
        self.doubt.lock().as_ref().map(|doubt| doubt.shortfall)
    }

    /// Offsets for the checkpoints.
    pub(in crate::replica) fn left(&self) -> PartitionAtShutdown {
        let claims = self.doubt.lock().as_ref().and_then(|doubt| doubt.claims);
        claims.unwrap_or_else(|| PartitionAtShutdown::of(&self.log))
    }

    /// Makes the checkpoints follow the log from now on; true if they did not. The caller stores
    /// them before it changes the log, so that new records do not count as the missing ones.
    pub(in crate::replica) fn drop_claims(&self) -> bool {
        self.doubt.lock().as_mut().is_some_and(|doubt| doubt.claims.take().is_some())
    }

    /// The leadership that this node takes over from the metadata.
    pub(super) fn in_view_of_doubt(&self, next: Leadership) -> Leadership {
        let mut doubt = self.doubt.lock();
        if doubt.is_some() && next.follows_in_sync() {
            *doubt = None;
            tracing::info!(
                partition = self.name(),
                "the replica has fetched the records that it lacked, and is in sync"
            );
        }
        if doubt.is_some() && next.is_leader() { next.unstored() } else { next }
    }

    /// True if the controllers could elect this replica, and another one leads, or can.
    pub(in crate::replica) fn yields(&self) -> bool {
        if !self.is_in_doubt() {
            return false;
        }
        let leadership = self.leadership.load();
        if !leadership.is_complete() {
            return false;
        }
        if leadership.is_unstored() {
            return leadership.in_sync() > 1;
        }
        let is_registered = |replica: &i32| {
            self.replication
                .as_ref()
                .is_some_and(|replication| replication.broker_standing(*replica).is_some())
        };
        leadership.leader() >= 0 || leadership.eligible_others().iter().any(is_registered)
    }

    /// Records the position of a follower whose fetch is refused. Any client may claim to be a
    /// replica: only replicas of the partition count.
    pub(crate) fn hear(&self, found: ReplicaEnd) {
        if let Some(doubt) = &mut *self.doubt.lock()
            && self.leadership.load().replicas().contains(&found.replica)
        {
            doubt.recount.heard(found);
        }
    }

    /// The result of the comparison with the other replicas, while this node is to lead.
    pub(in crate::replica) fn recount(&self, node_id: i32, standings: Standings<'_>) -> Option<Verdict> {
        let doubt = self.doubt.lock();
        let leadership = self.leadership.load();
        let is_open = leadership.is_unstored() && leadership.in_sync() <= 1 && !self.log.is_offline();
        let recount = doubt.as_ref().filter(|_| is_open).map(|doubt| &doubt.recount)?;
        Some(recount.verdict((node_id, log_end(&self.log)), &leadership.registration(), standings))
    }

    /// Makes this node lead although records are lost.
    pub(in crate::replica) fn accept_loss(&self) {
        *self.doubt.lock() = None;
    }
}
