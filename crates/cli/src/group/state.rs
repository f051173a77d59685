//! Description of a group by its coordinator.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, Coordinated, TopicPartition};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::consumer_group_describe_response::{self, DescribedGroup};
use levada_wire::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, decode_consumer_protocol_assignment,
    decode_consumer_protocol_subscription, describe_groups_response,
};
use levada_wire::primitives::DecodeLimits;
use serde::Serialize;

use super::list;
use super::share::{self, SHARE};
use super::streams::{self, STREAMS, StreamsMember, Topology};
use crate::kafka_error;
use levada_terminal::failure::Failure;
use levada_terminal::output;

/// A group and its members.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    pub(super) group: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) protocol_type: String,
    pub(super) state: String,
    /// Name of the assignor.
    pub(super) assignor: String,
    /// Group epoch; `None` for classic groups.
    pub(super) epoch: Option<i32>,
    pub(super) coordinator: i32,
    pub(super) members: Vec<Member>,
    /// Topology of a streams group.
    #[serde(skip)]
    pub(super) topology: Option<Topology>,
}

/// A consumer in a group.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Member {
    pub(super) id: String,
    /// Instance id of a static member.
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) host: String,
    /// Member epoch; `None` for classic groups.
    pub(super) epoch: Option<i32>,
    pub(super) topics: Vec<String>,
    pub(super) topic_regex: Option<String>,
    pub(super) partitions: Vec<Partition>,
    /// Lag in the member's partitions, as far as known; `None` in share and streams groups.
    pub(super) lag: Option<i64>,
    /// Details of a member of a streams group.
    #[serde(flatten)]
    pub(super) streams: Option<StreamsMember>,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Partition {
    pub(super) topic: String,
    pub(super) partition: i32,
}

const CONSUMER: &str = "consumer";
const CLASSIC: &str = "classic";
/// State in DescribeGroups of a group that does not exist.
const DEAD: &str = "Dead";
const EMPTY: &str = "Empty";

impl Group {
    /// True if the group has no members.
    pub(super) fn is_idle(&self) -> bool {
        [DEAD, EMPTY].contains(&self.state.as_str())
    }

