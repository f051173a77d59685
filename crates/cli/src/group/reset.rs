//! `levada group reset`: changes committed offsets, or start offsets of a share group, while no
//! member consumes. Shows the plan, and carries it out with `--execute`.

use std::collections::BTreeMap;
use std::io::Write;
use std::str::FromStr;

use levada_client::committed::{self, Seat};
use levada_client::{Cluster, EARLIEST, Isolation, LATEST, Offsets, Topic, TopicPartition, share_offsets};
use levada_wire::error_code::ErrorCode;
use serde::Serialize;

use super::share::{self, SHARE};
use super::state::{self, Group};
use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Move the committed offsets of a group without members, or the start offsets of a share group
///
/// Prints the plan; --execute carries it out. A group that does not exist yet is created.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group reset readers --topic clicks --to-earliest               shows the plan
  levada group reset readers --topic clicks --to-earliest --execute     carries it out
  levada group reset readers --topic clicks:0,2 --to-offset 1000 --execute
  levada group reset readers --all-topics --by-duration 2h
  levada group reset readers --all-topics --to-datetime 2026-11-21T06:00:00Z
  levada group reset readers --topic clicks --shift-by -10
  levada group reset jobs --share --topic tasks --to-earliest --execute     a new share group")]
pub(crate) struct Reset {
    /// Name of the group
    group: String,
    /// A topic, or some of its partitions; repeatable
    #[arg(short, long, value_name = "TOPIC[:N,N…]", required_unless_present = "all_topics")]
    topic: Vec<Chosen>,
    /// All topics with offsets of the group
    #[arg(long, conflicts_with = "topic")]
    all_topics: bool,
    /// Create a share group if there is no group of this name
    #[arg(long)]
    share: bool,
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

/// A topic with the chosen partitions; an empty list stands for all partitions.
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

/// Kind of the offsets that a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Committed offsets of a consumer group or a classic group.
    Committed,
    /// Start offsets of a share group.
    Start,
}

/// The present offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Present {
    Committed(Option<i64>),
    Start(Option<i64>),
}

/// Change of the offset of one partition.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Move {
    pub(super) topic: String,
    pub(super) partition: i32,
    #[serde(flatten)]
    pub(super) present: Present,
    pub(super) new: i64,
}

impl Kind {
    fn present(self, offset: Option<i64>) -> Present {
        match self {
            Self::Committed => Present::Committed(offset),
            Self::Start => Present::Start(offset),
        }
    }

    /// The word for messages such as `no committed offset`, and for the title of a column.
    fn word(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Start => "start",
        }
    }
}

impl Present {
    fn offset(self) -> Option<i64> {
        let (Self::Committed(offset) | Self::Start(offset)) = self;
        offset
    }
}

/// The plan in the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Plan<'a> {
    pub(super) group: &'a str,
    #[serde(skip)]
    pub(super) kind: Kind,
    pub(super) executed: bool,
    pub(super) partitions: &'a [Move],
}

impl Plan<'_> {
    /// Prints the plan, and sets its offsets if it is to be executed.
    pub(super) fn carry_out(
        &self,
        cluster: &mut Cluster,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.executed {
            let moves = self.partitions.iter();
            let new = moves.map(|one| ((one.topic.clone(), one.partition), one.new)).collect();
            match self.kind {
                Kind::Committed => committed::commit(cluster, Seat::outside(self.group), &new)?,
                Kind::Start => share_offsets::set(cluster, self.group, &new)?,
            }
        }
        match format {
            Format::Json => output::json(out, self)?,
            Format::Table => print(out, self.kind, self.partitions)?,
        }
        out.flush()?;
        if !self.executed {
            tell!("nothing has changed; repeat with --execute to apply");
        }
        Ok(())
    }
}

