//! Streams groups in `levada group`: members with their tasks, the lag of each task, the topology,
//! and the removal of members.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use levada_client::{Cluster, Coordinated, Topic, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::streams_group_describe_response::{self, DescribedGroup, TaskIds};
use levada_wire::messages::{StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest};
use serde::Serialize;

use super::state::{Group, Member, Partition, host};
use crate::kafka_error;

/// The type of these groups, as ListGroups names it.
pub(super) const STREAMS: &str = "streams";

/// The epoch of a member that leaves.
const LEAVING: i32 = -1;

/// Topology of the application, as its group has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Topology {
    epoch: i32,
    /// None while topics are missing or have wrong numbers of partitions.
    subtopologies: Option<Vec<Subtopology>>,
}

/// Part of a topology: the topics that its tasks read and write.
#[derive(Clone, Debug, Serialize)]
struct Subtopology {
    subtopology: String,
    source_topics: Vec<String>,
    repartition_source_topics: Vec<String>,
    repartition_sink_topics: Vec<String>,
    changelog_topics: Vec<String>,
}

/// Fields that only members of streams groups have.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StreamsMember {
    /// Instances of an application have one id for all of their threads.
    process_id: String,
    rack: Option<String>,
    /// Address for interactive queries.
    endpoint: Option<String>,
    topology_epoch: i32,
    tags: BTreeMap<String, String>,
    active: Vec<Tasks>,
    standby: Vec<Tasks>,
}

/// Tasks of one subtopology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Tasks {
    subtopology: String,
    partitions: Vec<i32>,
}

/// One task, with its members.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Task {
    subtopology: String,
    partition: i32,
    /// Sum over the partitions that the task reads, of the known values.
    lag: Option<i64>,
    /// Id of the member that processes the records.
    member: Option<String>,
    /// Ids of the members that keep a copy of its state.
    standby: Vec<String>,
}

/// Parts of a description that other kinds of groups do not have.
#[derive(Debug, Serialize)]
pub(super) struct Description {
    topology: Option<Topology>,
    tasks: Vec<Task>,
}

/// A streams group as its coordinator describes it; `None` if there is no such group.
pub(super) fn describe(cluster: &mut Cluster, id: &str, coordinator: i32) -> Result<Option<Group>, Failure> {
    let mut request = StreamsGroupDescribeRequest::default();
    request.group_ids = vec![StrBytes::from(id)];
    let response = cluster.ask_coordinator(Coordinated::Group, id, (&request, i16::MAX), |response| {
        response.groups.first().map_or(0, |group| group.error_code)
    })?;
    let Some(group) = response.groups.into_iter().next() else { return Ok(None) };
    if group.error_code == ErrorCode::GroupIdNotFound.code() {
        return Ok(None);
    }
    let checked =
        kafka_error::check(group.error_code, &format!("group {id}"), group.error_message.as_deref());
    kafka_error::needing(checked, "describe", &format!("--group {id}"))?;
    let topology = group.topology.as_ref().map(Topology::of);
    let names: Vec<&str> = topology.iter().flat_map(Topology::read).map(|(_, name)| name).collect();
    let topics = if names.is_empty() { BTreeMap::new() } else { cluster.topics(Some(&names))? };
    Ok(Some(described(id, &group, (coordinator, topology), &topics)))
}

