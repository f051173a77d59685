//! `levada doctor --cluster --watch`: replicas in sync of each broker, each second, until all
//! brokers serve and all replicas are in sync.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use indicatif::HumanBytes;
use levada_client::{Cluster, Outage};
use levada_wire::messages::DescribeLogDirsRequest;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use serde::Serialize;

use crate::cluster::BrokerArgs;
use crate::layout;
use crate::notices::Reporter;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};

/// Time between the two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Longest time without a response of any broker.
const OUTAGE_LIMIT: Duration = Duration::from_secs(60);

/// Clears a terminal from its upper left corner on.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Bytes of replicas, by broker and partition.
type Sizes = BTreeMap<(i32, String, i32), i64>;

/// State of all brokers at one time.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Sample {
    complete: bool,
    brokers: Vec<Row>,
}

/// Progress of one broker between the samples.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    id: i32,
    fenced: bool,
    leaders: usize,
    replicas: usize,
    in_sync: usize,
    /// Bytes that its replicas out of sync lack compared with their leaders' logs; `None` if a size
    /// is not known.
    behind_bytes: Option<u64>,
}

/// Prints samples until the cluster is complete.
pub(in crate::doctor) fn run(
    brokers: &BrokerArgs,
    format: Format,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut cluster = brokers.connect()?;
    let mut outage = Outage::none(Some(OUTAGE_LIMIT));
    loop {
        let sample = match Sample::take(&mut cluster) {
            Ok(sample) => sample,
            Err(failure) => {
                outage.bear(&mut cluster, failure, &Reporter)?;
                continue;
            }
        };
        outage.over::<Failure>(&Reporter);
        match format {
            Format::Json => output::json_line(out, &sample)?,
            Format::Table => sample.print(out)?,
        }
        out.flush()?;
        if sample.complete {
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
}

impl Sample {
    fn take(cluster: &mut Cluster) -> Result<Self, Failure> {
        let described = layout::describe(cluster)?;
        let topics = cluster.metadata(None, false)?.topics;
        let sizes = sizes(cluster, &described.brokers, &topics);
        Ok(Self::of(&described.brokers, &topics, &sizes))
    }

    pub(super) fn of(
        brokers: &[DescribeClusterBroker],
        topics: &[MetadataResponseTopic],
        sizes: &Sizes,
    ) -> Self {
        let row = |broker: &DescribeClusterBroker| Row {
            id: broker.broker_id,
            fenced: broker.is_fenced,
            leaders: 0,
            replicas: 0,
            in_sync: 0,
            behind_bytes: Some(0),
        };
        let mut rows: BTreeMap<i32, Row> = brokers.iter().map(|one| (one.broker_id, row(one))).collect();
        for (topic, partition) in of_all(topics) {
            if let Some(row) = rows.get_mut(&partition.leader_id) {
                row.leaders += 1;
            }
            for node in &partition.replica_nodes {
                let Some(row) = rows.get_mut(node) else { continue };
                row.replicas += 1;
                if partition.isr_nodes.contains(node) {
                    row.in_sync += 1;
                    continue;
                }
                let size = |node: i32| {
                    let name = topic.name.as_deref().unwrap_or_default().to_owned();
                    sizes.get(&(node, name, partition.partition_index)).copied()
                };
                let behind = size(partition.leader_id).zip(size(*node));
                let behind = behind.map(|(leader, own)| (leader - own).max(0).unsigned_abs());
                row.behind_bytes = row.behind_bytes.zip(behind).map(|(sum, more)| sum + more);
            }
        }
        let is_in_sync = |partition: &MetadataResponsePartition| {
            partition.leader_id >= 0 && partition.isr_nodes.len() >= partition.replica_nodes.len()
        };
        let complete = rows.values().all(|row| !row.fenced)
            && of_all(topics).all(|(_, partition)| is_in_sync(partition));
        Self { complete, brokers: rows.into_values().collect() }
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if stdout().is_terminal() {
            write!(out, "{CLEAR}")?;
        }
        let row = |row: &Row| {
            let behind = row.behind_bytes.map(|bytes| HumanBytes(bytes).to_string());
            vec![
                row.id.to_string(),
                if row.fenced { "fenced" } else { "active" }.to_owned(),
                row.leaders.to_string(),
                row.replicas.to_string(),
                row.in_sync.to_string(),
                behind.unwrap_or_else(|| output::NOTHING.to_owned()),
            ]
        };
        let header = ["BROKER", "STATE", "LEADERS", "REPLICAS", "IN SYNC", "BEHIND"];
        output::table(out, &header, self.brokers.iter().map(row).collect())?;
        if self.complete {
            writeln!(out, "\nAll brokers serve, and all replicas are in sync.")?;
        }
        Ok(())
    }
}

fn of_all(
    topics: &[MetadataResponseTopic],
) -> impl Iterator<Item = (&MetadataResponseTopic, &MetadataResponsePartition)> {
    topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
}

/// Sizes of the replicas of partitions that are not fully in sync. A broker that does not respond
/// has none.
fn sizes(
    cluster: &mut Cluster,
    brokers: &[DescribeClusterBroker],
    topics: &[MetadataResponseTopic],
) -> Sizes {
    let mut asked = Vec::new();
    for topic in topics {
        let behind = topic.partitions.iter().filter(|one| one.isr_nodes.len() < one.replica_nodes.len());
        let mut wanted = DescribableLogDirTopic::default();
        wanted.partitions = behind.map(|partition| partition.partition_index).collect();
        if let Some(name) = topic.name.as_ref().filter(|_| !wanted.partitions.is_empty()) {
            wanted.topic = name.clone();
            asked.push(wanted);
        }
    }
    let mut sizes = Sizes::new();
    let mut request = DescribeLogDirsRequest::default();
    request.topics = Some(asked);
    for broker in brokers.iter().filter(|broker| !broker.is_fenced) {
        let node = broker.broker_id;
        let Ok(answer) = cluster.broker(node).and_then(|client| Ok(client.request(&request)?)) else {
            continue;
        };
        for topic in answer.results.iter().flat_map(|directory| &directory.topics) {
            for partition in topic.partitions.iter().filter(|partition| !partition.is_future_key) {
                let name = topic.name.as_str().to_owned();
                sizes.insert((node, name, partition.partition_index), partition.partition_size);
            }
        }
    }
    sizes
}
