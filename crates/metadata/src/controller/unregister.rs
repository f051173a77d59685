//! Removing the registrations of brokers and controllers that no longer exist, for example after a
//! move from a cluster of several nodes.

use super::{Decision, Reason, Refusal};
use crate::features::{ELIGIBLE_LEADERS_VERSION, METADATA_VERSION};
use crate::image::{Image, PartitionRegistration};
use crate::records::{
    GONE_CONTROLLERS, NO_LEADER, PartitionChangeRecord, Record, UnregisterBrokerRecord,
    UnregisterControllerRecord,
};

/// Removes the registration of another broker than this one. The broker leaves the replicas in sync
/// of all partitions that have other replicas in sync, and gives up its leaderships.
///
/// # Errors
/// The broker is not registered, or is this node, which would then serve no partition. Kafka
/// permits the latter.
pub fn unregister_broker(image: &Image, id: i32, node_id: i32) -> Result<Decision<()>, Refusal> {
    let Some(broker) = image.brokers().broker(id) else {
        let text = format!("Broker ID {id} is not currently registered");
        return Err(Refusal::new(Reason::UnknownBroker, text));
    };
    if id == node_id {
        let text = format!("Broker ID {id} is this node, which is in service: stop it instead.");
        return Err(Refusal::new(Reason::InvalidRequest, text));
    }
    let recorded = image.features().get(ELIGIBLE_LEADERS_VERSION).is_some_and(|level| *level > 0);
    let left = image.topics().iter().flat_map(|topic| {
        topic.partitions().filter_map(move |(partition_id, partition)| {
            let change = leave(partition, id, recorded)?;
            Some(Record::from(PartitionChangeRecord { partition_id, topic_id: topic.id(), ..change }))
        })
    });
    let gone = UnregisterBrokerRecord { broker_id: id, broker_epoch: broker.broker_epoch };
    let records = left.chain([gone.into()]).collect();
    Ok(Decision { records, outcome: () })
}

/// Removes a broker from the replicas in sync. Without `recorded` eligible leaders, the last
/// replica in sync stays in sync.
fn leave(partition: &PartitionRegistration, id: i32, recorded: bool) -> Option<PartitionChangeRecord> {
    if !partition.isr.contains(&id) {
        return None;
    }
    let isr: Vec<i32> = partition.isr.iter().copied().filter(|one| *one != id).collect();
    let is_last = isr.is_empty();
    let leader = (partition.leader == id).then_some(NO_LEADER);
    if is_last && !recorded {
        return Some(PartitionChangeRecord { leader: leader?, ..PartitionChangeRecord::default() });
    }
    let eligible = || {
        let mut eligible = partition.eligible_leader_replicas.clone();
        eligible.push(id);
        eligible
    };
    let unchanged = PartitionChangeRecord::default();
    Some(PartitionChangeRecord {
        isr: Some(isr),
        leader: leader.unwrap_or(unchanged.leader),
        eligible_leader_replicas: (is_last && recorded).then(eligible),
        last_known_elr: (is_last && recorded).then(|| vec![id]),
        ..unchanged
    })
}

/// Removes the registration of another controller than this one.
///
/// # Errors
/// The controller is not registered, or is this node, or the `metadata.version` has no such record.
pub fn unregister_controller(image: &Image, id: i32, node_id: i32) -> Result<Decision<()>, Refusal> {
    if id == node_id {
        let text = "Controller cannot unregister itself while it is active.";
        return Err(Refusal::new(Reason::InvalidRequest, text));
    }
    if image.features().get(METADATA_VERSION).is_some_and(|level| *level < GONE_CONTROLLERS) {
        let text = "The current MetadataVersion is too old to support controller unregistration.";
        return Err(Refusal::new(Reason::UnsupportedVersion, text));
    }
    if !image.brokers().controllers().any(|controller| controller.controller_id == id) {
        let text = format!("Controller ID {id} is not currently registered.");
        return Err(Refusal::new(Reason::UnknownController, text));
    }
    let record = UnregisterControllerRecord { controller_id: id };
    Ok(Decision { records: vec![record.into()], outcome: () })
}

#[cfg(test)]
mod tests;
