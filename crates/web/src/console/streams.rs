//! Parts of the page of a streams group that other groups do not have: its tasks with their lag,
//! the tasks of each member, and the topology.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use levada_wire::StrBytes;
use levada_wire::messages::StreamsGroupDescribeRequest;
use levada_wire::messages::streams_group_describe_response::{self, DescribedGroup, TaskIds, TopicInfo};
use maud::{Markup, html};

use super::failure::{Failed, Needing as _, check};
use super::group::{Described, GroupMember, MEMBERS_MAX, ROWS_MAX};
use super::layout::{table, table_of, topic_link};
use super::reset::Committed;
use super::visitor::Visitor;
use super::{Console, format};

/// Name of the kind, in lists of groups.
pub(super) const STREAMS: &str = "streams";

/// Partitions of each subtopology whose tasks a member has.
type Tasks = BTreeMap<String, BTreeSet<i32>>;

/// Topology of an application, and the tasks of its members.
pub(super) struct Streams {
    /// None before the first member has sent a topology.
    topology_epoch: Option<i32>,
    /// Empty while topics are missing or have wrong numbers of partitions.
    subtopologies: Vec<Subtopology>,
    /// Members with their tasks, in the order of the page.
    members: Vec<StreamsMember>,
}

/// The topics of the tasks of a subtopology.
struct Subtopology {
    id: String,
    read: Vec<String>,
    repartitions: Vec<String>,
    changelogs: Vec<String>,
}

struct StreamsMember {
    process: String,
    active: Tasks,
    standby: Tasks,
}

/// A task with its lag and its members.
#[derive(Default)]
struct Task<'a> {
    /// None if no partition that the task reads has a known lag.
    lag: Option<u64>,
    member: Option<&'a str>,
    standby: Vec<&'a str>,
}

impl From<DescribedGroup> for Described {
    fn from(group: DescribedGroup) -> Self {
        let topology = group.topology.as_ref();
        let subtopologies = topology.and_then(|one| one.subtopologies.as_ref()).into_iter().flatten();
        let streams = Streams {
            topology_epoch: topology.map(|one| one.epoch),
            subtopologies: subtopologies.map(Subtopology::of).collect(),
            members: group.members.iter().map(StreamsMember::of).collect(),
        };
        let members = group.members.iter().zip(&streams.members).map(|(member, one)| GroupMember {
            id: member.member_id.to_string(),
            instance: member.instance_id.as_ref().map(ToString::to_string),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: streams.read(&one.active),
        });
        Self {
            state: group.group_state.to_string(),
            protocol: STREAMS,
            assignor: "sticky".to_owned(),
            members: members.collect(),
            streams: Some(streams),
        }
    }
}

impl Subtopology {
    fn of(subtopology: &streams_group_describe_response::Subtopology) -> Self {
        let texts = |names: &[StrBytes]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let names = |topics: &[TopicInfo]| topics.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
        Self {
            id: subtopology.subtopology_id.to_string(),
            read: [texts(&subtopology.source_topics), names(&subtopology.repartition_source_topics)].concat(),
            repartitions: texts(&subtopology.repartition_sink_topics),
            changelogs: names(&subtopology.state_changelog_topics),
        }
    }
}

impl StreamsMember {
    fn of(member: &streams_group_describe_response::Member) -> Self {
        Self {
            process: member.process_id.to_string(),
            active: tasks(&member.assignment.active_tasks),
            standby: tasks(&member.assignment.standby_tasks),
        }
    }
}

fn tasks(tasks: &[TaskIds]) -> Tasks {
    let mut found = Tasks::new();
    for one in tasks {
        found.entry(one.subtopology_id.to_string()).or_default().extend(&one.partitions);
    }
    found
}

impl Console {
    /// A streams group.
    pub(super) async fn streams_group(
        &self,
        visitor: &Visitor,
        (node, id): (i32, &str),
    ) -> Result<Described, Failed> {
        let mut request = StreamsGroupDescribeRequest::default();
        request.group_ids = vec![StrBytes::from(id)];
        let answer = self.ask_broker(visitor, (node, i16::MAX), (request, Duration::ZERO)).await?;
        let group = answer.groups.into_iter().next();
        let group = group.ok_or_else(|| Failed::Missing(format!("There is no group {id}.")))?;
        check(group.error_code, group.error_message.as_deref(), || format!("describe group {id}"))
            .needing("describe", format!("--group {id}"))?;
        Ok(group.into())
    }
}