    /// Prints all but the partitions.
    pub(super) fn print_head(&self, out: &mut dyn Write, lag: Option<i64>) -> Result<(), Failure> {
        writeln!(out, "Group        {}", output::or_nothing(&self.group))?;
        writeln!(out, "Type         {}", self.kind)?;
        writeln!(out, "State        {}", self.state)?;
        if self.kind != STREAMS {
            writeln!(out, "Assignor     {}", output::or_nothing(&self.assignor))?;
        }
        writeln!(out, "Coordinator  {}", self.coordinator)?;
        writeln!(out, "Members      {}", self.members.len())?;
        writeln!(out, "Lag          {}", output::number(lag))?;
        if self.members.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row = |member: &Member| {
            let epoch = output::number(member.epoch.map(i64::from));
            let who = |column: String| vec![member.id.clone(), column, member.client_id.clone()];
            let (mut row, rest) = match member.streams.as_ref().map(StreamsMember::columns) {
                Some([process, active, standby]) => (who(process), vec![active, standby]),
                None => {
                    let instance = output::or_nothing(member.instance_id.as_deref().unwrap_or_default());
                    let lag = (self.kind != SHARE).then(|| output::number(member.lag));
                    let partitions = member.partitions.len().to_string();
                    (who(instance), std::iter::once(partitions).chain(lag).collect())
                }
            };
            row.extend([member.host.clone(), epoch]);
            row.extend(rest);
            row
        };
        let header: &[&str] = match self.kind {
            STREAMS => &["MEMBER", "PROCESS", "CLIENT", "HOST", "EPOCH", "ACTIVE", "STANDBY"],
            SHARE => &["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "PARTITIONS"],
            _ => &["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "PARTITIONS", "LAG"],
        };
        output::table(out, header, self.members.iter().map(row).collect())
    }

    /// The member of each partition, by the member's id.
    pub(super) fn owners(&self) -> BTreeMap<TopicPartition, &Member> {
        let of = |member: &'_ Member| -> Vec<TopicPartition> {
            member.partitions.iter().map(|one| (one.topic.clone(), one.partition)).collect()
        };
        self.members.iter().flat_map(|member| of(member).into_iter().map(move |one| (one, member))).collect()
    }
}

/// Like [`describe_any`]; a share group is an error: it commits no offsets.
pub(super) fn describe(cluster: &mut Cluster, id: &str) -> Result<Option<Group>, Failure> {
    match describe_any(cluster, id)? {
        Some(group) if group.kind == SHARE => {
            Err(Failure::new(format!("group {id} is a share group, which commits no offsets")))
        }
        found => Ok(found),
    }
}

/// Sends the request to the coordinator; `None` if the group does not exist.
pub(super) fn describe_any(cluster: &mut Cluster, id: &str) -> Result<Option<Group>, Failure> {
    let coordinator = cluster.coordinator(Coordinated::Group, id)?;
    let offered = cluster.broker(coordinator)?.best_version::<ConsumerGroupDescribeRequest>().is_ok();
    if offered && let Some(group) = describe_consumer(cluster, id, coordinator)? {
        return Ok(Some(group));
    }
    if let Some(group) = describe_classic(cluster, id, coordinator)? {
        return Ok(Some(group));
    }
    match list::kind(cluster, id)?.map(|kind| kind.to_lowercase()).as_deref() {
        Some(SHARE) => share::describe(cluster, id, coordinator),
        Some(STREAMS) => streams::describe(cluster, id, coordinator),
        _ => Ok(None),
    }
}

fn describe_consumer(cluster: &mut Cluster, id: &str, coordinator: i32) -> Result<Option<Group>, Failure> {
    Ok(ask_consumer(cluster, id)?.map(|group| Group {
        group: id.to_owned(),
        kind: CONSUMER,
        protocol_type: CONSUMER.to_owned(),
        state: group.group_state.as_str().to_owned(),
        assignor: group.assignor_name.as_str().to_owned(),
        epoch: Some(group.group_epoch),
        coordinator,
        members: group.members.iter().map(Member::of_consumer).collect(),
        topology: None,
    }))
}

/// A group of consumers as its coordinator describes it; `None` if there is no such group.
fn ask_consumer(cluster: &mut Cluster, id: &str) -> Result<Option<DescribedGroup>, Failure> {
    let mut request = ConsumerGroupDescribeRequest::default();
    request.group_ids = vec![StrBytes::from(id)];
    let response = cluster.ask_coordinator(Coordinated::Group, id, (&request, i16::MAX), |response| {
        response.groups.first().map_or(0, |group| group.error_code)
    })?;
    let Some(group) = response.groups.into_iter().next() else { return Ok(None) };
    // Brokers of Kafka refuse with the second code, although they offer the API, if the cluster has
    // no groups of this type: group.version is 0, or the coordinator is that of Kafka 3.
    if [ErrorCode::GroupIdNotFound.code(), ErrorCode::UnsupportedVersion.code()].contains(&group.error_code) {
        return Ok(None);
    }
    let checked =
        kafka_error::check(group.error_code, &format!("group {id}"), group.error_message.as_deref());
    kafka_error::needing(checked, "describe", &format!("--group {id}"))?;
    Ok(Some(group))
}

/// Number of partitions that the coordinator intends for a member; `None` while it still computes
/// the assignment, and for an unknown member.
pub(crate) fn target_of(cluster: &mut Cluster, id: &str, member: &str) -> Result<Option<usize>, Failure> {
    let Some(group) = ask_consumer(cluster, id)? else { return Ok(None) };
    if group.assignment_epoch != group.group_epoch {
        return Ok(None);
    }
    let member = group.members.iter().find(|one| one.member_id.as_str() == member);
    Ok(member
        .map(|one| one.target_assignment.topic_partitions.iter().map(|topic| topic.partitions.len()).sum()))
}

fn describe_classic(cluster: &mut Cluster, id: &str, coordinator: i32) -> Result<Option<Group>, Failure> {
    let mut request = DescribeGroupsRequest::default();
    request.groups = vec![StrBytes::from(id)];
    let response = cluster.ask_coordinator(Coordinated::Group, id, (&request, i16::MAX), |response| {
        response.groups.first().map_or(0, |group| group.error_code)
    })?;
    let Some(group) = response.groups.into_iter().next() else { return Ok(None) };
    if group.error_code == ErrorCode::GroupIdNotFound.code() || group.group_state.as_str() == DEAD {
        return Ok(None);
    }
    let checked =
        kafka_error::check(group.error_code, &format!("group {id}"), group.error_message.as_deref());
    kafka_error::needing(checked, "describe", &format!("--group {id}"))?;
    let consumes = group.protocol_type.as_str() == CONSUMER;
    Ok(Some(Group {
        group: id.to_owned(),
        kind: CLASSIC,
        protocol_type: group.protocol_type.as_str().to_owned(),
        state: group.group_state.as_str().to_owned(),
        assignor: group.protocol_data.as_str().to_owned(),
        epoch: None,
        coordinator,
        members: group.members.iter().map(|member| Member::of_classic(member, consumes)).collect(),
        topology: None,
    }))
}

impl Member {
    fn of_consumer(member: &consumer_group_describe_response::Member) -> Self {
        let partitions = member.assignment.topic_partitions.iter().flat_map(|one| {
            let topic = one.topic_name.as_str();
            one.partitions.iter().map(|index| Partition { topic: topic.to_owned(), partition: *index })
        });
        let mut partitions: Vec<Partition> = partitions.collect();
        partitions.sort();
        Self {
            id: member.member_id.as_str().to_owned(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            client_id: member.client_id.as_str().to_owned(),
            host: host(&member.client_host),
            epoch: Some(member.member_epoch),
            topics: member.subscribed_topic_names.iter().map(|name| name.as_str().to_owned()).collect(),
            topic_regex: member
                .subscribed_topic_regex
                .as_deref()
                .filter(|one| !one.is_empty())
                .map(str::to_owned),
            partitions,
            lag: None,
            streams: None,
        }
    }

    /// Of groups that do not consume topics, such as Connect's, metadata and assignment cannot be
    /// read.
    fn of_classic(member: &describe_groups_response::DescribedGroupMember, consumes: bool) -> Self {
        let limits = DecodeLimits::default();
        let subscribed = decode_consumer_protocol_subscription(member.member_metadata.clone(), limits);
        let assigned = decode_consumer_protocol_assignment(member.member_assignment.clone(), limits);
        let topics = subscribed.ok().filter(|_| consumes).map(|(_, one)| one.topics).unwrap_or_default();
        let assigned = assigned.ok().filter(|_| consumes).map(|(_, one)| one.assigned_partitions);
        let partitions = assigned.iter().flatten().flat_map(|one| {
            let topic = one.topic.as_str();
            one.partitions.iter().map(|index| Partition { topic: topic.to_owned(), partition: *index })
        });
        let mut partitions: Vec<Partition> = partitions.collect();
        partitions.sort();
        Self {
            id: member.member_id.as_str().to_owned(),
            instance_id: member.group_instance_id.as_deref().map(str::to_owned),
            client_id: member.client_id.as_str().to_owned(),
            host: host(&member.client_host),
            epoch: None,
            topics: topics.iter().map(|name| name.as_str().to_owned()).collect(),
            topic_regex: None,
            partitions,
            lag: None,
            streams: None,
        }
    }
}

/// The address without the slash that Kafka puts before it.
pub(super) fn host(text: &StrBytes) -> String {
    text.as_str().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
