//! The registration of this broker: listeners, features and directories.

use std::net::SocketAddr;
use std::path::PathBuf;

use levada_cluster::lifecycle::{BrokerIdentity, BrokerListener, FeatureRange};
use levada_metadata::features;
use levada_metadata::uuid;
use levada_wire::Uuid;

use levada_config::BrokerConfig;

/// Ids of a broker that are in its data directory.
#[derive(Clone, Debug)]
pub(crate) struct BrokerIds {
    /// The cluster's id.
    pub(crate) cluster_id: String,
    /// The ids of the data directories that work.
    pub(crate) directories: Vec<Uuid>,
    /// The broker epoch before a clean stop.
    pub(crate) previous_epoch: Option<i64>,
}

/// A broker as it registers, and its directories as the configuration names them.
#[derive(Clone, Debug)]
pub(crate) struct OwnRegistration {
    /// The contents of the request.
    pub(crate) identity: BrokerIdentity,
    /// The data directories that work, with their ids.
    pub(crate) directories: Vec<(PathBuf, Uuid)>,
}

/// The identity with which the broker registers. `bound` contains the addresses of its listeners,
/// in the order of the configuration. Each call creates a new incarnation.
pub(crate) fn identity(config: &BrokerConfig, bound: &[SocketAddr], ids: BrokerIds) -> BrokerIdentity {
    let listeners = config.listeners.iter().zip(bound).map(|(listener, bound)| {
        let port = bound.port();
        let (host, port) = listener.told(port).unwrap_or_else(|| match bound.ip() {
            ip if ip.is_unspecified() => (host_name(), port),
            ip => (ip.to_string(), port),
        });
        BrokerListener { name: listener.name.clone(), host, port, security_protocol: listener.protocol.id() }
    });
    let features = features::of_members().map(|feature| FeatureRange {
        name: feature.name.to_owned(),
        min: feature.min_version,
        max: feature.max_version,
    });
    BrokerIdentity {
        node_id: config.node_id,
        cluster_id: ids.cluster_id,
        incarnation_id: uuid::random(),
        previous_epoch: ids.previous_epoch,
        rack: config.rack.clone(),
        listeners: listeners.collect(),
        features: features.collect(),
        directories: ids.directories,
    }
}

/// The name of this machine, as Kafka advertises a listener without a host.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
