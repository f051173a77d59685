//! `levada group describe`: state, members, and the lag of each partition.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use levada_client::committed::{self, Committed};
use levada_client::{Cluster, FoundOffset, Isolation, LATEST, TopicPartition};
use levada_wire::error_code::ErrorCode;
use serde::Serialize;

use super::list;
use super::share::{self, SHARE};
use super::state::{self, Group, Member};
use super::streams::{self, STREAMS};
use crate::ends::Ends;
use crate::{kafka_error, selection};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, FormatArgs};

/// Describe groups: state, members, offsets and lag
///
/// Lag is the number of offsets from the committed offset to the end of the log; `-` without a
/// committed offset. The partitions of a share group have a start offset in place of the committed
/// one; lag leaves out the records after it whose delivery is complete (COMPLETE). A streams group
/// has tasks: ACTIVE 0_0-2 are those of partitions 0 to 2 in subtopology 0; the lag of a task is
/// that of the partitions that it reads.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group describe readers
  levada group describe --all
  levada group describe 'app-*'
  levada group describe readers --output json | jq '.[0].lag'")]
pub(crate) struct Describe {
    /// Names of the groups, or patterns
    #[arg(required_unless_present = "all", value_name = "GROUP")]
    groups: Vec<String>,
    /// Every group
    #[arg(long, conflicts_with = "groups")]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Described {
    Consumers(Description),
    Share(share::Description),
}

#[derive(Debug, Serialize)]
struct Description {
    #[serde(flatten)]
    group: Group,
    /// Sum of the known values, if there are any.
    lag: Option<i64>,
    partitions: Vec<Row>,
    /// Details of a streams group.
    #[serde(flatten)]
    streams: Option<streams::Description>,
}

/// A partition that is consumed or has been.
#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    committed: Option<i64>,
    committed_leader_epoch: Option<i32>,
    metadata: String,
    /// End of the log; none if there is no such partition, or its leader does not know the end or
    /// does not respond, or there is no leader.
    end: Option<i64>,
    lag: Option<i64>,
    /// Id of the member to which the partition is assigned.
    member: Option<String>,
    client_id: Option<String>,
}

impl Describe {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let groups = self.chosen(cluster)?;
        let asked = groups.iter().map(|id| ask(cluster, id));
        let as_json = |out: &mut dyn Write, all: &[Described]| output::json(out, &all);
        output::descriptions(out, self.format.format, asked, as_json, Described::print)
    }
}

impl Describe {
    /// Names of the groups; a pattern stands for the groups whose names match.
    fn chosen(&self, cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
        if !self.all && !self.groups.iter().any(|word| selection::is_pattern(word)) {
            return Ok(self.groups.clone());
        }
        let known = list::names(cluster)?;
        let mut chosen = BTreeSet::new();
        let everything = ["*".to_owned()];
        for word in if self.all { &everything[..] } else { &self.groups } {
            if !selection::is_pattern(word) {
                chosen.insert(word.clone());
                continue;
            }
            let mut matching = known.iter().filter(|name| selection::matches(word, name)).cloned().peekable();
            if matching.peek().is_none() && !self.all {
                let next = "levada group list shows all groups";
                return Err(Failure::with_next(format!("no group matches {word}"), next));
            }
            chosen.extend(matching);
        }
        Ok(chosen.into_iter().collect())
    }
}

fn ask(cluster: &mut Cluster, id: &str) -> Result<Described, Failure> {
    let Some(mut group) = state::describe_any(cluster, id)? else {
        kafka_error::check(ErrorCode::GroupIdNotFound.code(), &format!("group {id}"), None)?;
        return Err(Failure::new(format!("group {id} no longer exists")));
    };
    if group.kind == SHARE {
        return Ok(Described::Share(share::Description::of(cluster, group)?));
    }
    let committed = committed::fetch(cluster, id)?;
    let names: BTreeSet<&str> = committed.keys().map(|place| place.0.as_str()).collect();
    let assigned = group.members.iter().flat_map(|member| &member.partitions);
    let names: BTreeSet<&str> = names.into_iter().chain(assigned.map(|one| one.topic.as_str())).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let topics = cluster.topics(Some(&names))?;
    let mut asked = Ends::default();
    let ends = asked.ask(cluster, topics.values(), LATEST, Isolation::Uncommitted)?;
    asked.note();
    let partitions = rows(&committed, &group.owners(), &ends);
    let lags: Vec<i64> = partitions.iter().filter_map(|row| row.lag).collect();
    let lag = (!lags.is_empty()).then(|| lags.iter().sum());
    if group.kind != STREAMS {
        set_lags(&mut group.members, &partitions);
    }
    let streams = (group.kind == STREAMS).then(|| {
        let lags = partitions.iter().filter_map(|row| Some(((row.topic.clone(), row.partition), row.lag?)));
        streams::Description::of(&mut group, &lags.collect())
    });
    Ok(Described::Consumers(Description { group, lag, partitions, streams }))
}

