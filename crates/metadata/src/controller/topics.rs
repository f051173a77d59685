//! Creating and deleting topics.

use std::collections::{BTreeMap, HashMap, HashSet};

use levada_wire::primitives::Uuid;

use super::names::{METADATA_TOPIC, can_collide, check_topic_name, collision_key};
use super::partitions::{Placement, check_total, place, place_manually};
use super::{ConfigRules, Decision, Permit, Reason, Refusal, check_quota};
use crate::image::{ConfigResource, Image, ResourceKind};
use crate::records::{ConfigRecord, Record, RemoveTopicRecord, TopicRecord};

/// A topic to be created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTopic {
    /// Name of the topic.
    pub name: String,
    /// Number of partitions; -1 for the broker's default or with `assignments`.
    pub partitions: i32,
    /// Number of replicas; -1 for the broker's default or with `assignments`.
    pub replication_factor: i16,
    /// Replicas by partition index; empty lets the controller choose.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Configuration; a null value is an error.
    pub configs: Vec<(String, Option<String>)>,
}

/// Defaults and limits for a new topic.
#[derive(Clone, Copy)]
pub struct TopicRules<'a> {
    /// `num.partitions`
    pub default_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// True to lower a replication factor to the number of brokers instead of refusing it.
    pub clamp_replication_factor: bool,
    /// The configuration that is allowed.
    pub configs: &'a dyn ConfigRules,
    /// Quota of the client for created partitions.
    pub permit: Permit<'a>,
}

/// A topic that was, or would be, created.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatedTopic {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Number of partitions it has.
    pub partitions: i32,
    /// Number of replicas each has.
    pub replication_factor: i16,
    /// Settings of the topic.
    pub configs: BTreeMap<String, String>,
}

/// Creates topics, each or not at all; outcomes are in the order of `topics`. `next_id` gives fresh
/// topic ids ([`uuid::random`](crate::uuid::random)). For "validate only", drop the
/// records.
pub fn create_topics(
    image: &Image,
    topics: &[NewTopic],
    rules: TopicRules<'_>,
    mut next_id: impl FnMut() -> Uuid,
) -> Decision<Vec<Result<CreatedTopic, Refusal>>> {
    let mut records = Vec::new();
    let names = duplicates(topics.iter().map(|topic| &*topic.name));
    // As in Kafka, which takes these topics out of the request before.
    let counted = topics.iter().filter(|topic| !names.contains(&*topic.name) && topic.name != METADATA_TOPIC);
    let counts = counted.map(|topic| match (topic.assignments.len(), topic.partitions) {
        (0, -1) => usize::try_from(rules.default_partitions).unwrap_or(0),
        (0, partitions) => usize::try_from(partitions).unwrap_or(0),
        (assigned, _) => assigned,
    });
    if let Err(refusal) = check_total(counts) {
        return Decision::nothing(topics.iter().map(|_| Err(refusal.clone())).collect());
    }
    let colliding = colliding(image, topics);
    let outcome = topics
        .iter()
        .map(|topic| {
            if names.contains(&*topic.name) {
                return Err(Refusal::new(Reason::InvalidRequest, "Duplicate topic name."));
            }
            check_new_name(image, &topic.name, &colliding)?;
            create_topic(image, topic, rules, next_id(), &mut records)
        })
        .collect();
    Decision { records, outcome }
}

/// Existing topics that a new name could collide with, by their common form; each is looked up once
/// per request.
fn colliding<'a>(image: &'a Image, new: &[NewTopic]) -> HashMap<String, &'a str> {
    if !new.iter().any(|topic| can_collide(&topic.name)) {
        return HashMap::new();
    }
    let names = image.topics().iter().map(|topic| &**topic.name()).filter(|name| can_collide(name));
    names.map(|name| (collision_key(name), name)).collect()
}

