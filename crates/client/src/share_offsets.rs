//! Start offsets of share groups: describe, set, delete.

use std::collections::BTreeMap;

use levada_wire::StrBytes;
use levada_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use levada_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use levada_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use levada_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
};

use crate::cluster::{Cluster, TopicPartition};
use crate::error::ClientError;
use crate::refusal::{Coordinated, Operation, Refusal};

/// Number of groups of one request.
const GROUPS_PER_REQUEST: usize = 500;

/// The position of a share group in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareOffset {
    /// Offset of the first record whose delivery is not complete; none until a member has fetched
    /// from the partition.
    pub start: Option<i64>,
    /// Leader epoch of the partition when the group's state was written.
    pub leader_epoch: i32,
    /// Records between the start and the end of the log whose delivery is not complete, if the
    /// broker knows the number.
    pub lag: Option<i64>,
    /// Error code of a partition whose offsets are not known; 0 for others.
    pub error_code: i16,
}

/// The position of the group in each partition with state of the group; empty if there is no such
/// group.
///
/// # Errors
/// The coordinator does not respond, or refuses the group.
pub fn describe(
    cluster: &mut Cluster,
    group: &str,
) -> Result<BTreeMap<TopicPartition, ShareOffset>, ClientError> {
    let request = asked(&[group]);
    let code = |response: &DescribeShareGroupOffsetsResponse| {
        response.groups.first().map_or(0, |group| group.error_code)
    };
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), code)?;
    let mut offsets = BTreeMap::new();
    for found in response.groups {
        let operation = || Operation::ShareOffsets { group: group.to_owned() };
        Refusal::check(found.error_code, found.error_message.as_deref(), operation)?;
        for topic in found.topics {
            let known = |number: i64| Some(number).filter(|number| *number >= 0);
            offsets.extend(topic.partitions.into_iter().map(|one| {
                let has_offsets = one.error_code == 0;
                let offset = ShareOffset {
                    start: known(one.start_offset).filter(|_| has_offsets),
                    leader_epoch: one.leader_epoch,
                    lag: known(one.lag).filter(|_| has_offsets),
                    error_code: one.error_code,
                };
                ((topic.topic_name.as_str().to_owned(), one.partition_index), offset)
            }));
        }
    }
    Ok(offsets)
}

/// Lag of share groups of one coordinator, by group, with few requests: the sum over the partitions
/// whose lag the broker knows. Groups without such a partition are omitted.
///
/// # Errors
/// The broker does not respond.
pub fn lags(
    cluster: &mut Cluster,
    coordinator: i32,
    groups: &[&str],
) -> Result<BTreeMap<String, i64>, ClientError> {
    let mut lags = BTreeMap::new();
    for groups in groups.chunks(GROUPS_PER_REQUEST) {
        let response = cluster.broker(coordinator)?.request(&asked(groups))?;
        for group in response.groups.iter().filter(|group| group.error_code == 0) {
            let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            let known = partitions.filter(|one| one.error_code == 0 && one.lag >= 0).map(|one| one.lag);
            if let Some(sum) = known.reduce(i64::saturating_add) {
                lags.insert(group.group_id.to_string(), sum);
            }
        }
    }
    Ok(lags)
}

fn asked(groups: &[&str]) -> DescribeShareGroupOffsetsRequest {
    let group = |id: &&str| {
        let mut asked = DescribeShareGroupOffsetsRequestGroup::default();
        (asked.group_id, asked.topics) = (StrBytes::from(*id), None);
        asked
    };
    let mut request = DescribeShareGroupOffsetsRequest::default();
    request.groups = groups.iter().map(group).collect();
    request
}

/// Sets the start offsets of a group without members, which is made if there is none.
///
/// # Errors
/// The coordinator does not respond, or refuses the group or one of the partitions. Other
/// partitions of the request may have their new offset.
pub fn set(
    cluster: &mut Cluster,
    group: &str,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<(), ClientError> {
    let mut topics: BTreeMap<&str, Vec<AlterShareGroupOffsetsRequestPartition>> = BTreeMap::new();
    for ((topic, index), offset) in offsets {
        let mut partition = AlterShareGroupOffsetsRequestPartition::default();
        partition.partition_index = *index;
        partition.start_offset = *offset;
        topics.entry(topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, Vec<AlterShareGroupOffsetsRequestPartition>)| {
        let mut topic = AlterShareGroupOffsetsRequestTopic::default();
        topic.topic_name = StrBytes::from(name);
        topic.partitions = partitions;
        topic
    };
    let mut request = AlterShareGroupOffsetsRequest::default();
    request.group_id = StrBytes::from(group);
    request.topics = topics.into_iter().map(topic).collect();
    let code = |response: &AlterShareGroupOffsetsResponse| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let codes = std::iter::once(response.error_code).chain(partitions.map(|one| one.error_code));
        codes.into_iter().find(|code| *code != 0).unwrap_or(0)
    };
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), code)?;
    let operation = || Operation::SetShareOffsets { group: group.to_owned() };
    Refusal::check(response.error_code, response.error_message.as_deref(), operation)?;
    for topic in &response.responses {
        for one in &topic.partitions {
            Refusal::check(one.error_code, one.error_message.as_deref(), || Operation::SetShareOffset {
                group: group.to_owned(),
                topic: topic.topic_name.as_str().to_owned(),
                partition: one.partition_index,
            })?;
        }
    }
    Ok(())
}

/// Deletes the state of these topics in a group without members. The next member begins there as
/// `share.auto.offset.reset` says.
///
/// # Errors
/// The coordinator does not respond, or refuses the group or one of the topics. The state of other
/// topics of the request may be deleted.
pub fn delete(cluster: &mut Cluster, group: &str, topics: &[String]) -> Result<(), ClientError> {
    let topic = |name: &String| {
        let mut topic = DeleteShareGroupOffsetsRequestTopic::default();
        topic.topic_name = StrBytes::from(name.as_str());
        topic
    };
    let mut request = DeleteShareGroupOffsetsRequest::default();
    request.group_id = StrBytes::from(group);
    request.topics = topics.iter().map(topic).collect();
    let response =
        cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), |one| one.error_code)?;
    let operation = || Operation::DeleteOffsets { group: group.to_owned() };
    Refusal::check(response.error_code, response.error_message.as_deref(), operation)?;
    for topic in &response.responses {
        Refusal::check(topic.error_code, topic.error_message.as_deref(), || Operation::DeleteShareOffsets {
            group: group.to_owned(),
            topic: topic.topic_name.as_str().to_owned(),
        })?;
    }
    Ok(())
}
