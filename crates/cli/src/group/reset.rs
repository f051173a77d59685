//! `levada group reset`: changes committed offsets while no member consumes. Shows the plan, and
//! carries it out with `--execute`.

use std::collections::BTreeMap;
use std::io::Write;
use std::str::FromStr;

use levada_client::committed::{self, Committed, Seat};
use levada_client::{Cluster, EARLIEST, Isolation, LATEST, Topic, TopicPartition};
use levada_wire::error_code::ErrorCode;
use serde::Serialize;

use super::state;
use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Move the committed offsets of a group without members
///
/// Prints the plan; --execute carries it out. A group that does not exist yet is created.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group reset readers --topic clicks --to-earliest               shows the plan
  levada group reset readers --topic clicks --to-earliest --execute     carries it out
  levada group reset readers --topic clicks:0,2 --to-offset 1000 --execute
  levada group reset readers --all-topics --by-duration 2h
  levada group reset readers --all-topics --to-datetime 2026-11-21T06:00:00Z
  levada group reset readers --topic clicks --shift-by -10")]
pub(crate) struct Reset {
    /// Name of the group
    group: String,
    /// A topic, or some of its partitions; repeatable
    #[arg(short, long, value_name = "TOPIC[:N,N…]", required_unless_present = "all_topics")]
    topic: Vec<Chosen>,
    /// All topics with committed offsets of the group
    #[arg(long, conflicts_with = "topic")]
    all_topics: bool,
    #[command(flatten)]
    goal: GoalArgs,
    /// Carry out the plan
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct GoalArgs {
    /// To the start of the log
    #[arg(long)]
    to_earliest: bool,
    /// To the end of the log
    #[arg(long)]
    to_latest: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// To the first record at this time or after it
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    to_datetime: Option<i64>,
    /// To the first record that is not older than this duration
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    by_duration: Option<i64>,
    /// Forward by this many offsets, or back if negative
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    shift_by: Option<i64>,
}

/// A topic with the partitions that are meant; none means all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen {
    topic: String,
    partitions: Vec<i32>,
}

/// The target of the reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Earliest,
    Latest,
    Offset(i64),
    Time(i64),
    Shift(i64),
}

/// Change of one partition.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Move {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) committed: Option<i64>,
    pub(super) new: i64,
}

/// The plan as programs read it.
#[derive(Debug, Serialize)]
pub(super) struct Plan<'a> {
    pub(super) group: &'a str,
    pub(super) executed: bool,
    pub(super) partitions: &'a [Move],
}

impl Plan<'_> {
    /// Prints the plan, and commits its offsets if it is to be executed.
    pub(super) fn carry_out(
        &self,
        cluster: &mut Cluster,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.executed {
            let moves = self.partitions.iter();
            let new = moves.map(|one| ((one.topic.clone(), one.partition), one.new)).collect();
            committed::commit(cluster, Seat::outside(self.group), &new)?;
        }
        match format {
            Format::Json => output::json(out, self)?,
            Format::Table => print(out, self.partitions)?,
        }
        out.flush()?;
        if !self.executed {
            tell!("nothing has changed; repeat with --execute to apply");
        }
        Ok(())
    }
}

/// Fails if the group has members.
pub(super) fn check_idle(cluster: &mut Cluster, id: &str) -> Result<(), Failure> {
    match state::describe(cluster, id)? {
        Some(group) if !group.is_idle() => Err(Failure::with_next(
            format!(
                "group {id} is {} with {}; offsets can be reset only while the group has no members",
                group.state,
                output::counted(group.members.len() as u64, "member", "members"),
            ),
            format!("stop its consumers; levada group describe {id} shows them"),
        )),
        _ => Ok(()),
    }
}

/// Start and end of a partition's log, and the offset at the requested time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    start: i64,
    end: i64,
    at_time: Option<i64>,
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, partitions) = text.split_once(':').unwrap_or((text, ""));
        let numbers = partitions.split(',').filter(|_| text.contains(':'));
        let numbers: Result<Vec<i32>, _> = numbers.map(str::parse).collect();
        match numbers {
            Ok(partitions) if !topic.is_empty() && partitions.iter().all(|one| *one >= 0) => {
                Ok(Self { topic: topic.to_owned(), partitions })
            }
            _ => Err("expected TOPIC, or TOPIC:0,2 for some of its partitions".to_owned()),
        }
    }
}

impl GoalArgs {
    fn goal(&self) -> Goal {
        let time = self.to_datetime.or_else(|| self.by_duration.map(time::before_now));
        match (self.to_offset, time, self.shift_by) {
            (Some(offset), ..) => Goal::Offset(offset),
            (_, Some(time), _) => Goal::Time(time),
            (_, _, Some(shift)) => Goal::Shift(shift),
            _ if self.to_latest => Goal::Latest,
            _ => Goal::Earliest,
        }
    }
}

