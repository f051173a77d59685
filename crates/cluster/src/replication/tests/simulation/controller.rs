//! The controller of the simulation: sessions, fencing, elections and ISR changes by the rules of
//! KRaft with eligible leader replicas (KIP-966).

use std::collections::BTreeMap;

use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    AlterPartitionRequest, AlterPartitionResponse, AssignReplicasToDirsRequest, alter_partition_response,
};

use super::mutation::Mutation;
use crate::replication::leader::{BrokerStanding, LedRegistration, NO_BROKER_EPOCH};

/// Time without a heartbeat after which a broker is fenced.
const SESSION_MS: i64 = 500;

/// The directory of a log that cannot serve, and that of one that can.
pub(super) const LOST: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
pub(super) const DIRECTORY: Uuid = Uuid::from_bytes([9; 16]);

/// The partition as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    /// -1 for none.
    pub(super) leader: i32,
    pub(super) leader_epoch: i32,
    pub(super) partition_epoch: i32,
    pub(super) replicas: Vec<i32>,
    pub(super) isr: Vec<i32>,
}

impl Registered {
    pub(super) fn led(&self) -> LedRegistration {
        LedRegistration {
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
        }
    }
}

/// Metadata of one moment.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) version: u64,
    pub(super) partition: Registered,
    pub(super) brokers: BTreeMap<i32, BrokerStanding>,
    /// Brokers whose replica is in directory LOST.
    pub(super) lost: Vec<i32>,
    eligible: Vec<i32>,
}

impl Image {
    /// True if the replica of this broker is in sync, or eligible to lead.
    pub(super) fn is_complete(&self, id: i32) -> bool {
        self.partition.isr.contains(&id) || self.eligible.contains(&id)
    }

    /// True if a replica of another broker is in sync, or eligible to lead, and in a directory.
    pub(super) fn has_eligible_other(&self, id: i32) -> bool {
        let mut eligible = self.partition.isr.iter().chain(&self.eligible);
        eligible.any(|other| *other != id && !self.lost.contains(other))
    }
}

#[derive(Debug)]
struct Broker {
    standing: BrokerStanding,
    incarnation: u64,
    heard_ms: i64,
    /// The version that it has to know before it is unfenced.
    version: u64,
}

/// State of the simulated controller.
#[derive(Debug)]
pub(super) struct Controller {
    mutation: Option<Mutation>,
    min_isr: usize,
    elects_unclean: bool,
    brokers: BTreeMap<i32, Broker>,
    partition: Registered,
    /// Replicas that left an ISR that was too small to commit anything after.
    eligible: Vec<i32>,
    last_leader: i32,
    /// Brokers whose replica is in directory LOST: they do not lead.
    lost: Vec<i32>,
    target: Option<Vec<i32>>,
    version: u64,
    last_epoch: i64,
    /// Leader epochs of elections that may have lost committed records.
    pub(super) unclean: Vec<i32>,
}

impl Controller {
    pub(super) fn new(
        mutation: Option<Mutation>,
        min_isr: usize,
        elects_unclean: bool,
        replicas: &[i32],
    ) -> Self {
        let partition = Registered {
            leader: -1,
            leader_epoch: 0,
            partition_epoch: 0,
            replicas: replicas.to_vec(),
            isr: replicas.to_vec(),
        };
        Self {
            mutation,
            min_isr,
            elects_unclean,
            brokers: BTreeMap::new(),
            partition,
            eligible: Vec::new(),
            last_leader: -1,
            lost: Vec::new(),
            target: None,
            version: 1,
            last_epoch: 100,
            unclean: Vec::new(),
        }
    }

    pub(super) fn partition(&self) -> &Registered {
        &self.partition
    }