fn check_new_name(image: &Image, name: &str, colliding: &HashMap<String, &str>) -> Result<(), Refusal> {
    if name == METADATA_TOPIC {
        let message = format!("Creation of internal topic {METADATA_TOPIC} is prohibited.");
        return Err(Refusal::new(Reason::InvalidRequest, message));
    }
    check_topic_name(name)?;
    if image.topic(name).is_some() {
        return Err(Refusal::new(Reason::TopicExists, format!("Topic '{name}' already exists.")));
    }
    if let Some(other) = colliding.get(&collision_key(name)).filter(|_| can_collide(name)) {
        let message = format!("Topic '{name}' collides with existing topic: {other}");
        return Err(Refusal::new(Reason::InvalidTopic, message));
    }
    Ok(())
}

fn create_topic(
    image: &Image,
    topic: &NewTopic,
    rules: TopicRules<'_>,
    topic_id: Uuid,
    records: &mut Vec<Record>,
) -> Result<CreatedTopic, Refusal> {
    let configs = check_configs(topic, rules.configs)?;
    let placements = place_topic(image, topic, rules)?;
    check_quota(rules.permit, placements.len())?;
    let created = CreatedTopic {
        topic_id,
        partitions: i32::try_from(placements.len()).unwrap_or(i32::MAX),
        replication_factor: placements.first().map_or(0, Placement::replication_factor),
        configs,
    };
    records.push(Record::from(TopicRecord { name: topic.name.clone(), topic_id }));
    // Kafka writes the configuration between the topic and its partitions, so that no reader sees a
    // partition without it.
    records.extend(created.configs.iter().map(|(name, value)| {
        Record::from(ConfigRecord {
            resource_type: ResourceKind::Topic.id(),
            resource_name: topic.name.clone(),
            name: name.clone(),
            value: Some(value.clone()),
        })
    }));
    let indexed = (0..).zip(placements);
    records.extend(indexed.map(|(index, placement)| placement.into_record(image, topic_id, index)));
    Ok(created)
}

fn check_configs(topic: &NewTopic, rules: &dyn ConfigRules) -> Result<BTreeMap<String, String>, Refusal> {
    let without_value: Vec<&str> =
        topic.configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| &**name).collect();
    if !without_value.is_empty() {
        let message = format!("Null value not supported for topic configs: {}", without_value.join(","));
        return Err(Refusal::new(Reason::InvalidConfig, message));
    }
    let configs = topic
        .configs
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
        .collect::<BTreeMap<_, _>>();
    if !configs.is_empty() {
        rules.check(&ConfigResource::topic(&topic.name), &configs, &BTreeMap::new())?;
    }
    Ok(configs)
}

fn place_topic(image: &Image, topic: &NewTopic, rules: TopicRules<'_>) -> Result<Vec<Placement>, Refusal> {
    if !topic.assignments.is_empty() {
        return place_assigned(image, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        return Err(Refusal::new(
            Reason::InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ));
    }
    if topic.partitions < -1 || topic.partitions == 0 {
        return Err(Refusal::new(
            Reason::InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        ));
    }
    let or_default = |asked: i32, default: i32| if asked == -1 { default } else { asked };
    let count = or_default(topic.partitions, rules.default_partitions);
    let mut factor =
        or_default(i32::from(topic.replication_factor), i32::from(rules.default_replication_factor));
    if rules.clamp_replication_factor {
        factor = factor.min(i32::try_from(image.brokers().len()).unwrap_or(i32::MAX));
    }
    place(image, 0..count, factor).map_err(|problem| {
        let message = format!("Unable to replicate the partition {factor} time(s): {problem}");
        Refusal::new(Reason::InvalidReplicationFactor, message)
    })
}

fn place_assigned(image: &Image, topic: &NewTopic) -> Result<Vec<Placement>, Refusal> {
    let only_one = |what| {
        let message = format!("A manual partition assignment was specified, but {what} was not set to -1.");
        Err(Refusal::new(Reason::InvalidRequest, message))
    };
    if topic.replication_factor != -1 {
        return only_one("replication factor");
    }
    if topic.partitions != -1 {
        return only_one("numPartitions");
    }
    let mut placements = BTreeMap::new();
    let mut factor = None;
    for (index, replicas) in &topic.assignments {
        if placements.contains_key(index) {
            let message = format!("Found multiple manual partition assignments for partition {index}");
            return Err(Refusal::new(Reason::InvalidReplicaAssignment, message));
        }
        placements.insert(*index, place_manually(image, *index, replicas, factor)?);
        factor = Some(replicas.len());
    }
    if !placements.keys().copied().eq((0..).take(placements.len())) {
        return Err(Refusal::new(
            Reason::InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ));
    }
    Ok(placements.into_values().collect())
}

/// A topic to be deleted, as the request names it: by name up to version 5, by either from version
/// 6.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TopicKey {
    /// Name of the topic, unless null.
    pub name: Option<String>,
    /// Id of the topic; all zero for none.
    pub topic_id: Uuid,
}