impl Reset {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        check_idle(cluster, &self.group)?;
        let committed = committed::fetch(cluster, &self.group)?;
        let topics = self.topics(cluster, &committed)?;
        let moves = moves(self.goal.goal(), &committed, &ranges(cluster, &topics, self.goal.goal())?)?;
        let plan = Plan { group: &self.group, executed: self.execute, partitions: &moves };
        plan.carry_out(cluster, self.format.format, out)
    }

    /// The topics meant, each with the partitions meant alone.
    fn topics(
        &self,
        cluster: &mut Cluster,
        committed: &BTreeMap<TopicPartition, Committed>,
    ) -> Result<Vec<Topic>, Failure> {
        let named: Vec<Chosen> = if self.all_topics {
            let mut named: Vec<Chosen> = Vec::new();
            for (topic, partition) in committed.keys() {
                match named.last_mut() {
                    Some(last) if last.topic == *topic => last.partitions.push(*partition),
                    _ => named.push(Chosen { topic: topic.clone(), partitions: vec![*partition] }),
                }
            }
            named
        } else {
            self.topic.clone()
        };
        if named.is_empty() {
            let what = format!("group {} has no committed offsets", self.group);
            return Err(Failure::with_next(what, "--topic instead of --all-topics"));
        }
        let names: Vec<&str> = named.iter().map(|one| one.topic.as_str()).collect();
        let known = cluster.topics(Some(&names))?;
        let mut topics = Vec::new();
        for chosen in &named {
            let Some(topic) = known.get(&chosen.topic) else {
                if self.all_topics {
                    tell!("note: topic {} does not exist any more; its offsets stay unchanged", chosen.topic);
                    continue;
                }
                kafka_error::check(
                    ErrorCode::UnknownTopicOrPartition.code(),
                    &format!("topic {}", chosen.topic),
                    None,
                )?;
                continue;
            };
            let mut topic = topic.clone();
            if !chosen.partitions.is_empty() {
                let leaders = chosen.partitions.iter().map(|one| Ok((*one, topic.leader(*one)?)));
                topic.leaders = leaders.collect::<Result<_, Failure>>()?;
            }
            topics.push(topic);
        }
        Ok(topics)
    }
}

/// The range of each partition of these topics.
pub(super) fn ranges(
    cluster: &mut Cluster,
    topics: &[Topic],
    goal: Goal,
) -> Result<BTreeMap<TopicPartition, Range>, Failure> {
    let mut at = |timestamp| cluster.offsets_at(topics, timestamp, Isolation::Uncommitted);
    let (starts, ends) = (at(EARLIEST)?, at(LATEST)?);
    let times = match goal {
        Goal::Time(time) => at(time)?,
        _ => BTreeMap::new(),
    };
    let places = topics.iter().flat_map(|topic| topic.leaders.keys().map(|one| (topic.name.clone(), *one)));
    let range = |place: TopicPartition| match (starts.get(&place), ends.get(&place)) {
        (Some(start), Some(end)) => {
            let at_time = times.get(&place).and_then(|found| found.offset());
            Ok((place, Range { start: start.offset, end: end.offset, at_time }))
        }
        _ => Err(Failure::with_next(
            format!("{}/{} has no leader, so its offsets are not known", place.0, place.1),
            "retry when the broker is back, or reset only the other partitions: --topic TOPIC:N,N",
        )),
    };
    places.map(range).collect()
}

/// The new offset of each partition; prints on stderr if the log does not contain the requested
/// offset.
pub(super) fn moves(
    goal: Goal,
    committed: &BTreeMap<TopicPartition, Committed>,
    ranges: &BTreeMap<TopicPartition, Range>,
) -> Result<Vec<Move>, Failure> {
    let each = |(place, range): (&TopicPartition, &Range)| {
        let (topic, partition) = place.clone();
        let committed = committed.get(place).map(|committed| committed.offset);
        let asked = match goal {
            Goal::Earliest => range.start,
            Goal::Latest => range.end,
            Goal::Offset(offset) => offset,
            Goal::Time(_) => range.at_time.unwrap_or(range.end),
            Goal::Shift(shift) => match committed {
                Some(offset) => offset.saturating_add(shift),
                None => {
                    let what = format!("{topic}/{partition} cannot be shifted: it has no committed offset");
                    return Err(Failure::with_next(what, "--to-earliest, --to-latest or --to-offset"));
                }
            },
        };
        let new = asked.clamp(range.start, range.end.max(range.start));
        if new != asked {
            tell!("note: {topic}/{partition} holds {} to {}; {asked} becomes {new}", range.start, range.end);
        }
        Ok(Move { topic, partition, committed, new })
    };
    ranges.iter().map(each).collect()
}

fn print(out: &mut dyn Write, moves: &[Move]) -> Result<(), Failure> {
    let row = |one: &Move| {
        let committed = output::number(one.committed);
        vec![one.topic.clone(), one.partition.to_string(), committed, one.new.to_string()]
    };
    output::table(out, &["TOPIC", "PARTITION", "COMMITTED", "NEW"], moves.iter().map(row).collect())
}

#[cfg(test)]
mod tests;
