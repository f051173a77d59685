//! `levada topic trim`: deletes the oldest records of partitions.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, Isolation, Led, Topic, TopicPartition};
use levada_wire::StrBytes;
use levada_wire::messages::DeleteRecordsRequest;
use levada_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use serde::Serialize;

use super::TIMEOUT_MS;
use crate::consume::Start;
use crate::{kafka_error, question};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Delete the oldest records of a topic
///
/// Readers before the new start continue from it. The broker removes a segment file when all of its
/// records are deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic trim clicks --to @2026-11-21     records from before that time
  levada topic trim clicks --to -1000           all but the last 1000 of each partition
  levada topic trim clicks -p 0 --to 4711       records before this offset
  levada topic trim clicks --to latest          all records")]
pub(crate) struct Trim {
    /// Name of the topic
    topic: String,
    /// The first record that stays: an offset, -N (the last N of each partition), @TIME or latest
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    to: Start,
    /// Only these partitions; repeatable
    #[arg(short, long, value_name = "N")]
    partition: Vec<i32>,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

/// A partition with the first offset that is left.
#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    start_offset: i64,
}

impl Trim {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let option = format!("--topic {}", self.topic);
        let led = if self.partition.is_empty() { Led::Every } else { Led::These(&self.partition) };
        let mut topic = kafka_error::needing(cluster.topic(&self.topic, false, led), "delete", &option)?;
        if !self.partition.is_empty() {
            let leaders = self.partition.iter().map(|partition| Ok((*partition, topic.leader(*partition)?)));
            topic.leaders = leaders.collect::<Result<_, Failure>>()?;
        }
        let topics = BTreeMap::from([(self.topic.clone(), topic.clone())]);
        let goals = match self.to {
            Start::Offset(offset) => {
                let mut at = |start: Start| start.positions(cluster, &topics, Isolation::Uncommitted);
                starting_at(offset, &at(Start::Earliest)?, &at(Start::Latest)?)?
            }
            start => start.positions(cluster, &topics, Isolation::Uncommitted)?,
        };
        self.question.ask(&format!("delete records of {}", shown(&goals)), question::NOTHING_DELETED)?;
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        for (place, offset) in &goals {
            match delete(cluster, &topic, place, *offset) {
                Ok(row) => rows.push(row),
                Err(failure) => failures.push(failure),
            }
        }
        let printed = self.print(&rows, out).and_then(|()| Ok(out.flush()?));
        // A closed pipe does not hide a failure.
        Failure::all(failures).and(printed)
    }

    fn print(&self, rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table if rows.is_empty() => Ok(()),
            Format::Table => {
                let row = |row: &Row| {
                    vec![row.topic.clone(), row.partition.to_string(), row.start_offset.to_string()]
                };
                output::table(out, &["TOPIC", "PARTITION", "START"], rows.iter().map(row).collect())
            }
        }
    }
}

/// The new start of each partition: the offset, or the present start where that is later.
fn starting_at(
    offset: i64,
    starts: &BTreeMap<TopicPartition, i64>,
    ends: &BTreeMap<TopicPartition, i64>,
) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
    if let Some(((topic, partition), end)) = ends.iter().find(|(_, end)| **end < offset) {
        return Err(Failure::with_next(
            format!("{topic}/{partition} ends at offset {end}, before {offset}; nothing was deleted"),
            "-p for the partitions that reach it, or --to latest",
        ));
    }
    Ok(starts.iter().map(|(place, start)| (place.clone(), offset.max(*start))).collect())
}

fn shown(goals: &BTreeMap<TopicPartition, i64>) -> String {
    let goals =
        goals.iter().map(|((topic, partition), offset)| format!("{topic}/{partition} before {offset}"));
    goals.collect::<Vec<_>>().join(", ")
}

fn delete(cluster: &mut Cluster, topic: &Topic, place: &TopicPartition, offset: i64) -> Result<Row, Failure> {
    let mut partition = DeleteRecordsPartition::default();
    partition.partition_index = place.1;
    partition.offset = offset;
    let mut asked = DeleteRecordsTopic::default();
    asked.name = StrBytes::from(place.0.as_str());
    asked.partitions = vec![partition];
    let mut request = DeleteRecordsRequest::default();
    request.topics = vec![asked];
    request.timeout_ms = TIMEOUT_MS;
    let response = cluster.broker(topic.present_leader(place.1)?)?.request(&request)?;
    let doing = format!("trim {}/{}", place.0, place.1);
    let answer = response.topics.iter().flat_map(|topic| &topic.partitions).next();
    let answer = answer.ok_or_else(|| Failure::new(format!("{doing}: the broker did not respond")))?;
    let checked = kafka_error::check(answer.error_code, &doing, None);
    kafka_error::needing(checked, "delete", &format!("--topic {}", place.0))?;
    Ok(Row { topic: place.0.clone(), partition: place.1, start_offset: answer.low_watermark })
}

#[cfg(test)]
mod tests;