/// Fails if the group has members.
pub(super) fn check_idle(id: &str, group: &Group) -> Result<(), Failure> {
    if group.is_idle() {
        return Ok(());
    }
    Err(Failure::with_next(
        format!(
            "group {id} is {} with {}; offsets can be reset only while the group has no members",
            group.state,
            output::counted(group.members.len() as u64, "member", "members"),
        ),
        format!("stop its consumers; levada group describe {id} shows them"),
    ))
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
        let group = state::describe_any(cluster, &self.group)?;
        let kind = match &group {
            Some(group) if group.kind == SHARE => Kind::Start,
            None if self.share => Kind::Start,
            Some(group) if self.share => {
                let what = format!("group {} is a {} group", self.group, group.kind);
                return Err(Failure::with_next(what, "another name for the share group, or no --share"));
            }
            _ => Kind::Committed,
        };
        match &group {
            Some(group) => check_idle(&self.group, group)?,
            None => tell!("note: group {} does not exist yet; --execute creates it", self.group),
        }
        let present = match kind {
            Kind::Committed => committed_offsets(cluster, &self.group)?,
            Kind::Start => share::starts(cluster, &self.group)?,
        };
        let topics = self.topics(cluster, (kind, &present))?;
        let goal = self.goal.goal();
        let moves = moves(goal, (kind, &present), &ranges(cluster, &topics, goal)?)?;
        let plan = Plan { group: &self.group, kind, executed: self.execute, partitions: &moves };
        plan.carry_out(cluster, self.format.format, out)
    }

    /// The chosen topics, each with only the chosen partitions.
    fn topics(
        &self,
        cluster: &mut Cluster,
        (kind, present): (Kind, &Offsets),
    ) -> Result<Vec<Topic>, Failure> {
        let named: Vec<Chosen> = if self.all_topics {
            let mut named: Vec<Chosen> = Vec::new();
            for (topic, partition) in present.keys() {
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
            let what = format!("group {} has no {} offsets", self.group, kind.word());
            return Err(Failure::with_next(what, "--topic instead of --all-topics"));
        }
        let names: Vec<&str> = named.iter().map(|one| one.topic.as_str()).collect();
        let known = cluster.topics(Some(&names))?;
        let mut topics = Vec::new();
        for chosen in &named {
            let Some(topic) = known.get(&chosen.topic) else {
                if self.all_topics {
                    tell!("note: topic {} no longer exists; its offsets stay unchanged", chosen.topic);
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
    (kind, offsets): (Kind, &Offsets),
    ranges: &BTreeMap<TopicPartition, Range>,
) -> Result<Vec<Move>, Failure> {
    let each = |(place, range): (&TopicPartition, &Range)| {
        let (topic, partition) = place.clone();
        let present = offsets.get(place).copied();
        let asked = match goal {
            Goal::Earliest => range.start,
            Goal::Latest => range.end,
            Goal::Offset(offset) => offset,
            Goal::Time(_) => range.at_time.unwrap_or(range.end),
            Goal::Shift(shift) => match present {
                Some(offset) => offset.saturating_add(shift),
                None => {
                    let kind = kind.word();
                    let what = format!("{topic}/{partition} cannot be shifted: it has no {kind} offset");
                    return Err(Failure::with_next(what, "--to-earliest, --to-latest or --to-offset"));
                }
            },
        };
        let new = asked.clamp(range.start, range.end.max(range.start));
        if new != asked {
            tell!("note: {topic}/{partition} holds {} to {}; {asked} becomes {new}", range.start, range.end);
        }
        Ok(Move { topic, partition, present: kind.present(present), new })
    };
    ranges.iter().map(each).collect()
}

/// The committed offsets of a group.
pub(super) fn committed_offsets(cluster: &mut Cluster, group: &str) -> Result<Offsets, Failure> {
    let committed = committed::fetch(cluster, group)?;
    Ok(committed.into_iter().map(|(place, committed)| (place, committed.offset)).collect())
}

fn print(out: &mut dyn Write, kind: Kind, moves: &[Move]) -> Result<(), Failure> {
    let row = |one: &Move| {
        let present = output::number(one.present.offset());
        vec![one.topic.clone(), one.partition.to_string(), present, one.new.to_string()]
    };
    let present = kind.word().to_uppercase();
    output::table(out, &["TOPIC", "PARTITION", &present, "NEW"], moves.iter().map(row).collect())
}

#[cfg(test)]
mod tests;
