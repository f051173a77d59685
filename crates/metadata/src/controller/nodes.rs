//! Registration of this node, leadership at the start, and an orderly handover at the stop.

use levada_wire::primitives::Uuid;

use crate::features;
use crate::image::{Image, PartitionRegistration};
use crate::records::control::VoterEndpoint;
use crate::records::{
    BrokerRegistrationChangeRecord, Endpoint, NO_LEADER, PartitionChangeRecord, Record, RegisterBrokerRecord,
    RegisterControllerRecord,
};
use crate::uuid;

const RECOVERED: i8 = 0;
const FENCE: i8 = 1;
const UNFENCE: i8 = -1;

/// A node that is broker and controller in one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Node id.
    pub node_id: i32,
    /// Random id of this process.
    pub incarnation_id: Uuid,
    /// Ids of the node's log directories.
    pub log_dirs: Vec<Uuid>,
    /// True if a directory of the configuration cannot be used: replicas that are recorded in none
    /// of `log_dirs` are in it. Otherwise such a replica has been moved while no process ran.
    pub has_offline_dirs: bool,
    /// Rack of the node.
    pub rack: Option<String>,
    /// Advertised listeners.
    pub end_points: Vec<Endpoint>,
    /// Listeners for other controllers.
    pub controller_end_points: Vec<Endpoint>,
}

/// Default listener of Kafka's controller. No socket listens there: the address is only used in the
/// records that Kafka expects when it is started on this directory.
pub fn controller_endpoint() -> VoterEndpoint {
    VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 }
}

/// Start of a process: registers it, and makes it the leader of every partition without a leader
/// that it may lead. `base_offset` is where the first of the records will be appended.
///
/// After an orderly stop, of Kafka or Levada, no partition has a leader. After a crash this node is
/// still the leader. It then leads in a new epoch: recovery may have truncated its logs, and only
/// the epoch lets clients distinguish new records from lost ones.
pub fn start_node(image: &Image, node: &Node, base_offset: i64) -> Vec<Record> {
    let change = BrokerRegistrationChangeRecord {
        broker_id: node.node_id,
        broker_epoch: base_offset,
        ..BrokerRegistrationChangeRecord::default()
    };
    let mut records = vec![
        Record::from(RegisterControllerRecord {
            controller_id: node.node_id,
            incarnation_id: node.incarnation_id,
            zk_migration_ready: false,
            end_points: node.controller_end_points.clone(),
            features: features::supported(),
        }),
        Record::from(RegisterBrokerRecord {
            broker_id: node.node_id,
            incarnation_id: node.incarnation_id,
            broker_epoch: base_offset,
            end_points: node.end_points.clone(),
            features: features::supported(),
            rack: node.rack.clone(),
            fenced: true,
            log_dirs: node.log_dirs.clone(),
            ..RegisterBrokerRecord::default()
        }),
        Record::from(BrokerRegistrationChangeRecord { fenced: UNFENCE, ..change.clone() }),
        Record::from(BrokerRegistrationChangeRecord { cordoned_log_dirs: Some(Vec::new()), ..change }),
    ];
    let recorded = records_eligible_leaders(image);
    records.extend(changes(image, |partition| {
        if node.has_offline_dirs && is_lost(partition, node.node_id, &node.log_dirs) {
            retreat(partition, node.node_id, recorded)
        } else {
            lead(partition, node.node_id)
        }
    }));
    records
}

/// Directories of the node have failed and these are left: it stops leading the partitions in the
/// others.
pub fn lose_directories(image: &Image, node_id: i32, left: &[Uuid]) -> Vec<Record> {
    let Some(broker) = image.brokers().broker(node_id).filter(|broker| broker.log_dirs != left) else {
        return Vec::new();
    };
    let mut records = vec![Record::from(BrokerRegistrationChangeRecord {
        broker_id: node_id,
        broker_epoch: broker.broker_epoch,
        log_dirs: left.to_vec(),
        ..BrokerRegistrationChangeRecord::default()
    })];
    let recorded = records_eligible_leaders(image);
    records.extend(changes(image, |partition| {
        is_lost(partition, node_id, left).then(|| retreat(partition, node_id, recorded))?
    }));
    records
}

/// Records the directories of the node's replicas that the image lacks, and makes the node lead the
/// partitions again that counted as lost: `placed` has topic, index and directory.
pub fn assign_directories(image: &Image, node_id: i32, placed: &[((String, i32), Uuid)]) -> Vec<Record> {
    let change = |((name, partition_id), directory): &((String, i32), Uuid)| {
        let topic = image.topic(name)?;
        let partition = topic.partition(*partition_id)?;
        let at = partition.replicas.iter().position(|replica| *replica == node_id)?;
        let mut directories = partition.directories.clone();
        directories.resize(partition.replicas.len(), Uuid::ZERO);
        let before = std::mem::replace(&mut directories[at], *directory);
        (before != *directory).then(|| {
            let led = if partition.has_leader() { None } else { lead(partition, node_id) };
            Record::from(PartitionChangeRecord {
                partition_id: *partition_id,
                topic_id: topic.id(),
                directories: Some(directories),
                ..led.unwrap_or_default()
            })
        })
    };
    placed.iter().filter_map(change).collect()
}

