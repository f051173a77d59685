//! The leadership of one partition, as the metadata has it: whether this node leads, the epochs,
//! and the replicas in sync. No clock, log or lock; [`Partition`](super::Partition) uses it.

use levada_cluster::replication::leader::LedRegistration;

use levada_metadata::image::PartitionRegistration;
use levada_metadata::records::NO_LEADER;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_wire::error_code::ErrorCode;

/// The part of this node in one partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leadership {
    is_leader: bool,
    leader: i32,
    leader_epoch: i32,
    partition_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    /// True if this node's replica is in sync, or eligible to lead.
    is_complete: bool,
    /// Other replicas that are in sync, or eligible to lead, and that are in a directory.
    eligible: Vec<i32>,
    /// True if another node leads, and this node's replica is in sync.
    follows_in_sync: bool,
    /// True if no other replica is known to have as many records as this node.
    has_the_most: bool,
    /// True if this node is to lead, and has not stored the beginning of the leader epoch.
    is_unstored: bool,
}

impl Leadership {
    /// The part of the node by the partition's registration.
    pub(crate) fn of(partition: &PartitionRegistration, node_id: i32) -> Self {
        let eligible = partition.isr.iter().chain(&partition.eligible_leader_replicas);
        let is_lost = |replica: i32| {
            let at = partition.replicas.iter().position(|one| *one == replica);
            at.and_then(|at| partition.directories.get(at))
                .is_some_and(|directory| *directory == LOST_DIRECTORY)
        };
        let can_lead = |replica: &i32| *replica != node_id && !is_lost(*replica);
        let is_led_elsewhere = partition.has_leader() && partition.leader != node_id;
        Self {
            is_leader: partition.leader == node_id,
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
            is_complete: [&partition.isr, &partition.eligible_leader_replicas]
                .iter()
                .any(|list| list.contains(&node_id)),
            eligible: eligible.copied().filter(can_lead).collect(),
            follows_in_sync: is_led_elsewhere && partition.isr.contains(&node_id),
            has_the_most: has_the_most(partition, node_id),
            is_unstored: false,
        }
    }

    /// True if this node leads.
    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// The node that leads, or -1 if none does.
    pub(crate) fn leader(&self) -> i32 {
        self.leader
    }

    /// The nodes that have a replica, in order of preference.
    pub(crate) fn replicas(&self) -> &[i32] {
        &self.replicas
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Number of replicas in sync; a leader is always.
    pub(crate) fn in_sync(&self) -> usize {
        self.isr.len().max(usize::from(self.is_leader))
    }

    /// True if the replica of this node is in sync.
    pub(crate) fn is_in_sync(&self, node_id: i32) -> bool {
        self.isr.contains(&node_id)
    }

    /// True if another node's replica is in sync.
    pub(crate) fn has_others_in_sync(&self, node_id: i32) -> bool {
        self.isr.iter().any(|replica| *replica != node_id)
    }

    /// True if this node's replica has all committed records that were not deleted, as the
    /// controller knows: it is in sync, or eligible to lead (KIP-966).
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Other replicas that are in sync, or eligible to lead, and that are in a directory.
    pub(crate) fn eligible_others(&self) -> &[i32] {
        &self.eligible
    }

    /// True if another node leads, and this node's replica is in sync.
    pub(crate) fn follows_in_sync(&self) -> bool {
        self.follows_in_sync
    }

    /// True if a log that lacks offsets after a loss of power has to end before them, because other
    /// replicas may have them. A leader keeps its records, because its followers would copy the
    /// truncation. So does the last replica in sync of a compacted topic: Kafka's followers begin
    /// segments after gaps that their leader's compaction has left.
    pub(crate) fn ends_at_holes(&self, is_compacted: bool) -> bool {
        let keeps_gaps = is_compacted && self.has_the_most;
        self.is_replicated() && !self.is_leader() && !keeps_gaps
    }

    /// True if no other replica must have the appended records, now or later.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_leader && self.in_sync() == 1 && !self.is_replicated()
    }

    /// True if there are other replicas.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicas.len() > 1
    }

    /// This state without this node as the leader, because the beginning of the leader epoch could
    /// not be stored, or the log lacks records. The node may try again.
    pub(crate) fn unstored(self) -> Self {
        Self { is_leader: false, leader: NO_LEADER, is_unstored: true, ..self }
    }

    /// True if this node is to lead, and has not stored the beginning of the leader epoch.
    pub(crate) fn is_unstored(&self) -> bool {
        self.is_unstored
    }

    /// The registration as the leader's machine takes it.
    pub(crate) fn registration(&self) -> LedRegistration {
        LedRegistration {
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
        }
    }

    /// True if this leadership is later than `held`, or equal to it if `held` could not be stored.
    /// An older image never follows a later one, but a partition may be opened by one and updated
    /// by the other.
    pub(crate) fn follows(&self, held: &Self) -> bool {
        let is_later = self.partition_epoch > held.partition_epoch;
        debug_assert!(!is_later || self.leader_epoch >= held.leader_epoch, "{self:?} follows {held:?}");
        is_later || held.is_unstored && self.partition_epoch == held.partition_epoch
    }

    /// Checks the leader epoch (-1: none) of a client that requests the leader (KIP-320).
    pub(crate) fn check(&self, known: i32) -> Result<(), ErrorCode> {
        self.check_epoch(known)?;
        if self.is_leader { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
    }

    /// Checks the leader epoch (-1: none) of a client that reads from any replica.
    pub(crate) fn check_epoch(&self, known: i32) -> Result<(), ErrorCode> {
        match known {
            known if known != -1 && known < self.leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
            known if known > self.leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }
}

/// True if the node is the last replica in sync. With eligible leader replicas (KIP-966) the list
/// of replicas in sync is empty while the last one is offline, and that replica is in the list of
/// eligible leaders, or of the last known ones.
fn has_the_most(partition: &PartitionRegistration, node_id: i32) -> bool {
    let lists = [&partition.isr, &partition.eligible_leader_replicas, &partition.last_known_elr];
    lists.into_iter().find(|list| !list.is_empty()).is_some_and(|list| *list == [node_id])
}

#[cfg(test)]
mod tests;
