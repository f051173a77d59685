//! `levada transaction describe`: the state of a transactional id at its coordinator.

use std::io::Write;

use levada_client::{Cluster, Coordinated};
use levada_wire::StrBytes;
use levada_wire::messages::DescribeTransactionsRequest;
use serde::Serialize;

use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, FormatArgs};

/// Describe transactional ids: producer, state, start and partitions of the transaction
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada transaction describe payments-1
  levada transaction describe payments-1 --output json | jq '.[0].partitions'")]
pub(crate) struct Describe {
    /// Transactional ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// State of a transactional id.
#[derive(Debug, Serialize)]
pub(super) struct Description {
    id: String,
    coordinator: i32,
    producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) state: String,
    timeout_ms: i32,
    /// Start of the open transaction, ms since 1970; `None` without one.
    started_ms: Option<i64>,
    duration_ms: Option<i64>,
    pub(super) partitions: Vec<Partition>,
}

/// A partition that the transaction has written to.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Partition {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl Describe {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let asked = self.ids.iter().map(|id| describe(cluster, id));
        let as_json = |out: &mut dyn Write, all: &[Description]| output::json(out, &all);
        output::descriptions(out, self.format.format, asked, as_json, Description::print)
    }
}

/// Sends the request to the coordinator of the id.
pub(super) fn describe(cluster: &mut Cluster, id: &str) -> Result<Description, Failure> {
    let mut request = DescribeTransactionsRequest::default();
    request.transactional_ids = vec![StrBytes::from(id)];
    let response =
        cluster.ask_coordinator(Coordinated::Transaction, id, (&request, i16::MAX), |response| {
            response.transaction_states.first().map_or(0, |one| one.error_code)
        })?;
    let missing = || Failure::new(format!("the coordinator's response does not contain {id}"));
    let found = response.transaction_states.into_iter().next().ok_or_else(missing)?;
    let checked = kafka_error::check(found.error_code, &format!("transactional id {id}"), None);
    kafka_error::needing(checked, "describe", &format!("--transactional-id {id}"))?;
    let started_ms = Some(found.transaction_start_time_ms).filter(|started| *started >= 0);
    let partitions = found.topics.iter().flat_map(|topic| {
        let name = topic.topic.as_str();
        topic.partitions.iter().map(|index| Partition { topic: name.to_owned(), partition: *index })
    });
    let mut partitions: Vec<Partition> = partitions.collect();
    partitions.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
    Ok(Description {
        id: id.to_owned(),
        coordinator: cluster.coordinator(Coordinated::Transaction, id)?,
        producer_id: found.producer_id,
        producer_epoch: found.producer_epoch,
        state: found.transaction_state.as_str().to_owned(),
        timeout_ms: found.transaction_timeout_ms,
        started_ms,
        duration_ms: started_ms.map(|started| (time::now_ms() - started).max(0)),
        partitions,
    })
}

impl Description {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "Id           {}", output::or_nothing(&self.id))?;
        writeln!(out, "State        {}", self.state)?;
        writeln!(out, "Producer     {}, epoch {}", self.producer_id, self.producer_epoch)?;
        writeln!(out, "Timeout      {}", time::shown_duration(self.timeout_ms.into()))?;
        if let (Some(started), Some(duration)) = (self.started_ms, self.duration_ms) {
            writeln!(out, "Started      {}, {} ago", time::shown(started), time::shown_duration(duration))?;
        }
        writeln!(out, "Coordinator  {}", self.coordinator)?;
        if self.partitions.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row = |one: &Partition| vec![one.topic.clone(), one.partition.to_string()];
        output::table(out, &["TOPIC", "PARTITION"], self.partitions.iter().map(row).collect())
    }
}
