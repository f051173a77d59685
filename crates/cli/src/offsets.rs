//! `levada offsets`: first and last offsets of partitions, and offsets at a point in time.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{
    Cluster, EARLIEST, FoundOffset, Isolation, LATEST, MAX_TIMESTAMP, Topic, TopicPartition,
};
use levada_wire::error_code::ErrorCode;
use serde::Serialize;

use crate::cluster::BrokerArgs;
use crate::ends::Ends;
use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Print offsets of partitions: the earliest, the latest, that of the largest timestamp, that of a
/// time
///
/// Offsets count up from 0, and compaction and transaction markers leave gaps. The difference of
/// two offsets is therefore not a number of records.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada offsets                                   every topic
  levada offsets clicks -p 0
  levada offsets clicks --at 2026-11-21T06:30:00Z  and the first record from this time on
  levada offsets clicks --ago 90m                  and the first record of the last 90 minutes
  levada offsets clicks --committed                up to the first open transaction")]
pub(crate) struct Args {
    /// Names of the topics [default: all]
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Only these partitions; repeatable
    #[arg(short, long, value_name = "N")]
    partition: Vec<i32>,
    /// Also the offset of the first record at this time or after it
    #[arg(long, value_name = "TIME", value_parser = time::moment, conflicts_with = "ago")]
    at: Option<i64>,
    /// Also the offset of the first record that is not older than this duration
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    ago: Option<i64>,
    /// Show the last stable offset as the latest, as consumers with read_committed see it
    #[arg(long)]
    committed: bool,
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// State of a partition.
#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    earliest: Option<i64>,
    latest: Option<i64>,
    /// The record with the greatest timestamp.
    max_timestamp: Option<Record>,
    /// The first record at or after the requested time.
    at: Option<Record>,
}

/// Position of a record in its partition.
#[derive(Clone, Copy, Debug, Serialize)]
struct Record {
    offset: i64,
    timestamp_ms: i64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    let topics = args.chosen(&mut cluster)?;
    let isolation = if args.committed { Isolation::Committed } else { Isolation::Uncommitted };
    let mut ends = Ends::default();
    let mut at = |timestamp| ends.ask(&mut cluster, &topics, timestamp, isolation);
    let (earliest, latest, newest) = (at(EARLIEST)?, at(LATEST)?, at(MAX_TIMESTAMP)?);
    let asked = args.at.or_else(|| args.ago.map(time::before_now));
    let then = asked.map(at).transpose()?;
    ends.note();
    let offset =
        |found: &BTreeMap<TopicPartition, FoundOffset>, place: &TopicPartition| found.get(place)?.offset();
    let rows = topics.iter().flat_map(|topic| topic.leaders.keys().map(|one| (topic.name.clone(), *one)));
    let rows: Vec<Row> = rows
        .map(|place| Row {
            earliest: offset(&earliest, &place),
            latest: offset(&latest, &place),
            max_timestamp: newest.get(&place).and_then(Record::of),
            at: then.as_ref().and_then(|then| Record::of(then.get(&place)?)),
            topic: place.0,
            partition: place.1,
        })
        .collect();
    match args.format.format {
        Format::Json => output::json(out, &rows),
        Format::Table => print(out, &rows, asked),
    }
}

impl Args {
    /// The requested topics, with only the requested partitions.
    fn chosen(&self, cluster: &mut Cluster) -> Result<Vec<Topic>, Failure> {
        let names: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let mut topics = cluster.topics(Some(names.as_slice()).filter(|names| !names.is_empty()))?;
        if let Some(missing) = names.iter().find(|name| !topics.contains_key(**name)) {
            kafka_error::check(ErrorCode::UnknownTopicOrPartition.code(), &format!("topic {missing}"), None)?;
        }
        if !self.partition.is_empty() {
            for topic in topics.values_mut() {
                let leaders =
                    self.partition.iter().map(|partition| Ok((*partition, topic.leader(*partition)?)));
                topic.leaders = leaders.collect::<Result<_, Failure>>()?;
            }
        }
        Ok(topics.into_values().collect())
    }
}

impl Record {
    fn of(found: &FoundOffset) -> Option<Self> {
        Some(Self { offset: found.offset()?, timestamp_ms: found.timestamp_ms })
    }
}

fn print(out: &mut dyn Write, rows: &[Row], asked: Option<i64>) -> Result<(), Failure> {
    let in_form = |shown: &dyn Fn(i64) -> String| -> Vec<Vec<String>> {
        rows.iter().map(|row| row.cells(shown, asked.is_some())).collect()
    };
    let columns = ["TOPIC", "PARTITION", "EARLIEST", "LATEST", "NEWEST"];
    let (mut whole, mut brief) = (columns.to_vec(), columns.to_vec());
    whole.push("NEWEST TIME");
    brief.push("TIME (UTC)");
    let from = asked.map(|time| format!("FROM {}", time::shown(time)));
    if let Some(from) = &from {
        whole.extend([from.as_str(), "ITS TIME"]);
        brief.extend(["FROM", "TIME (UTC)"]);
    }
    let now_ms = time::now_ms();
    let briefly = in_form(&|moment| time::shown_briefly(moment, now_ms));
    output::table_in_forms(out, vec![(whole, in_form(&time::shown)), (brief, briefly)])
}

impl Row {
    /// The cells of the table, with the times in a form.
    fn cells(&self, shown: &dyn Fn(i64) -> String, has_time: bool) -> Vec<String> {
        let time = |record: Option<Record>| {
            record.map_or_else(|| output::NOTHING.to_owned(), |one| shown(one.timestamp_ms))
        };
        let mut cells = vec![self.topic.clone(), self.partition.to_string()];
        cells.extend([output::number(self.earliest), output::number(self.latest)]);
        cells.extend([output::number(self.max_timestamp.map(|one| one.offset)), time(self.max_timestamp)]);
        if has_time {
            cells.extend([output::number(self.at.map(|one| one.offset)), time(self.at)]);
        }
        cells
    }
}