    pub(super) fn min_isr(&self) -> usize {
        self.min_isr
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn image(&self) -> Image {
        let brokers = self.brokers.iter().map(|(id, broker)| (*id, broker.standing)).collect();
        let (partition, lost) = (self.partition.clone(), self.lost.clone());
        Image { version: self.version, partition, brokers, lost, eligible: self.eligible.clone() }
    }

    /// True if no reassignment is under way and all replicas are in sync.
    pub(super) fn is_settled(&self) -> bool {
        let all = self.partition.replicas.iter().all(|id| self.partition.isr.contains(id));
        self.partition.leader >= 0 && all && self.target.is_none()
    }

    /// A broker's process begins. Refused while the process before it has a session.
    pub(super) fn register(&mut self, id: i32, incarnation: u64, is_clean: bool, now_ms: i64) -> Option<i64> {
        if let Some(known) = self.brokers.get(&id) {
            if known.incarnation == incarnation {
                return Some(known.standing.epoch);
            }
            if !known.standing.is_fenced {
                return None;
            }
        }
        self.last_epoch += 1;
        self.version += 1;
        let standing = BrokerStanding { epoch: self.last_epoch, is_fenced: true, is_stopping: false };
        let broker = Broker { standing, incarnation, heard_ms: now_ms, version: self.version };
        let is_known = self.brokers.insert(id, broker).is_some();
        let has_all = self.partition.isr.contains(&id) || self.eligible.contains(&id);
        if is_known && !is_clean && has_all {
            // The stop may have cost the replica records.
            self.eligible.retain(|one| *one != id);
            let isr = self.partition.isr.iter().copied().filter(|one| *one != id).collect();
            self.change(isr, &[id]);
        }
        Some(self.last_epoch)
    }

    /// A broker is there, and knows this version of the metadata. Returns false for a process that
    /// has been replaced.
    pub(super) fn heartbeat(&mut self, id: i32, epoch: i64, version: u64, now_ms: i64) -> bool {
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| broker.standing.epoch == epoch) else {
            return false;
        };
        broker.heard_ms = now_ms;
        if broker.standing.is_fenced && !broker.standing.is_stopping && version >= broker.version {
            broker.standing.is_fenced = false;
            self.version += 1;
            self.elect_if_none();
        }
        true
    }

    /// A broker wants to stop: its leadership goes to another one.
    pub(super) fn stop(&mut self, id: i32) {
        let Some(broker) = self.brokers.get_mut(&id) else { return };
        broker.standing.is_stopping = true;
        self.version += 1;
        let isr: Vec<i32> = self.partition.isr.iter().copied().filter(|one| *one != id).collect();
        if self.partition.isr.contains(&id) && !isr.is_empty() {
            self.change(isr, &[]);
        }
    }

    /// Processes the controlled shutdown of a broker.
    pub(super) fn stopped(&mut self, id: i32) {
        self.fence(id);
    }

    /// Fences brokers whose sessions have ended; returns whether there were any.
    pub(super) fn expire(&mut self, now_ms: i64) {
        let silent = |broker: &Broker| !broker.standing.is_fenced && now_ms - broker.heard_ms > SESSION_MS;
        let silent: Vec<i32> =
            self.brokers.iter().filter(|(_, broker)| silent(broker)).map(|(id, _)| *id).collect();
        silent.into_iter().for_each(|id| self.fence(id));
    }

    fn fence(&mut self, id: i32) {
        let Some(broker) = self.brokers.get_mut(&id) else { return };
        broker.standing.is_fenced = true;
        self.version += 1;
        if self.partition.isr.contains(&id) {
            let isr = self.partition.isr.iter().copied().filter(|one| *one != id).collect();
            self.change(isr, &[]);
        } else {
            self.elect_if_none();
        }
    }

    /// Begins to move the partition to other brokers.
    pub(super) fn reassign(&mut self, target: Vec<i32>) {
        let added = target.iter().copied().filter(|id| !self.partition.replicas.contains(id));
        let added: Vec<i32> = added.collect();
        self.partition.replicas.extend(added);
        self.target = Some(target);
        self.change(self.partition.isr.clone(), &[]);
    }