fn described(
    id: &str,
    group: &DescribedGroup,
    (coordinator, topology): (i32, Option<Topology>),
    topics: &BTreeMap<String, Topic>,
) -> Group {
    let member = |member: &streams_group_describe_response::Member| {
        let streams = StreamsMember::of(member);
        let partitions = topology.iter().flat_map(|one| one.partitions(&streams.active, topics));
        Member {
            id: member.member_id.as_str().to_owned(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            client_id: member.client_id.as_str().to_owned(),
            host: host(&member.client_host),
            epoch: Some(member.member_epoch),
            topics: Vec::new(),
            topic_regex: None,
            partitions: partitions.collect(),
            lag: None,
            streams: Some(streams),
        }
    };
    let mut members: Vec<Member> = group.members.iter().map(member).collect();
    members.sort_by(|one, other| one.id.cmp(&other.id));
    Group {
        group: id.to_owned(),
        kind: STREAMS,
        protocol_type: STREAMS.to_owned(),
        state: group.group_state.as_str().to_owned(),
        assignor: String::new(),
        epoch: Some(group.group_epoch),
        coordinator,
        members,
        topology,
    }
}

/// Removes a member, as the end of its session would.
pub(super) fn kick(cluster: &mut Cluster, group: &str, member: &Member) -> Result<(), Failure> {
    let mut request = StreamsGroupHeartbeatRequest::default();
    request.group_id = StrBytes::from(group);
    request.member_id = StrBytes::from(member.id.as_str());
    request.member_epoch = LEAVING;
    let response =
        cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), |one| one.error_code)?;
    let doing = format!("remove member {}", member.id);
    let checked = kafka_error::check(response.error_code, &doing, response.error_message.as_deref());
    kafka_error::needing(checked, "read", &format!("--group {group}"))
}

fn texts(names: &[StrBytes]) -> Vec<String> {
    names.iter().map(|name| name.as_str().to_owned()).collect()
}

impl Topology {
    fn of(topology: &streams_group_describe_response::Topology) -> Self {
        let subtopology = |one: &streams_group_describe_response::Subtopology| {
            let names = |topics: &[streams_group_describe_response::TopicInfo]| {
                topics.iter().map(|topic| topic.name.as_str().to_owned()).collect()
            };
            Subtopology {
                subtopology: one.subtopology_id.as_str().to_owned(),
                source_topics: texts(&one.source_topics),
                repartition_source_topics: names(&one.repartition_source_topics),
                repartition_sink_topics: texts(&one.repartition_sink_topics),
                changelog_topics: names(&one.state_changelog_topics),
            }
        };
        let subtopologies = topology.subtopologies.as_ref();
        Self {
            epoch: topology.epoch,
            subtopologies: subtopologies.map(|all| all.iter().map(subtopology).collect()),
        }
    }

    /// Each topic that tasks read, with the subtopology.
    fn read(&self) -> impl Iterator<Item = (&str, &str)> {
        self.subtopologies.iter().flatten().flat_map(|one| {
            let topics = one.source_topics.iter().chain(&one.repartition_source_topics);
            topics.map(|topic| (one.subtopology.as_str(), topic.as_str()))
        })
    }

    /// The partitions that tasks read, sorted.
    fn partitions(&self, tasks: &[Tasks], topics: &BTreeMap<String, Topic>) -> BTreeSet<Partition> {
        let mut found = BTreeSet::new();
        for (subtopology, topic) in self.read() {
            let Some(known) = topics.get(topic) else { continue };
            let tasks = tasks.iter().filter(|one| one.subtopology == subtopology);
            // Topics of one subtopology may have different numbers of partitions.
            let read = tasks.flat_map(|one| &one.partitions).filter(|one| known.leaders.contains_key(one));
            found.extend(read.map(|partition| Partition { topic: topic.to_owned(), partition: *partition }));
        }
        found
    }
}

impl StreamsMember {
    fn of(member: &streams_group_describe_response::Member) -> Self {
        let endpoint = member.user_endpoint.as_ref();
        let tags = member.client_tags.iter();
        Self {
            process_id: member.process_id.as_str().to_owned(),
            rack: member.rack_id.as_deref().map(str::to_owned),
            endpoint: endpoint.map(|one| format!("{}:{}", one.host.as_str(), one.port)),
            topology_epoch: member.topology_epoch,
            tags: tags.map(|tag| (tag.key.as_str().to_owned(), tag.value.as_str().to_owned())).collect(),
            active: tasks(&member.assignment.active_tasks),
            standby: tasks(&member.assignment.standby_tasks),
        }
    }

    /// The columns of a member in a table, after its id.
    pub(super) fn columns(&self) -> [String; 3] {
        [self.process_id.clone(), shown(&self.active), shown(&self.standby)]
    }
}