/// True if the node's replica is assigned to a directory that is not among those `left`.
fn is_lost(partition: &PartitionRegistration, node_id: i32, left: &[Uuid]) -> bool {
    let at = partition.replicas.iter().position(|replica| *replica == node_id);
    let directory = at.and_then(|at| partition.directories.get(at));
    directory.is_some_and(|directory| !uuid::is_reserved(*directory) && !left.contains(directory))
}

fn records_eligible_leaders(image: &Image) -> bool {
    image.features().get(features::ELIGIBLE_LEADERS_VERSION).is_some_and(|level| *level > 0)
}

/// Records of an orderly stop: the node leaves every leadership, stays eligible for it, and is
/// fenced. Empty if it never registered.
pub fn stop_node(image: &Image, node_id: i32) -> Vec<Record> {
    let Some(broker) = image.brokers().broker(node_id).filter(|broker| !broker.fenced) else {
        return Vec::new();
    };
    let change = BrokerRegistrationChangeRecord {
        broker_id: node_id,
        broker_epoch: broker.broker_epoch,
        ..BrokerRegistrationChangeRecord::default()
    };
    let mut records =
        vec![Record::from(BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change.clone() })];
    let recorded = records_eligible_leaders(image);
    records.extend(changes(image, |partition| retreat(partition, node_id, recorded)));
    records.push(Record::from(BrokerRegistrationChangeRecord { fenced: FENCE, ..change }));
    records
}

fn changes(
    image: &Image,
    change: impl Fn(&PartitionRegistration) -> Option<PartitionChangeRecord>,
) -> impl Iterator<Item = Record> {
    image.topics().iter().flat_map(move |topic| {
        let changed = topic.partitions().filter_map(|(partition_id, partition)| {
            let change = change(partition)?;
            Some(Record::from(PartitionChangeRecord { partition_id, topic_id: topic.id(), ..change }))
        });
        changed.collect::<Vec<_>>()
    })
}

/// Takes the leadership where the rules of eligible leaders permit it, also of partitions that the
/// node already leads.
fn lead(partition: &PartitionRegistration, node_id: i32) -> Option<PartitionChangeRecord> {
    // No other node runs that could be in sync.
    let alone = vec![node_id];
    if partition.leader == node_id {
        let isr = (partition.isr != alone).then_some(alone);
        return Some(PartitionChangeRecord { isr, leader: node_id, ..PartitionChangeRecord::default() });
    }
    if partition.has_leader() || !partition.replicas.contains(&node_id) {
        return None;
    }
    let clean = partition.isr.contains(&node_id) || partition.eligible_leader_replicas.contains(&node_id);
    // No replica is known to have everything, but this one was the last leader: its records are all
    // that exist.
    let last = partition.isr.is_empty()
        && partition.eligible_leader_replicas.is_empty()
        && partition.last_known_elr == [node_id];
    if !clean && !last {
        return None;
    }
    let without = |ids: &[i32]| {
        (!ids.is_empty()).then(|| ids.iter().copied().filter(|id| *id != node_id).collect::<Vec<_>>())
    };
    Some(PartitionChangeRecord {
        isr: Some(alone),
        leader: node_id,
        // A single replica has no other replica to recover from.
        leader_recovery_state: if partition.leader_recovery_state == RECOVERED { -1 } else { RECOVERED },
        eligible_leader_replicas: without(&partition.eligible_leader_replicas),
        last_known_elr: (!partition.last_known_elr.is_empty()).then(Vec::new),
        ..PartitionChangeRecord::default()
    })
}

/// Resigns as leader. Without `recorded` eligible leaders, the last replica in sync stays in sync.
fn retreat(partition: &PartitionRegistration, node_id: i32, recorded: bool) -> Option<PartitionChangeRecord> {
    if partition.leader != node_id {
        return None;
    }
    let isr: Vec<i32> = partition.isr.iter().copied().filter(|id| *id != node_id).collect();
    if !recorded {
        return Some(PartitionChangeRecord {
            leader: isr.first().copied().unwrap_or(NO_LEADER),
            isr: (!isr.is_empty()).then_some(isr),
            ..PartitionChangeRecord::default()
        });
    }
    let mut eligible = partition.eligible_leader_replicas.clone();
    eligible.push(node_id);
    Some(PartitionChangeRecord {
        leader: isr.first().copied().unwrap_or(NO_LEADER),
        eligible_leader_replicas: Some(eligible),
        last_known_elr: isr.is_empty().then(|| vec![node_id]),
        isr: Some(isr),
        ..PartitionChangeRecord::default()
    })
}
