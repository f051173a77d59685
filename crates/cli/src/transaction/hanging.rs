//! `levada transaction hanging`: transactions that are open in partitions and that no coordinator
//! will end.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::Cluster;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ListTransactionsRequest;
use serde::Serialize;

use super::describe::{self, Description};
use super::list;
use super::producers::{self, Open};
use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Find transactions that no coordinator will end
///
/// Such a transaction stops read_committed consumers and compaction at its first offset. A
/// transaction hangs if it has been open in a partition for long, and no coordinator has it with
/// that producer epoch and partition.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada transaction hanging
  levada transaction hanging --topic clicks --older-than 5m
  levada transaction abort --topic clicks -p 0 --start-offset 42     ends one of them")]
pub(crate) struct Hanging {
    /// Check only this topic; repeatable [default: all]
    #[arg(short, long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// Only transactions whose producer has written nothing for longer; use the maximum timeout of
    /// producers
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = time::duration)]
    older_than: i64,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
    start_offset: i64,
    /// Time of the producer's last write there.
    last_ms: i64,
}

impl Hanging {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let names: Vec<&str> = self.topic.iter().map(String::as_str).collect();
        let topics = cluster.topics(Some(names.as_slice()).filter(|names| !names.is_empty()))?;
        if let Some(missing) = names.iter().find(|name| !topics.contains_key(**name)) {
            kafka_error::check(ErrorCode::UnknownTopicOrPartition.code(), &format!("topic {missing}"), None)?;
        }
        let mut open = producers::open(cluster, topics.values())?;
        let latest = time::now_ms() - self.older_than;
        open.retain(|one| one.last_ms <= latest);
        let known = transactions(cluster, &open)?;
        open.retain(|one| !known.get(&one.producer_id).is_some_and(|known| is_known(one, known)));
        let rows: Vec<Row> = open.into_iter().map(Row::from).collect();
        if self.format.format == Format::Json {
            return output::json(out, &rows);
        }
        let row = |row: &Row| {
            let numbers =
                [row.start_offset, row.producer_id, row.producer_epoch.into()].map(|one| one.to_string());
            let place = vec![row.topic.clone(), row.partition.to_string()];
            [place, numbers.to_vec(), vec![time::shown(row.last_ms)]].concat()
        };
        let header = ["TOPIC", "PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "LAST WRITE"];
        output::table(out, &header, rows.iter().map(row).collect())
    }
}

impl From<Open> for Row {
    fn from(open: Open) -> Self {
        Self {
            topic: open.topic,
            partition: open.partition,
            producer_id: open.producer_id,
            producer_epoch: open.producer_epoch,
            coordinator_epoch: open.coordinator_epoch,
            start_offset: open.start_offset,
            last_ms: open.last_ms,
        }
    }
}

/// State of these producers at coordinators.
fn transactions(cluster: &mut Cluster, open: &[Open]) -> Result<BTreeMap<i64, Description>, Failure> {
    if open.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut request = ListTransactionsRequest::default();
    request.producer_id_filters = open.iter().map(|one| one.producer_id).collect();
    request.duration_filter = -1;
    let listed = list::list(cluster, &request)?;
    listed.into_iter().map(|row| Ok((row.producer_id, describe::describe(cluster, &row.id)?))).collect()
}

/// True if the coordinator will end the partition's open transaction.
fn is_known(open: &Open, known: &Description) -> bool {
    known.producer_epoch == open.producer_epoch
        && known.partitions.iter().any(|one| (&one.topic, one.partition) == (&open.topic, open.partition))
}