impl Streams {
    /// The partitions that tasks read. The smaller topics of a subtopology do not have all of them.
    fn read(&self, tasks: &Tasks) -> Vec<(String, i32)> {
        let mut found = Vec::new();
        for subtopology in &self.subtopologies {
            let partitions = tasks.get(&subtopology.id).into_iter().flatten();
            found.extend(
                partitions
                    .flat_map(|partition| subtopology.read.iter().map(|topic| (topic.clone(), *partition))),
            );
        }
        found
    }

    /// Each task that a member has or whose partitions have committed offsets.
    fn tasks<'a>(
        &'a self,
        members: &'a [GroupMember],
        committed: &[Committed],
    ) -> Vec<((&'a str, i32), Task<'a>)> {
        let mut found: BTreeMap<(&str, i32), Task<'_>> = BTreeMap::new();
        for (member, one) in members.iter().zip(&self.members) {
            for (subtopology, partitions) in &one.active {
                for partition in partitions {
                    found.entry((subtopology, *partition)).or_default().member = Some(&member.id);
                }
            }
            for (subtopology, partitions) in &one.standby {
                for partition in partitions {
                    found.entry((subtopology, *partition)).or_default().standby.push(&member.id);
                }
            }
        }
        for subtopology in &self.subtopologies {
            for one in committed.iter().filter(|one| subtopology.read.contains(&one.place.0)) {
                let task = found.entry((&subtopology.id, one.place.1)).or_default();
                task.lag = one.lag().map_or(task.lag, |lag| Some(task.lag.unwrap_or_default() + lag));
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, task)| std::cmp::Reverse(task.lag));
        found
    }

    /// The tasks, those with the largest lag first, and the topology.
    pub(super) fn page(&self, members: &[GroupMember], committed: &[Committed]) -> Markup {
        let tasks = self.tasks(members, committed);
        html! {
            h2 { "Tasks" }
            (table_of(&["Task", "#Lag in records", "Member", "Standby"], &[4], html! {
                @for ((subtopology, partition), task) in tasks.iter().take(ROWS_MAX) {
                    tr {
                        th scope="row" { (subtopology) "_" (partition) }
                        td.n { (task.lag.map_or("—".to_owned(), |lag| format::count(i128::from(lag)))) }
                        td.wide { (task.member.unwrap_or("none")) }
                        td.wide { @for id in &task.standby { div { (id) } } }
                    }
                }
                @if tasks.is_empty() { tr { td colspan="4" { "No member has a task." } } }
            }))
            @if tasks.len() > ROWS_MAX { p.soft { (tasks.len() - ROWS_MAX) " further tasks have less lag." } }
            h2 { "Topology" }
            @if let Some(epoch) = self.topology_epoch { p.soft { "Epoch " (epoch) } }
            (self.topology())
        }
    }

    fn topology(&self) -> Markup {
        let links = |topics: &[String]| html! { @for topic in topics { div { (topic_link(topic)) } } };
        html! {
            (table(&["Subtopology", "Reads", "Writes to repartition topics", "Changelogs of its state"], html! {
                @for one in self.subtopologies.iter().take(ROWS_MAX) {
                    tr {
                        th scope="row" { (one.id) }
                        td.wide { (links(&one.read)) }
                        td.wide { (links(&one.repartitions)) }
                        td.wide { (links(&one.changelogs)) }
                    }
                }
                @if self.subtopologies.is_empty() {
                    tr { td colspan="4" {
                        "The topology has no tasks: topics are missing or have other numbers of partitions. \
                        The log of the application names them."
                    } }
                }
            }))
        }
    }

    /// The members with their tasks.
    pub(super) fn members(&self, members: &[GroupMember]) -> Markup {
        html! {
            (table_of(&["Member", "Client", "Host", "Process", "Active tasks", "Standby tasks"], &[2, 3, 4], html! {
                @for (member, one) in members.iter().zip(&self.members).take(MEMBERS_MAX) {
                    tr {
                        th.wide scope="row" { (member.id) }
                        td { (member.client) }
                        td { (member.host) }
                        td.wide { (one.process) }
                        td.wide { (shown(&one.active)) }
                        td.wide { (shown(&one.standby)) }
                    }
                }
                @if members.is_empty() { tr { td colspan="6" { "This group has no members." } } }
            }))
            @if members.len() > MEMBERS_MAX { p.soft { (members.len() - MEMBERS_MAX) " further members are not shown." } }
        }
    }
}

/// Tasks, at most 100 of a subtopology.
fn shown(tasks: &Tasks) -> Markup {
    html! {
        @for (subtopology, partitions) in tasks {
            div {
                @for partition in partitions.iter().take(100) { (subtopology) "_" (partition) " " }
                @if partitions.len() > 100 { "…" }
            }
        }
    }
}

#[cfg(test)]
mod tests;
