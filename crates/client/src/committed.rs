//! Committed offsets of a group: fetch, commit on behalf of the group, delete.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use levada_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use levada_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use levada_wire::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use levada_wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetFetchRequest, OffsetFetchResponse,
};

use crate::cluster::{Cluster, TopicPartition};
use crate::error::ClientError;
use crate::refusal::{Coordinated, Operation, Refusal};

/// Last version with names of topics: later ones have ids, and deleted topics have none.
const NEWEST_WITH_NAMES: i16 = 9;

/// First version whose requests name several groups, and the number of groups of one request.
const FIRST_WITH_GROUPS: i16 = 8;
const GROUPS_PER_REQUEST: usize = 500;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The offset at which a consumer resumes.
    pub offset: i64,
    /// Leader epoch of the last record before it, if the consumer sent it.
    pub leader_epoch: Option<i32>,
    /// Text that the consumer has stored with the offset.
    pub metadata: String,
}

/// Offsets of partitions at which a consumer may resume.
#[derive(Clone, Debug, Default)]
pub struct Stable {
    /// Committed offsets that no open transaction can replace.
    pub offsets: BTreeMap<TopicPartition, i64>,
    /// Partitions with an offset in an open transaction.
    pub unstable: BTreeSet<TopicPartition>,
}

/// Everything that the group has committed; nothing if there is no such group.
///
/// # Errors
/// The coordinator does not respond, or refuses the group or one of the topics.
pub fn fetch(cluster: &mut Cluster, group: &str) -> Result<BTreeMap<TopicPartition, Committed>, ClientError> {
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

/// Everything that groups of one coordinator have committed, by group, with few requests. Groups
/// that the broker refuses are omitted.
///
/// # Errors
/// The broker does not respond.
pub fn fetch_many(
    cluster: &mut Cluster,
    coordinator: i32,
    groups: &[&str],
) -> Result<BTreeMap<String, BTreeMap<TopicPartition, i64>>, ClientError> {
    let client = cluster.broker(coordinator)?;
    let version = client.best_version::<OffsetFetchRequest>()?.min(NEWEST_WITH_NAMES);
    let per_request = if version < FIRST_WITH_GROUPS { 1 } else { GROUPS_PER_REQUEST };
    let mut offsets = BTreeMap::new();
    for asked in groups.chunks(per_request) {
        let mut request = OffsetFetchRequest::default();
        request.groups = asked.iter().map(|group| asked_group(group, None)).collect();
        let response = client.request_at(version, &request)?;
        for found in response.groups.into_iter().filter(|group| group.error_code == 0) {
            // Responses of early versions do not name their group.
            let group = if let [one] = asked { (*one).to_owned() } else { found.group_id.to_string() };
            let answers = found.topics.into_iter().flat_map(|topic| {
                let name = topic.name.to_string();
                topic.partitions.into_iter().map(move |one| ((name.clone(), one.partition_index), one))
            });
            let known = answers.filter(|(_, one)| one.error_code == 0 && one.committed_offset >= 0);
            offsets.insert(group, known.map(|(place, one)| (place, one.committed_offset)).collect());
        }
    }
    Ok(offsets)
}

/// The committed offsets of these partitions, only stable ones, as Kafka's consumers fetch them.
///
/// # Errors
/// Same as [`fetch`].
pub fn fetch_stable(
    cluster: &mut Cluster,
    group: &str,
    places: &BTreeSet<TopicPartition>,
) -> Result<Stable, ClientError> {
    let mut stable = Stable::default();
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

/// The error of a partition with an offset in an open transaction.
#[must_use]
pub fn unstable(group: &str, place: &TopicPartition) -> ClientError {
    let code = ErrorCode::UnstableOffsetCommit.code();
    Refusal { operation: fetching(group, place), code, message: None }.into()
}

fn fetching(group: &str, (topic, partition): &TopicPartition) -> Operation {
    Operation::CommittedOffset { group: group.to_owned(), topic: topic.clone(), partition: *partition }
}

fn check_fetched(
    one: &OffsetFetchResponsePartitions,
    group: &str,
    place: &TopicPartition,
) -> Result<(), ClientError> {
    Ok(Refusal::check(one.error_code, None, || fetching(group, place))?)
}

/// The results for all partitions with a committed offset, or for these partitions, of which the
/// coordinator then returns stable offsets only. Requests with groups have the field for that in
/// all versions.
fn ask(
    cluster: &mut Cluster,
    group: &str,
    places: Option<&BTreeSet<TopicPartition>>,
) -> Result<Vec<(TopicPartition, OffsetFetchResponsePartitions)>, ClientError> {
    let mut request = OffsetFetchRequest::default();
    request.groups = vec![asked_group(group, places)];
    request.require_stable = places.is_some();
    let code = |response: &OffsetFetchResponse| response.groups.first().map_or(0, |group| group.error_code);
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, NEWEST_WITH_NAMES), code)?;
    let mut answers = Vec::new();
    for found in response.groups {
        if found.error_code != ErrorCode::GroupIdNotFound.code() {
            let operation = || Operation::CommittedOffsets { group: group.to_owned() };
            Refusal::check(found.error_code, None, operation)?;
        }
        for topic in found.topics {
            let place = |partition| (topic.name.as_str().to_owned(), partition);
            answers.extend(topic.partitions.into_iter().map(|one| (place(one.partition_index), one)));
        }
    }
    Ok(answers)
}

fn asked_group(group: &str, places: Option<&BTreeSet<TopicPartition>>) -> OffsetFetchRequestGroup {
    let mut asked = OffsetFetchRequestGroup::default();
    asked.group_id = StrBytes::from(group);
    asked.member_epoch = -1;
    asked.topics = places.map(asked_topics);
    asked
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

/// The member that commits offsets, or a program outside of the group.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// The group's id.
    pub group: &'a str,
    /// The member's id; empty outside of the group.
    pub member: &'a str,
    /// Epoch of the member; -1 outside of the group.
    pub epoch: i32,
}

impl<'a> Seat<'a> {
    /// Commits without a membership; the group must have no members.
    #[must_use]
    pub fn outside(group: &'a str) -> Self {
        Self { group, member: "", epoch: -1 }
    }
}

/// Commits offsets of a group.
///
/// # Errors
/// The coordinator does not respond, or refuses the member or one of the partitions. Other
/// partitions of the request may be committed.
pub fn commit(
    cluster: &mut Cluster,
    seat: Seat<'_>,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<(), ClientError> {
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
    let code = |response: &OffsetCommitResponse| {
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|one| one.error_code).find(|code| *code != 0).unwrap_or(0)
    };
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, NEWEST_WITH_NAMES), code)?;
    for topic in &response.topics {
        for one in &topic.partitions {
            Refusal::check(one.error_code, None, || Operation::Commit {
                group: group.to_owned(),
                topic: topic.name.as_str().to_owned(),
                partition: one.partition_index,
            })?;
        }
    }
    Ok(())
}

/// Deletes the group's committed offsets of these partitions.
///
/// # Errors
/// The coordinator does not respond, or refuses the group or one of the partitions.
pub fn delete(cluster: &mut Cluster, group: &str, places: &[TopicPartition]) -> Result<(), ClientError> {
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
    Refusal::check(response.error_code, None, || Operation::DeleteOffsets { group: group.to_owned() })?;
    for topic in &response.topics {
        for one in &topic.partitions {
            Refusal::check(one.error_code, None, || Operation::DeleteOffset {
                group: group.to_owned(),
                topic: topic.name.as_str().to_owned(),
                partition: one.partition_index,
            })?;
        }
    }
    Ok(())
}
