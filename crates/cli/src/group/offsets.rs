//! Committed offsets of a group: fetch, commit on behalf of the group, delete.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use levada_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use levada_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use levada_wire::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use levada_wire::messages::{OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest};

use crate::cluster::{Cluster, Coordinated, TopicPartition};
use crate::kafka_error;
use levada_terminal::failure::Failure;

/// From version 10 on topics have ids in place of names, which topics that were deleted no longer
/// have.
const NEWEST_WITH_NAMES: i16 = 9;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) metadata: String,
}

/// Offsets of partitions at which a consumer may resume.
pub(crate) struct Stable {
    /// Committed offsets that no open transaction can replace.
    pub(crate) offsets: BTreeMap<TopicPartition, i64>,
    /// Partitions with an offset in an open transaction.
    pub(crate) unstable: BTreeSet<TopicPartition>,
}

/// Everything that the group has committed; nothing if there is no such group.
pub(crate) fn fetch(
    cluster: &mut Cluster,
    group: &str,
) -> Result<BTreeMap<TopicPartition, Committed>, Failure> {
    let mut offsets = BTreeMap::new();
    for (place, one) in ask(cluster, group, None)? {
        check_fetched(&one, group, &place)?;
        // -1 in place of an offset that was never committed.
        if one.committed_offset >= 0 {
            let leader_epoch = Some(one.committed_leader_epoch).filter(|epoch| *epoch >= 0);
            let metadata = one.metadata.as_deref().unwrap_or_default().to_owned();
            offsets.insert(place, Committed { offset: one.committed_offset, leader_epoch, metadata });
        }
    }
    Ok(offsets)
}

/// The committed offsets of these partitions, as Kafka's consumers ask for them.
pub(crate) fn fetch_stable(
    cluster: &mut Cluster,
    group: &str,
    places: &BTreeSet<TopicPartition>,
) -> Result<Stable, Failure> {
    let mut stable = Stable { offsets: BTreeMap::new(), unstable: BTreeSet::new() };
    for (place, one) in ask(cluster, group, Some(places))? {
        if one.error_code == ErrorCode::UnstableOffsetCommit.code() {
            stable.unstable.insert(place);
            continue;
        }
        check_fetched(&one, group, &place)?;
        if one.committed_offset >= 0 {
            stable.offsets.insert(place, one.committed_offset);
        }
    }
    Ok(stable)
}

/// The failure of a partition with an offset in an open transaction.
pub(crate) fn unstable(group: &str, place: &TopicPartition) -> Failure {
    let checked = kafka_error::check(ErrorCode::UnstableOffsetCommit.code(), &fetching(group, place), None);
    checked.expect_err("the code is not 0")
}

fn fetching(group: &str, (topic, partition): &TopicPartition) -> String {
    format!("offset of group {group} in {topic}/{partition}")
}

fn check_fetched(
    one: &OffsetFetchResponsePartitions,
    group: &str,
    place: &TopicPartition,
) -> Result<(), Failure> {
    let checked = kafka_error::check(one.error_code, &fetching(group, place), None);
    kafka_error::needing(checked, "describe", &format!("--topic {}", place.0))
}

/// The answers for all partitions with a committed offset, or for these partitions, of which the
/// coordinator then returns stable offsets only. Requests with groups have the field for that in
/// all versions.
fn ask(
    cluster: &mut Cluster,
    group: &str,
    places: Option<&BTreeSet<TopicPartition>>,
) -> Result<Vec<(TopicPartition, OffsetFetchResponsePartitions)>, Failure> {
    let mut asked = OffsetFetchRequestGroup::default();
    asked.group_id = StrBytes::from(group);
    asked.member_epoch = -1;
    asked.topics = places.map(asked_topics);
    let mut request = OffsetFetchRequest::default();
    request.groups = vec![asked];
    request.require_stable = places.is_some();
    let code = |response: &levada_wire::messages::OffsetFetchResponse| {
        response.groups.first().map_or(0, |group| group.error_code)
    };
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, NEWEST_WITH_NAMES), code)?;
    let mut answers = Vec::new();
    for found in response.groups {
        if found.error_code != ErrorCode::GroupIdNotFound.code() {
            let checked = kafka_error::check(found.error_code, &format!("offsets of group {group}"), None);
            kafka_error::needing(checked, "read", &format!("--group {group}"))?;
        }
        for topic in found.topics {
            let place = |partition| (topic.name.as_str().to_owned(), partition);
            answers.extend(topic.partitions.into_iter().map(|one| (place(one.partition_index), one)));
        }
    }
    Ok(answers)
}

