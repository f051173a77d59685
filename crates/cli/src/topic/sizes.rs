//! Sizes of topics on the disks of the brokers.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::Cluster;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use levada_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::kafka_error;
use levada_terminal::failure::Failure;

/// Bytes of topics, of all replicas together.
#[derive(Debug, Default)]
pub(crate) struct TopicSizes {
    bytes: BTreeMap<String, u64>,
    /// Brokers without a response, or with a failed directory: sizes of topics with a replica there
    /// are incomplete.
    incomplete: BTreeSet<i32>,
}

impl TopicSizes {
    /// Sends requests to the brokers of the cluster and the brokers with replicas of these topics,
    /// and prints a warning about each broker that does not respond or has a failed directory.
    /// Users without permission get no sizes, and no warning.
    pub(crate) fn ask(cluster: &mut Cluster, topics: &[MetadataResponseTopic]) -> Result<Self, Failure> {
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let holders = partitions.flat_map(|partition| partition.replica_nodes.iter().copied());
        let nodes: BTreeSet<i32> = cluster.brokers()?.into_iter().chain(holders).collect();
        let mut sizes = Self::default();
        for node in nodes {
            match ask(cluster, node) {
                Ok(Some(response)) => {
                    if let Some(failed) = sizes.add(node, &response) {
                        tell!("warning: sizes on broker {node} are not known: {failed}");
                    }
                }
                Ok(None) => {
                    sizes.incomplete.insert(node);
                }
                Err(failure) => {
                    tell!("warning: sizes on broker {node} are not known: {}", failure.line());
                    sizes.incomplete.insert(node);
                }
            }
        }
        Ok(sizes)
    }

    /// Bytes of a topic; `None` if they are not known of each replica.
    pub(crate) fn of(&self, topic: &MetadataResponseTopic) -> Option<u64> {
        let mut nodes = topic.partitions.iter().flat_map(|partition| &partition.replica_nodes);
        if nodes.any(|node| self.incomplete.contains(node)) {
            return None;
        }
        Some(self.bytes.get(topic.name.as_deref().unwrap_or_default()).copied().unwrap_or(0))
    }

    /// Bytes of all topics; `None` if they are not known of each broker.
    pub(crate) fn total(&self) -> Option<u64> {
        self.incomplete.is_empty().then(|| self.bytes.values().sum())
    }

    /// Adds the replicas of a broker; returns the first failed directory and its error. A replica
    /// that is moving to another directory counts only in its present directory.
    fn add(&mut self, node: i32, response: &DescribeLogDirsResponse) -> Option<String> {
        for topic in response.results.iter().flat_map(|directory| &directory.topics) {
            let present = topic.partitions.iter().filter(|one| !one.is_future_key);
            let bytes = present.map(|one| u64::try_from(one.partition_size).unwrap_or(0));
            *self.bytes.entry(topic.name.as_str().to_owned()).or_insert(0) += bytes.sum::<u64>();
        }
        let failed = response.results.iter().find(|directory| directory.error_code != 0)?;
        self.incomplete.insert(node);
        Some(format!("{}: {}", failed.log_dir.as_str(), kafka_error::name(failed.error_code)))
    }
}

/// The directories of one broker; `None` for users who may not see them.
fn ask(cluster: &mut Cluster, node: i32) -> Result<Option<DescribeLogDirsResponse>, Failure> {
    let mut request = DescribeLogDirsRequest::default();
    request.topics = None;
    let response = cluster.broker(node)?.request(&request)?;
    if response.error_code == ErrorCode::ClusterAuthorizationFailed.code() {
        return Ok(None);
    }
    kafka_error::check(response.error_code, "describe directories", None)?;
    Ok(Some(response))
}

#[cfg(test)]
mod tests;
