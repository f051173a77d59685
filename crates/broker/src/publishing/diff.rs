//! The differences between two images that this broker has to apply, as a pure function: two images
//! in, an ordered list of changes out.
//!
//! Any number of records may lie between the two images, so a snapshot needs no special case.
//! Credentials, access control entries, features and broker registrations are not changes, because
//! each request reads them from the published image.

use levada_wire::Uuid;

use levada_metadata::image::{ConfigResource, Image, PartitionRegistration, ResourceKind};

/// One kind of change. A list has each kind at most once, in the order of the variants.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Topics are deleted. A topic that was deleted and created again counts here, under its former
    /// id.
    Delete(Vec<DeletedTopic>),
    /// Partitions of which this node no longer has a replica, while their topics remain.
    Stop(Vec<(Uuid, i32)>),
    /// A configuration of this broker, or of all brokers, was set.
    BrokerConfig,
    /// Settings of single groups.
    GroupConfigs,
    /// Subscriptions of client metrics.
    ClientMetrics,
    /// Limits of clients.
    Quotas,
    /// Partitions of which this node had a replica before have another leader, leader epoch, or
    /// other replicas in sync.
    Lead(Vec<(Uuid, i32)>),
    /// Topics with partitions of which this node has a replica from now on.
    Serve(Vec<Uuid>),
    /// Topics that were there before have another configuration.
    TopicConfigs(Vec<Uuid>),
    /// Topics were created, deleted or extended.
    Topics,
}

/// A topic that the later image does not have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeletedTopic {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) partitions: Vec<i32>,
}

/// The changes between two images, for this node.
pub(super) fn diff(old: &Image, new: &Image, node_id: i32) -> Vec<Change> {
    let is_same = old.topics().is_same(new.topics());
    let deleted = if is_same { Vec::new() } else { deleted(old, new) };
    let Partitions { to_stop, to_lead, to_serve, has_more } =
        if is_same { Partitions::default() } else { partitions(old, new, node_id) };
    let resources = new.configs_changed_since(old);
    let own = [ConfigResource::broker(node_id), ConfigResource::all_brokers()];
    let has = |kind: ResourceKind| resources.iter().any(|one| one.kind == kind);
    let are_others = has_more || !deleted.is_empty();
    let changes = [
        unless_empty(deleted, Change::Delete),
        unless_empty(to_stop, Change::Stop),
        resources.iter().any(|one| own.contains(one)).then_some(Change::BrokerConfig),
        has(ResourceKind::Group).then_some(Change::GroupConfigs),
        has(ResourceKind::ClientMetrics).then_some(Change::ClientMetrics),
        (!old.quotas().is_same(new.quotas())).then_some(Change::Quotas),
        unless_empty(to_lead, Change::Lead),
        unless_empty(to_serve, Change::Serve),
        unless_empty(configured(old, new, &resources), Change::TopicConfigs),
        are_others.then_some(Change::Topics),
    ];
    changes.into_iter().flatten().collect()
}

fn unless_empty<T>(list: Vec<T>, change: impl FnOnce(Vec<T>) -> Change) -> Option<Change> {
    (!list.is_empty()).then(|| change(list))
}

fn deleted(old: &Image, new: &Image) -> Vec<DeletedTopic> {
    let gone = old.topics().iter().filter(|topic| new.topic_by_id(topic.id()).is_none());
    let told = gone.map(|topic| DeletedTopic {
        id: topic.id(),
        name: topic.name().to_string(),
        partitions: topic.partitions().map(|(index, _)| index).collect(),
    });
    told.collect()
}

/// Changes of the partitions.
#[derive(Default)]
struct Partitions {
    to_stop: Vec<(Uuid, i32)>,
    to_lead: Vec<(Uuid, i32)>,
    to_serve: Vec<Uuid>,
    /// True if a topic has more partitions than before.
    has_more: bool,
}

fn partitions(old: &Image, new: &Image, node_id: i32) -> Partitions {
    let mut found = Partitions::default();
    let is_ours = |partition: &&PartitionRegistration| partition.replicas.contains(&node_id);
    for topic in new.topics().changed_since(old.topics()) {
        let before = old.topic_by_id(topic.id());
        found.has_more |= before.is_none_or(|before| before.partition_count() < topic.partition_count());
        let former = before.into_iter().flat_map(|before| before.partitions());
        let former = former.filter(|(_, partition)| is_ours(partition));
        let left = former.filter(|(index, _)| topic.partition(*index).filter(is_ours).is_none());
        found.to_stop.extend(left.map(|(index, _)| (topic.id(), index)));
        let mut is_to_serve = false;
        for (index, partition) in topic.partitions().filter(|(_, partition)| is_ours(partition)) {
            match before.and_then(|before| before.partition(index)).filter(is_ours) {
                None => is_to_serve = true,
                Some(before) if before.partition_epoch != partition.partition_epoch => {
                    found.to_lead.push((topic.id(), index));
                }
                Some(_) => {}
            }
        }
        found.to_serve.extend(is_to_serve.then(|| topic.id()));
    }
    found
}

/// Topics among the resources that are in both images.
fn configured(old: &Image, new: &Image, resources: &[&ConfigResource]) -> Vec<Uuid> {
    let named = resources.iter().filter(|one| one.kind == ResourceKind::Topic);
    let ids = named.filter_map(|one| new.topic(&one.name)).map(|topic| topic.id());
    ids.filter(|id| old.topic_by_id(*id).is_some()).collect()
}

#[cfg(test)]
mod tests;
