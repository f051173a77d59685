//! Layout of a cluster: its brokers, the replicas of every partition, and the directories of each
//! broker with the bytes in them.

mod directories;

use std::collections::{BTreeMap, BTreeSet};

use levada_client::{Cluster, TopicPartition, cluster};
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::messages::metadata_response::MetadataResponsePartition;
use levada_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse,
    MetadataResponse,
};

pub(crate) use self::directories::{Directories, Directory};
use crate::kafka_error;

/// Brokers and partitions of a cluster at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) brokers: BTreeMap<i32, Member>,
    pub(crate) partitions: BTreeMap<TopicPartition, Placed>,
}

/// A broker of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) host: String,
    pub(crate) port: i32,
    pub(crate) rack: Option<String>,
    /// `None` if the broker does not report it: DescribeCluster before version 2.
    pub(crate) fenced: Option<bool>,
}

/// A partition with its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    /// The preferred leader comes first.
    pub(crate) replicas: Vec<i32>,
    pub(crate) in_sync: Vec<i32>,
    pub(crate) offline: Vec<i32>,
    pub(crate) is_internal: bool,
}

impl Layout {
    pub(crate) fn ask(cluster: &mut Cluster) -> Result<Self, Failure> {
        let described = describe(cluster)?;
        let tells_fenced = cluster.version::<DescribeClusterRequest>()? >= 2;
        Ok(Self::of(&described, tells_fenced, &cluster.metadata(None, false)?))
    }

    fn of(described: &DescribeClusterResponse, tells_fenced: bool, metadata: &MetadataResponse) -> Self {
        let member = described.brokers.iter().map(|broker| {
            let member = Member {
                host: broker.host.as_str().to_owned(),
                port: broker.port,
                rack: broker.rack.as_deref().map(str::to_owned),
                fenced: tells_fenced.then_some(broker.is_fenced),
            };
            (broker.broker_id, member)
        });
        let mut partitions = BTreeMap::new();
        for topic in &metadata.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            for partition in &topic.partitions {
                let place = (name.to_owned(), partition.partition_index);
                partitions.insert(place, Placed::of(partition, topic.is_internal));
            }
        }
        Self { brokers: member.collect(), partitions }
    }

    /// Brokers that serve: those that are not fenced, as far as known.
    pub(crate) fn serving(&self) -> BTreeSet<i32> {
        self.brokers.iter().filter(|(_, one)| one.fenced != Some(true)).map(|(id, _)| *id).collect()
    }

    /// Rack of each broker.
    pub(crate) fn racks(&self) -> BTreeMap<i32, Option<String>> {
        self.brokers.iter().map(|(id, member)| (*id, member.rack.clone())).collect()
    }

    /// Number of partitions that a broker leads.
    pub(crate) fn leaders(&self, broker: i32) -> usize {
        self.partitions.values().filter(|one| one.leader == Some(broker)).count()
    }

    /// Number of partitions with a replica on a broker.
    pub(crate) fn replicas(&self, broker: i32) -> usize {
        self.partitions.values().filter(|one| one.replicas.contains(&broker)).count()
    }

    /// Number of replicas of a broker that are not in sync.
    pub(crate) fn out_of_sync(&self, broker: i32) -> usize {
        let lags = |one: &&Placed| one.replicas.contains(&broker) && !one.in_sync.contains(&broker);
        self.partitions.values().filter(lags).count()
    }

    /// Fails unless the cluster has a broker with this id.
    pub(crate) fn member(&self, broker: i32) -> Result<&Member, Failure> {
        self.brokers.get(&broker).ok_or_else(|| {
            let known = listed(self.brokers.keys().copied());
            Failure::with_next(
                format!("the cluster has no broker {broker}; it has {known}"),
                "levada broker list shows all brokers",
            )
        })
    }
}

impl Member {
    pub(crate) fn address(&self) -> String {
        cluster::address(&self.host, self.port)
    }

    pub(crate) fn state(&self) -> &'static str {
        match self.fenced {
            Some(true) => "fenced",
            Some(false) => "active",
            None => levada_terminal::output::NOTHING,
        }
    }
}

impl Placed {
    fn of(partition: &MetadataResponsePartition, is_internal: bool) -> Self {
        Self {
            leader: Some(partition.leader_id).filter(|leader| *leader >= 0),
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes.clone(),
            in_sync: partition.isr_nodes.clone(),
            offline: partition.offline_replicas.clone(),
            is_internal,
        }
    }

    /// True if a replica is not in sync, but for those that a move adds.
    pub(crate) fn is_under_replicated(&self, adding: &[i32]) -> bool {
        self.replicas.iter().any(|id| !self.in_sync.contains(id) && !adding.contains(id))
    }

    /// True if acks=all is refused: without a leader, or with fewer replicas in sync than
    /// `min.insync.replicas`.
    pub(crate) fn refuses_acks_all(&self, least: usize) -> bool {
        self.leader.is_none() || is_below_least(self.in_sync.len(), self.replicas.len(), least)
    }
}

/// True if too few replicas are in sync for acks=all. As in Kafka, a partition with fewer replicas
/// than `min.insync.replicas` needs all of them.
pub(crate) fn is_below_least(in_sync: usize, replicas: usize, least: usize) -> bool {
    in_sync < least.min(replicas)
}

/// The cluster with all of its brokers, including fenced ones if the broker reports them.
pub(crate) fn describe(cluster: &mut Cluster) -> Result<DescribeClusterResponse, Failure> {
    let mut request = DescribeClusterRequest::default();
    request.endpoint_type = 1;
    request.include_fenced_brokers = cluster.version::<DescribeClusterRequest>()? >= 2;
    let response = cluster.ask(&request)?;
    kafka_error::check(response.error_code, "describe the cluster", response.error_message.as_deref())?;
    Ok(response)
}

/// Ids separated by commas.
pub(crate) fn listed(ids: impl IntoIterator<Item = i32>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    if ids.is_empty() { levada_terminal::output::NOTHING.to_owned() } else { ids.join(",") }
}

/// The response of each broker to ApiVersions.
pub(crate) fn versions(cluster: &mut Cluster) -> Result<BTreeMap<i32, ApiVersionsResponse>, Failure> {
    cluster.brokers()?.into_iter().map(|node| Ok((node, version(cluster, node)?))).collect()
}

/// The response of a broker to ApiVersions.
pub(crate) fn version(cluster: &mut Cluster, node: i32) -> Result<ApiVersionsResponse, Failure> {
    let mut request = ApiVersionsRequest::default();
    request.client_software_name = StrBytes::from("levada");
    request.client_software_version = StrBytes::from(env!("CARGO_PKG_VERSION"));
    let answer = cluster.broker(node)?.request(&request)?;
    kafka_error::check(answer.error_code, &format!("versions of broker {node}"), None)?;
    Ok(answer)
}
