//! `levada transaction list`: the transactional ids of all coordinators.

use std::io::Write;

use levada_client::Cluster;
use levada_wire::StrBytes;
use levada_wire::messages::ListTransactionsRequest;
use serde::Serialize;

use crate::{kafka_error, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// List transactional ids and the states of their transactions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada transaction list
  levada transaction list --state ongoing --older-than 1m
  levada transaction list --output json | jq -r '.[].id'")]
pub(crate) struct List {
    /// Only ids in this state, such as ongoing or completecommit; repeatable
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only ids of this producer; repeatable
    #[arg(long, value_name = "ID")]
    producer_id: Vec<i64>,
    /// Only transactions that have been open for longer than this
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    older_than: Option<i64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Row of a transactional id.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) producer_id: i64,
    pub(super) state: String,
    pub(super) coordinator: i32,
}

/// States as Kafka names them; case does not matter on the command line.
const STATES: [&str; 7] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
];
/// The first version of ListTransactions with a filter for durations.
const DURATION_VERSION: i16 = 1;

impl List {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut request = ListTransactionsRequest::default();
        request.state_filters = self.states()?.into_iter().map(StrBytes::from).collect();
        request.producer_id_filters = self.producer_id.clone();
        request.duration_filter = self.older_than.unwrap_or(-1);
        let mut rows = list(cluster, &request)?;
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        if self.format.format == Format::Json {
            return output::json(out, &rows);
        }
        let row =
            |row: Row| vec![row.id, row.producer_id.to_string(), row.state, row.coordinator.to_string()];
        output::table(out, &["ID", "PRODUCER", "STATE", "COORDINATOR"], rows.into_iter().map(row).collect())
    }

    fn states(&self) -> Result<Vec<&'static str>, Failure> {
        let known = |text: &String| {
            let found = STATES.into_iter().find(|state| state.eq_ignore_ascii_case(text));
            found.ok_or_else(|| {
                let states = STATES.join(", ");
                Failure::Usage(format!("{text:?} is not a state of a transaction: expected {states}"))
            })
        };
        self.state.iter().map(known).collect()
    }
}

/// Requests from every broker the ids that it coordinates.
pub(super) fn list(cluster: &mut Cluster, request: &ListTransactionsRequest) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for node in cluster.brokers()? {
        let client = cluster.broker(node)?;
        let version = client.best_version::<ListTransactionsRequest>()?;
        if request.duration_filter >= 0 && version < DURATION_VERSION {
            return Err(Failure::new(format!("broker {node} does not report the age of transactions")));
        }
        let response = client.request_at(version, request)?;
        let doing = format!("list transactions of broker {node}");
        kafka_error::check(response.error_code, &doing, None)?;
        rows.extend(response.transaction_states.iter().map(|one| Row {
            id: one.transactional_id.as_str().to_owned(),
            producer_id: one.producer_id,
            state: one.transaction_state.as_str().to_owned(),
            coordinator: node,
        }));
    }
    Ok(rows)
}