fn asked_topics(places: &BTreeSet<TopicPartition>) -> Vec<OffsetFetchRequestTopics> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in places {
        topics.entry(topic).or_default().push(*partition);
    }
    let topic = |(name, partitions)| {
        let mut topic = OffsetFetchRequestTopics::default();
        topic.name = StrBytes::from(name);
        topic.partition_indexes = partitions;
        topic
    };
    topics.into_iter().map(topic).collect()
}

/// In whose name offsets are committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat<'a> {
    pub(crate) group: &'a str,
    /// Empty for one who is not a member.
    pub(crate) member: &'a str,
    pub(crate) epoch: i32,
}

impl<'a> Seat<'a> {
    /// In place of members, which the group must not have.
    pub(crate) fn outside(group: &'a str) -> Self {
        Self { group, member: "", epoch: -1 }
    }
}

/// Commits offsets of a group.
pub(crate) fn commit(
    cluster: &mut Cluster,
    seat: Seat<'_>,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<(), Failure> {
    let group = seat.group;
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for ((topic, index), offset) in offsets {
        let mut partition = OffsetCommitRequestPartition::default();
        partition.partition_index = *index;
        partition.committed_offset = *offset;
        partition.committed_leader_epoch = -1;
        partition.committed_metadata = Some(StrBytes::from(""));
        topics.entry(topic).or_default().push(partition);
    }
    let mut request = OffsetCommitRequest::default();
    request.group_id = StrBytes::from(group);
    request.member_id = StrBytes::from(seat.member);
    request.generation_id_or_member_epoch = seat.epoch;
    request.retention_time_ms = -1;
    let topic = |(name, partitions): (&str, Vec<OffsetCommitRequestPartition>)| {
        let mut topic = OffsetCommitRequestTopic::default();
        topic.name = StrBytes::from(name);
        topic.partitions = partitions;
        topic
    };
    request.topics = topics.into_iter().map(topic).collect();
    let code = |response: &levada_wire::messages::OffsetCommitResponse| {
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|one| one.error_code).find(|code| *code != 0).unwrap_or(0)
    };
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, NEWEST_WITH_NAMES), code)?;
    for topic in &response.topics {
        for one in &topic.partitions {
            let doing = format!("commit {}/{} for group {group}", topic.name.as_str(), one.partition_index);
            check_place(one.error_code, &doing, group, &topic.name)?;
        }
    }
    Ok(())
}

/// Deletes the group's committed offsets of these partitions.
pub(crate) fn delete(cluster: &mut Cluster, group: &str, places: &[TopicPartition]) -> Result<(), Failure> {
    let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
    for (topic, index) in places {
        let mut partition = OffsetDeleteRequestPartition::default();
        partition.partition_index = *index;
        topics.entry(topic).or_default().push(partition);
    }
    let mut request = OffsetDeleteRequest::default();
    request.group_id = StrBytes::from(group);
    let topic = |(name, partitions): (&str, Vec<OffsetDeleteRequestPartition>)| {
        let mut topic = OffsetDeleteRequestTopic::default();
        topic.name = StrBytes::from(name);
        topic.partitions = partitions;
        topic
    };
    request.topics = topics.into_iter().map(topic).collect();
    let response =
        cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), |one| one.error_code)?;
    let checked = kafka_error::check(response.error_code, &format!("delete offsets of group {group}"), None);
    kafka_error::needing(checked, "delete", &format!("--group {group}"))?;
    for topic in &response.topics {
        for one in &topic.partitions {
            let doing = format!("delete offset {}/{} of {group}", topic.name.as_str(), one.partition_index);
            check_place(one.error_code, &doing, group, &topic.name)?;
        }
    }
    Ok(())
}

/// The answer about one partition: the topic may be refused, or the group.
fn check_place(code: i16, doing: &str, group: &str, topic: &str) -> Result<(), Failure> {
    let resource = match ErrorCode::of_code(code) {
        Some(ErrorCode::TopicAuthorizationFailed) => format!("--topic {topic}"),
        _ => format!("--group {group}"),
    };
    kafka_error::needing(kafka_error::check(code, doing, None), "read", &resource)
}