/// A topic that was deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletedTopic {
    /// Name of the topic.
    pub name: String,
    /// Id of the topic.
    pub topic_id: Uuid,
    /// The partitions of the topic.
    pub partitions: Vec<i32>,
}

/// Deletes topics; outcomes are in the order of `keys`, without repeated topics. A topic that is
/// named by id and by name is not deleted, and has one outcome.
pub fn delete_topics(
    image: &Image,
    keys: &[TopicKey],
    permit: Permit<'_>,
) -> Decision<Vec<(TopicKey, Result<DeletedTopic, Refusal>)>> {
    let repeated = duplicates(keys);
    let by_id = keys.iter().filter(|key| key.name.is_none() && !key.topic_id.is_zero());
    let ids: HashSet<Uuid> = by_id.map(|key| key.topic_id).collect();
    let by_name = keys.iter().filter(|key| key.topic_id.is_zero() && !repeated.contains(key));
    let names: HashSet<&str> = by_name.filter_map(|key| key.name.as_deref()).collect();
    let mut seen = HashSet::new();
    let mut decision = Decision::nothing(Vec::new());
    for key in keys.iter().filter(|key| seen.insert(*key)) {
        let found = if repeated.contains(key) { Err(repeated_key(key)) } else { find(image, key) };
        let outcome = match found {
            // The entry of the name answers for both.
            Ok(topic) if key.name.is_none() && names.contains(topic.name.as_str()) => continue,
            Ok(topic) if key.name.is_some() && ids.contains(&topic.topic_id) => {
                let message = "The provided topic name maps to an ID that was already supplied.";
                let both = TopicKey { topic_id: topic.topic_id, ..key.clone() };
                decision.outcome.push((both, Err(Refusal::new(Reason::InvalidRequest, message))));
                continue;
            }
            found => found.and_then(|topic| {
                check_quota(permit, topic.partitions.len())?;
                decision.records.push(Record::from(RemoveTopicRecord { topic_id: topic.topic_id }));
                Ok(topic)
            }),
        };
        decision.outcome.push((key.clone(), outcome));
    }
    decision
}

fn repeated_key(key: &TopicKey) -> Refusal {
    let message = match (&key.name, key.topic_id.is_zero()) {
        (None, true) => "Neither topic name nor id were specified.",
        (None, false) => "Duplicate topic id.",
        (Some(_), true) => "Duplicate topic name.",
        (Some(_), false) => "You may not specify both topic name and topic id.",
    };
    Refusal::new(Reason::InvalidRequest, message)
}

fn find(image: &Image, key: &TopicKey) -> Result<DeletedTopic, Refusal> {
    let (topic, unknown) = match (&key.name, key.topic_id.is_zero()) {
        (Some(name), true) => (image.topic(name), Reason::UnknownTopic),
        (None, false) => (image.topic_by_id(key.topic_id), Reason::UnknownTopicId),
        (None, true) | (Some(_), false) => return Err(repeated_key(key)),
    };
    let topic = topic.ok_or(Refusal { reason: unknown, message: None })?;
    let partitions = topic.partitions().map(|(index, _)| index).collect();
    Ok(DeletedTopic { name: topic.name().to_string(), topic_id: topic.id(), partitions })
}

/// Values that occur more than once.
pub(super) fn duplicates<T: Copy + Eq + std::hash::Hash>(items: impl IntoIterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    items.into_iter().filter(|item| !seen.insert(*item)).collect()
}
