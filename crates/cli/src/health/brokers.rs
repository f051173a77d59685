//! `levada cluster brokers`: the brokers of the cluster, with what each of them holds.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, cluster};
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterRequest, DescribeClusterResponse, MetadataResponse};
use serde::Serialize;

use crate::kafka_error;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// List the brokers: address, rack, state, and the partitions that each of them leads and holds
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster brokers
  levada cluster brokers --output json | jq '.[] | select(.fenced) | .id'")]
pub(crate) struct Brokers {
    #[command(flatten)]
    format: FormatArgs,
}

/// A broker as programs read it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    id: i32,
    host: String,
    port: i32,
    rack: Option<String>,
    /// `None` if the broker does not report it: DescribeCluster before version 2.
    fenced: Option<bool>,
    /// Partitions that it leads.
    leaders: usize,
    /// Partitions of which it holds a replica.
    replicas: usize,
}

impl Brokers {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let described = describe(cluster)?;
        let tells_fenced = tells_fenced(cluster)?;
        let rows = rows(&described.brokers, &cluster.metadata(None, false)?, tells_fenced);
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => {
                let header = ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS"];
                output::table(out, &header, rows.iter().map(Row::cells).collect())
            }
        }
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let state = match self.fenced {
            Some(true) => "fenced",
            Some(false) => "active",
            None => output::NOTHING,
        };
        vec![
            self.id.to_string(),
            cluster::address(&self.host, self.port),
            output::or_nothing(self.rack.as_deref().unwrap_or_default()),
            state.to_owned(),
            self.leaders.to_string(),
            self.replicas.to_string(),
        ]
    }
}

fn rows(brokers: &[DescribeClusterBroker], metadata: &MetadataResponse, tells_fenced: bool) -> Vec<Row> {
    let (mut leaders, mut replicas) = (BTreeMap::new(), BTreeMap::new());
    for partition in metadata.topics.iter().flat_map(|topic| &topic.partitions) {
        *leaders.entry(partition.leader_id).or_insert(0) += 1;
        for replica in &partition.replica_nodes {
            *replicas.entry(*replica).or_insert(0) += 1;
        }
    }
    let count = |counts: &BTreeMap<i32, usize>, id| counts.get(&id).copied().unwrap_or(0);
    let row = |broker: &DescribeClusterBroker| Row {
        id: broker.broker_id,
        host: broker.host.as_str().to_owned(),
        port: broker.port,
        rack: broker.rack.as_deref().map(str::to_owned),
        fenced: tells_fenced.then_some(broker.is_fenced),
        leaders: count(&leaders, broker.broker_id),
        replicas: count(&replicas, broker.broker_id),
    };
    let mut rows: Vec<Row> = brokers.iter().map(row).collect();
    rows.sort_by_key(|row| row.id);
    rows
}

/// True if the broker reports fenced brokers.
fn tells_fenced(cluster: &Cluster) -> Result<bool, Failure> {
    Ok(cluster.version::<DescribeClusterRequest>()? >= 2)
}

/// The cluster with all of its brokers, including fenced ones if the broker reports them.
pub(crate) fn describe(cluster: &mut Cluster) -> Result<DescribeClusterResponse, Failure> {
    let mut request = DescribeClusterRequest::default();
    request.endpoint_type = 1;
    request.include_fenced_brokers = tells_fenced(cluster)?;
    let response = cluster.ask(&request)?;
    kafka_error::check(response.error_code, "describe the cluster", response.error_message.as_deref())?;
    Ok(response)
}

#[cfg(test)]
mod tests;
