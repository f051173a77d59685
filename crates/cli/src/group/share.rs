//! Share groups in `levada group`: description, start offsets, and the removal of members.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use levada_client::share_offsets::{self, ShareOffset};
use levada_client::{
    Cluster, Coordinated, FoundOffset, Isolation, LATEST, Operation, Refusal, TopicPartition,
};
use levada_terminal::failure::Failure;
use levada_terminal::output;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::share_group_describe_response;
use levada_wire::messages::{ShareGroupDescribeRequest, ShareGroupHeartbeatRequest};
use serde::Serialize;

use super::state::{Group, Member, Partition, host};
use crate::ends::Ends;

/// The type of these groups, as ListGroups names it.
pub(super) const SHARE: &str = "share";

/// The epoch of a member that leaves.
const LEAVING: i32 = -1;

#[derive(Debug, Serialize)]
pub(super) struct Description {
    #[serde(flatten)]
    group: Group,
    /// Sum of the known values, if there are any.
    lag: Option<i64>,
    partitions: Vec<Row>,
}

/// A partition that is shared or has been.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    /// Offset of the first record whose delivery is not complete.
    start: Option<i64>,
    leader_epoch: Option<i32>,
    /// End of the log; none if there is no such partition, or it has no leader.
    end: Option<i64>,
    /// Number of records, from the start offset on, whose delivery is complete; `None` if not
    /// known.
    delivery_complete: Option<i64>,
    lag: Option<i64>,
    /// Ids of the members that have the partition.
    members: Vec<String>,
}

/// A share group as its coordinator describes it; `None` if there is no such group.
pub(super) fn describe(cluster: &mut Cluster, id: &str, coordinator: i32) -> Result<Option<Group>, Failure> {
    let mut request = ShareGroupDescribeRequest::default();
    request.group_ids = vec![StrBytes::from(id)];
    let response = cluster.ask_coordinator(Coordinated::Group, id, (&request, i16::MAX), |response| {
        response.groups.first().map_or(0, |group| group.error_code)
    })?;
    let Some(group) = response.groups.into_iter().next() else { return Ok(None) };
    if group.error_code == ErrorCode::GroupIdNotFound.code() {
        return Ok(None);
    }
    let operation = || Operation::ShareOffsets { group: id.to_owned() };
    Refusal::check(group.error_code, group.error_message.as_deref(), operation)
        .map_err(levada_client::ClientError::from)?;
    Ok(Some(Group {
        group: id.to_owned(),
        kind: SHARE,
        protocol_type: SHARE.to_owned(),
        state: group.group_state.as_str().to_owned(),
        assignor: group.assignor_name.as_str().to_owned(),
        epoch: Some(group.group_epoch),
        coordinator,
        members: group.members.iter().map(member).collect(),
        topology: None,
    }))
}

fn member(member: &share_group_describe_response::Member) -> Member {
    let partitions = member.assignment.topic_partitions.iter().flat_map(|one| {
        let topic = one.topic_name.as_str();
        one.partitions.iter().map(|index| Partition { topic: topic.to_owned(), partition: *index })
    });
    let mut partitions: Vec<Partition> = partitions.collect();
    partitions.sort();
    Member {
        id: member.member_id.as_str().to_owned(),
        instance_id: None,
        client_id: member.client_id.as_str().to_owned(),
        host: host(&member.client_host),
        epoch: Some(member.member_epoch),
        topics: member.subscribed_topic_names.iter().map(|name| name.as_str().to_owned()).collect(),
        topic_regex: None,
        partitions,
        lag: None,
        streams: None,
    }
}

/// Removes a member, as the end of its session would.
pub(super) fn kick(cluster: &mut Cluster, group: &str, member: &Member) -> Result<(), Failure> {
    let mut request = ShareGroupHeartbeatRequest::default();
    request.group_id = StrBytes::from(group);
    request.member_id = StrBytes::from(member.id.as_str());
    request.member_epoch = LEAVING;
    let response =
        cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), |one| one.error_code)?;
    let operation = || Operation::Share { group: group.to_owned() };
    let checked = Refusal::check(response.error_code, response.error_message.as_deref(), operation);
    Ok(checked.map_err(levada_client::ClientError::from)?)
}

/// The start offset of each partition that has one.
pub(super) fn starts(cluster: &mut Cluster, group: &str) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
    let offsets = share_offsets::describe(cluster, group)?;
    Ok(offsets.into_iter().filter_map(|(place, one)| Some((place, one.start?))).collect())
}

impl Description {
    /// A described group with its offsets.
    pub(super) fn of(cluster: &mut Cluster, group: Group) -> Result<Self, Failure> {
        let offsets = share_offsets::describe(cluster, &group.group)?;
        let assigned = group.members.iter().flat_map(|member| &member.partitions);
        let names =
            offsets.keys().map(|place| place.0.as_str()).chain(assigned.map(|one| one.topic.as_str()));
        let names: BTreeSet<&str> = names.collect();
        let names: Vec<&str> = names.into_iter().collect();
        let topics = cluster.topics(Some(&names))?;
        let mut asked = Ends::default();
        let ends = asked.ask(cluster, topics.values(), LATEST, Isolation::Uncommitted)?;
        asked.note();
        let partitions = rows(&offsets, &group.members, &ends);
        let lags: Vec<i64> = partitions.iter().filter_map(|row| row.lag).collect();
        let lag = (!lags.is_empty()).then(|| lags.iter().sum());
        Ok(Self { group, lag, partitions })
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.group.print_head(out, self.lag)?;
        if self.partitions.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row = |row: &Row| {
            let numbers = [row.start, row.end, row.delivery_complete, row.lag].map(output::number);
            let members = row.members.len().to_string();
            [vec![row.topic.clone(), row.partition.to_string()], numbers.to_vec(), vec![members]].concat()
        };
        let header = ["TOPIC", "PARTITION", "START", "END", "COMPLETE", "LAG", "MEMBERS"];
        output::table(out, &header, self.partitions.iter().map(row).collect())
    }
}

fn rows(
    offsets: &BTreeMap<TopicPartition, ShareOffset>,
    members: &[Member],
    ends: &BTreeMap<TopicPartition, FoundOffset>,
) -> Vec<Row> {
    let mut owners: BTreeMap<TopicPartition, Vec<String>> = BTreeMap::new();
    for member in members {
        for one in &member.partitions {
            owners.entry((one.topic.clone(), one.partition)).or_default().push(member.id.clone());
        }
    }
    let places: BTreeSet<TopicPartition> = offsets.keys().chain(owners.keys()).cloned().collect();
    let row = |place: TopicPartition| {
        let known = offsets.get(&place).copied().unwrap_or_default();
        let end = ends.get(&place).and_then(|found| found.offset());
        let delivery_complete = match (known.start, known.lag, end) {
            // The end may be a later one than that of the lag.
            (Some(start), Some(lag), Some(end)) => Some((end - start - lag).max(0)),
            _ => None,
        };
        let members = owners.remove(&place).unwrap_or_default();
        let leader_epoch = known.start.map(|_| known.leader_epoch);
        let (topic, partition) = place;
        Row {
            topic,
            partition,
            start: known.start,
            leader_epoch,
            end,
            delivery_complete,
            lag: known.lag,
            members,
        }
    };
    places.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests;