/// Sets the lag of each member to that of its partitions.
fn set_lags(members: &mut [Member], partitions: &[Row]) {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for row in partitions {
        if let (Some(member), Some(lag)) = (&row.member, row.lag) {
            *sums.entry(member).or_default() += lag;
        }
    }
    for member in members {
        member.lag = sums.get(member.id.as_str()).copied();
    }
}

fn rows(
    committed: &BTreeMap<TopicPartition, Committed>,
    owners: &BTreeMap<TopicPartition, &Member>,
    ends: &BTreeMap<TopicPartition, FoundOffset>,
) -> Vec<Row> {
    let places: BTreeSet<&TopicPartition> = committed.keys().chain(owners.keys()).collect();
    let row = |place: &TopicPartition| {
        let (committed, owner) = (committed.get(place), owners.get(place));
        let offset = committed.map(|committed| committed.offset);
        let end = ends.get(place).and_then(|found| found.offset());
        Row {
            topic: place.0.clone(),
            partition: place.1,
            committed: offset,
            committed_leader_epoch: committed.and_then(|one| one.leader_epoch),
            metadata: committed.map(|one| one.metadata.clone()).unwrap_or_default(),
            end,
            // A log that was cut below the committed offset has nothing left to read.
            lag: offset.zip(end).map(|(offset, end)| (end - offset).max(0)),
            member: owner.map(|owner| owner.id.clone()),
            client_id: owner.map(|owner| owner.client_id.clone()),
        }
    };
    places.into_iter().map(row).collect()
}

impl Described {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Consumers(group) => group.print(out),
            Self::Share(group) => group.print(out),
        }
    }
}

impl Description {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.group.print_head(out, self.lag)?;
        if let Some(streams) = &self.streams {
            streams.print(out)?;
        }
        if self.partitions.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row = |row: &Row| {
            let member = output::or_nothing(row.member.as_deref().unwrap_or_default());
            let numbers = [row.committed, row.end, row.lag].map(output::number);
            [vec![row.topic.clone(), row.partition.to_string()], numbers.to_vec(), vec![member]].concat()
        };
        let header = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"];
        output::table(out, &header, self.partitions.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, partitions: &[i32]) -> Member {
        let of = |partition: &i32| state::Partition { topic: "t".to_owned(), partition: *partition };
        Member {
            id: id.to_owned(),
            instance_id: None,
            client_id: "c".to_owned(),
            host: String::new(),
            epoch: None,
            topics: Vec::new(),
            topic_regex: None,
            partitions: partitions.iter().map(of).collect(),
            lag: None,
            streams: None,
        }
    }

    #[test]
    fn member_lag_is_that_of_its_partitions() {
        let row = |partition: i32, member: Option<&str>, lag: Option<i64>| Row {
            topic: "t".to_owned(),
            partition,
            committed: None,
            committed_leader_epoch: None,
            metadata: String::new(),
            end: None,
            lag,
            member: member.map(str::to_owned),
            client_id: None,
        };
        let mut members = [member("a", &[0, 1]), member("b", &[2]), member("c", &[])];
        let partitions = [
            row(0, Some("a"), Some(7)),
            row(1, Some("a"), Some(3)),
            row(2, Some("b"), None),
            row(3, None, Some(9)),
        ];
        set_lags(&mut members, &partitions);
        assert_eq!(members.map(|one| one.lag), [Some(10), None, None]);
    }

    #[test]
    fn lag_is_log_end_minus_committed_offset() {
        let place = ("t".to_owned(), 0);
        let check = |committed: Option<i64>, end: Option<i64>, expected: Option<i64>| {
            let committed = committed.map(|offset| {
                (place.clone(), Committed { offset, leader_epoch: None, metadata: String::new() })
            });
            let end = end.map(|offset| (place.clone(), FoundOffset { offset, timestamp_ms: -1 }));
            let member = member("m", &[]);
            let owners = BTreeMap::from([(place.clone(), &member)]);
            let rows = rows(&committed.into_iter().collect(), &owners, &end.into_iter().collect());
            assert_eq!(rows.len(), 1);
            assert_eq!((rows[0].lag, rows[0].member.as_deref()), (expected, Some("m")));
        };
        check(Some(3), Some(10), Some(7));
        check(Some(12), Some(10), Some(0));
        check(None, Some(10), None);
        check(Some(3), None, None);
    }
}
