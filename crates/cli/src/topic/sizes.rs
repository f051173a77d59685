//! Sizes of topics on the disks of the brokers.

use std::collections::BTreeMap;

use levada_wire::messages::DescribeLogDirsRequest;

use crate::{cluster::Cluster, failure::Failure, kafka_error};

const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;

/// Bytes of each topic, of all replicas together; `None` for those who may not see them.
pub(crate) fn of_topics(cluster: &mut Cluster) -> Result<Option<BTreeMap<String, u64>>, Failure> {
    let mut request = DescribeLogDirsRequest::default();
    request.topics = None;
    let mut sizes = BTreeMap::new();
    for node in cluster.brokers()? {
        let response = cluster.broker(node)?.request(&request)?;
        if response.error_code == CLUSTER_AUTHORIZATION_FAILED {
            return Ok(None);
        }
        kafka_error::check(response.error_code, &format!("sizes on broker {node}"), None)?;
        for topic in response.results.iter().flat_map(|directory| &directory.topics) {
            let bytes = topic.partitions.iter().map(|one| u64::try_from(one.partition_size).unwrap_or(0));
            *sizes.entry(topic.name.as_str().to_owned()).or_insert(0) += bytes.sum::<u64>();
        }
    }
    Ok(Some(sizes))
}