/// Tasks by subtopology, sorted.
fn tasks(tasks: &[TaskIds]) -> Vec<Tasks> {
    let mut found: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
    for one in tasks {
        found.entry(one.subtopology_id.as_str()).or_default().extend(&one.partitions);
    }
    let each = |(id, partitions): (&str, BTreeSet<i32>)| Tasks {
        subtopology: id.to_owned(),
        partitions: partitions.into_iter().collect(),
    };
    found.into_iter().map(each).collect()
}

/// Tasks in a table: `0_0-2 1_1,3`.
fn shown(tasks: &[Tasks]) -> String {
    let each = tasks.iter().map(|one| {
        let runs = one.partitions.chunk_by(|one, next| *next == one + 1).map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(ToString::to_string).collect(),
        });
        format!("{}_{}", one.subtopology, runs.collect::<Vec<_>>().join(","))
    });
    output::or_nothing(&each.collect::<Vec<_>>().join(" "))
}

impl Description {
    /// The tasks of a described group. `lags` is the known lag of each partition.
    pub(super) fn of(group: &mut Group, lags: &BTreeMap<TopicPartition, i64>) -> Self {
        let topology = group.topology.take();
        let tasks = all_tasks(topology.as_ref(), &group.members, lags);
        Self { topology, tasks }
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if !self.tasks.is_empty() {
            writeln!(out)?;
            let row = |task: &Task| {
                let name = format!("{}_{}", task.subtopology, task.partition);
                let member = output::or_nothing(task.member.as_deref().unwrap_or_default());
                vec![name, output::number(task.lag), member, output::or_nothing(&task.standby.join(" "))]
            };
            let header = ["TASK", "LAG", "MEMBER", "STANDBY"];
            output::table(out, &header, self.tasks.iter().map(row).collect())?;
        }
        let Some(subtopologies) = self.topology.as_ref().and_then(|one| one.subtopologies.as_ref()) else {
            return Ok(());
        };
        writeln!(out)?;
        let names = |topics: &[String]| output::or_nothing(&topics.join(" "));
        let row = |one: &Subtopology| {
            let read = [one.source_topics.as_slice(), one.repartition_source_topics.as_slice()].concat();
            let id = output::or_nothing(&one.subtopology);
            vec![id, names(&read), names(&one.repartition_sink_topics), names(&one.changelog_topics)]
        };
        let header = ["SUBTOPOLOGY", "READS", "REPARTITIONS", "CHANGELOGS"];
        output::table(out, &header, subtopologies.iter().map(row).collect())
    }
}

/// Each task that a member has or whose partitions have a lag.
fn all_tasks(
    topology: Option<&Topology>,
    members: &[Member],
    lags: &BTreeMap<TopicPartition, i64>,
) -> Vec<Task> {
    let mut found: BTreeMap<(&str, i32), Task> = BTreeMap::new();
    fn task<'a, 'b>(
        found: &'b mut BTreeMap<(&'a str, i32), Task>,
        subtopology: &'a str,
        partition: i32,
    ) -> &'b mut Task {
        found.entry((subtopology, partition)).or_insert_with(|| Task {
            subtopology: subtopology.to_owned(),
            partition,
            lag: None,
            member: None,
            standby: Vec::new(),
        })
    }
    for member in members {
        let Some(streams) = &member.streams else { continue };
        for one in &streams.active {
            for partition in &one.partitions {
                task(&mut found, &one.subtopology, *partition).member = Some(member.id.clone());
            }
        }
        for one in &streams.standby {
            for partition in &one.partitions {
                task(&mut found, &one.subtopology, *partition).standby.push(member.id.clone());
            }
        }
    }
    for (subtopology, topic) in topology.iter().flat_map(|one| one.read()) {
        let first = (topic.to_owned(), 0);
        for ((_, partition), lag) in lags.range(first..).take_while(|((name, _), _)| name == topic) {
            let lag_of_task = &mut task(&mut found, subtopology, *partition).lag;
            *lag_of_task = Some(lag_of_task.unwrap_or_default() + lag);
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests;