    /// Has a replica in sync lead instead of the present leader.
    pub(super) fn prefer(&mut self, id: i32) {
        if self.partition.leader == id || !self.partition.isr.contains(&id) || !self.can_lead(id) {
            return;
        }
        self.partition.leader = id;
        self.partition.leader_epoch += 1;
        self.partition.partition_epoch += 1;
        self.version += 1;
    }

    fn is_alive(&self, id: i32) -> bool {
        let standing = self.brokers.get(&id).map(|broker| broker.standing);
        standing.is_some_and(|standing| !standing.is_fenced && !standing.is_stopping)
    }

    fn can_lead(&self, id: i32) -> bool {
        self.is_alive(id) && !self.lost.contains(&id)
    }

    /// AssignReplicasToDirs. Returns false for a stale broker epoch.
    pub(super) fn assign(&mut self, request: &AssignReplicasToDirsRequest) -> bool {
        let id = request.broker_id;
        let sender = self.brokers.get(&id).map(|broker| broker.standing.epoch);
        if sender != Some(request.broker_epoch) {
            return false;
        }
        let is_lost = request.directories.iter().any(|directory| directory.id == LOST);
        if request.directories.is_empty() || !self.partition.replicas.contains(&id) {
            return true;
        }
        if is_lost {
            if !self.lost.contains(&id) {
                self.lost.push(id);
            }
            let isr = self.partition.isr.iter().copied().filter(|one| *one != id).collect();
            self.change(isr, &[]);
        } else if self.lost.contains(&id) {
            // The election goes by the directory before this change.
            self.lost.retain(|one| *one != id);
            self.partition.partition_epoch += 1;
            self.version += 1;
        } else {
            self.elect_if_none();
        }
        true
    }

    /// True if the replica of this broker is in directory LOST.
    pub(super) fn is_lost(&self, id: i32) -> bool {
        self.lost.contains(&id)
    }

    fn elect_if_none(&mut self) {
        if self.partition.leader == -1 {
            let (isr, before) = (self.partition.isr.clone(), self.partition.clone());
            self.change(isr, &[]);
            if self.partition.leader == -1 {
                self.partition = before;
            }
        }
    }

    /// Commits an ISR, and elects a leader if it has to. `unclean` are replicas that lost their
    /// eligibility.
    fn change(&mut self, isr: Vec<i32>, unclean: &[i32]) {
        let before = std::mem::take(&mut self.partition.isr);
        let mut eligible = std::mem::take(&mut self.eligible);
        if isr.len() < self.min_isr.min(self.partition.replicas.len()) {
            eligible.extend(before);
            eligible.retain(|id| {
                !isr.contains(id) && !unclean.contains(id) && self.partition.replicas.contains(id)
            });
            eligible.sort_unstable();
            eligible.dedup();
        } else {
            eligible.clear();
        }
        (self.partition.isr, self.eligible) = (isr, eligible);
        self.finish_reassignment();
        self.elect();
        self.partition.partition_epoch += 1;
        self.version += 1;
    }

    fn finish_reassignment(&mut self) {
        let isr = &self.partition.isr;
        let Some(target) = self.target.take_if(|target| target.iter().all(|id| isr.contains(id))) else {
            return;
        };
        self.partition.isr.retain(|id| target.contains(id));
        self.eligible.retain(|id| target.contains(id));
        self.lost.retain(|id| target.contains(id));
        if !self.partition.replicas.iter().all(|id| target.contains(id)) {
            // A removed replica that comes back does not take answers from before.
            self.partition.leader_epoch += 1;
        }
        self.partition.replicas = target;
    }

    fn elect(&mut self) {
        let leader = self.partition.leader;
        if self.partition.isr.contains(&leader) && self.can_lead(leader) {
            return;
        }
        let next = |among: &[i32]| {
            self.partition.replicas.iter().copied().find(|id| among.contains(id) && self.can_lead(*id))
        };
        let is_empty = self.partition.isr.is_empty() && self.eligible.is_empty();
        let elected = if let Some(id) = next(&self.partition.isr) {
            id
        } else if let Some(id) = next(&self.eligible) {
            (self.partition.isr, self.eligible) = (vec![id], Vec::new());
            id
        } else if let Some(id) = next(&[self.last_leader]).filter(|_| is_empty) {
            self.lead_unclean(id)
        } else if let Some(id) = next(&self.partition.replicas).filter(|_| self.elects_unclean) {
            self.lead_unclean(id)
        } else {
            -1
        };
        if elected == leader {
            return;
        }
        if elected == -1 {
            self.last_leader = leader;
        }
        self.partition.leader = elected;
        self.partition.leader_epoch += 1;
    }

    fn lead_unclean(&mut self, id: i32) -> i32 {
        (self.partition.isr, self.eligible) = (vec![id], Vec::new());
        self.unclean.push(self.partition.leader_epoch + 1);
        id
    }

    /// AlterPartition.
    pub(super) fn alter(&mut self, request: &AlterPartitionRequest) -> AlterPartitionResponse {
        let mut response = AlterPartitionResponse::default();
        let sender = self.brokers.get(&request.broker_id);
        if sender.is_none_or(|broker| broker.standing.epoch != request.broker_epoch) {
            response.error_code = ErrorCode::StaleBrokerEpoch.code();
            return response;
        }
        for topic in &request.topics {
            let mut answered = alter_partition_response::TopicData::default();
            answered.topic_id = topic.topic_id;
            for asked in &topic.partitions {
                let isr: Vec<(i32, i64)> = asked
                    .new_isr_with_epochs
                    .iter()
                    .map(|member| (member.broker_id, member.broker_epoch))
                    .collect();
                let epochs = (asked.leader_epoch, asked.partition_epoch);
                let mut answer = alter_partition_response::PartitionData::default();
                answer.partition_index = asked.partition_index;
                match self.alter_isr(request.broker_id, epochs, &isr) {
                    Ok(()) => {
                        answer.leader_id = self.partition.leader;
                        answer.leader_epoch = self.partition.leader_epoch;
                        answer.partition_epoch = self.partition.partition_epoch;
                        answer.isr.clone_from(&self.partition.isr);
                    }
                    Err(code) => answer.error_code = code,
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        response
    }

    fn alter_isr(
        &mut self,
        sender: i32,
        (leader_epoch, partition_epoch): (i32, i32),
        isr: &[(i32, i64)],
    ) -> Result<(), i16> {
        let now = &self.partition;
        if leader_epoch > now.leader_epoch || partition_epoch > now.partition_epoch {
            return Err(ErrorCode::NotController.code());
        }
        if leader_epoch < now.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch.code());
        }
        if sender != now.leader {
            return Err(ErrorCode::InvalidRequest.code());
        }
        if partition_epoch < now.partition_epoch && self.mutation != Some(Mutation::TakesOldPartitionEpochs) {
            return Err(ErrorCode::InvalidUpdateVersion.code());
        }
        let ids: Vec<i32> = isr.iter().map(|(id, _)| *id).collect();
        if !ids.contains(&sender) || ids.iter().any(|id| !now.replicas.contains(id)) {
            return Err(ErrorCode::InvalidRequest.code());
        }
        let is_known = |id: i32, epoch: i64| {
            epoch == NO_BROKER_EPOCH
                || self.mutation == Some(Mutation::TakesStaleBrokerEpochs)
                || self.brokers.get(&id).is_some_and(|broker| broker.standing.epoch == epoch)
        };
        if !isr.iter().all(|(id, epoch)| self.is_alive(*id) && is_known(*id, *epoch)) {
            return Err(ErrorCode::IneligibleReplica.code());
        }
        self.change(ids, &[]);
        if self.partition.leader == sender { Ok(()) } else { Err(ErrorCode::NewLeaderElected.code()) }
    }
}
