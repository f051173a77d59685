//! The registration of a broker: ids, listeners, features and directories, checked before anything
//! is sent. A controller would accept most of the settings that are refused here, and the cluster
//! would have an unreachable broker.

use std::collections::BTreeSet;

use levada_wire::messages::{BrokerRegistrationRequest, StrBytes, Uuid, broker_registration_request};
use thiserror::Error;

use crate::quorum::Quorum;

/// The feature without which a controller refuses each registration.
const METADATA_VERSION: &str = "metadata.version";

/// Directory ids below this number are reserved: unassigned, lost, migrating.
const RESERVED_DIRECTORY_IDS: u128 = 100;

/// One listener that clients or brokers connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerListener {
    /// The listener's name.
    pub name: String,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// Kafka's number of the security protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// The levels of a feature that this broker supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureRange {
    /// Name of the feature.
    pub name: String,
    /// Lowest level supported.
    pub min: i16,
    /// Highest level supported.
    pub max: i16,
}

/// The level of a feature that a cluster has finalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizedFeature {
    /// Name of the feature.
    pub name: String,
    /// Finalized level.
    pub level: i16,
}

/// A broker as it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerIdentity {
    /// `node.id`.
    pub node_id: i32,
    /// The cluster's id.
    pub cluster_id: String,
    /// Drawn at random at each start of the process.
    pub incarnation_id: Uuid,
    /// The broker epoch in `.kafka_cleanshutdown`, if this directory was closed cleanly.
    pub previous_epoch: Option<i64>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// All listeners except those of controllers.
    pub listeners: Vec<BrokerListener>,
    /// All features, including those without a finalized level.
    pub features: Vec<FeatureRange>,
    /// Ids of all log directories that were online at the start.
    pub directories: Vec<Uuid>,
}

impl BrokerIdentity {
    /// Checks conditions that a controller does not check, against the voters known so far.
    ///
    /// # Errors
    /// The first thing that an operator has to change.
    pub fn check(&self, quorum: &Quorum) -> Result<(), IdentityFault> {
        let node_id = self.node_id;
        if node_id < 0 {
            return Err(IdentityFault::NodeId { node_id });
        }
        if quorum.is_voter(node_id) {
            return Err(IdentityFault::Voter { node_id });
        }
        if self.listeners.is_empty() {
            return Err(IdentityFault::NoListener);
        }
        let mut names = BTreeSet::new();
        if let Some(again) = self.listeners.iter().find(|listener| !names.insert(&listener.name)) {
            return Err(IdentityFault::SameListener { name: again.name.clone() });
        }
        let mut seen = BTreeSet::new();
        let invalid = |id: &&Uuid| {
            let number = u128::from_be_bytes(id.to_bytes());
            number < RESERVED_DIRECTORY_IDS || !seen.insert(number)
        };
        if let Some(id) = self.directories.iter().find(invalid) {
            return Err(IdentityFault::Directory { id: *id });
        }
        if self.directories.is_empty() {
            return Err(IdentityFault::NoDirectory);
        }
        if !self.features.iter().any(|feature| feature.name == METADATA_VERSION) {
            let announced = self.features.iter().map(|feature| feature.name.clone()).collect();
            return Err(IdentityFault::NoMetadataVersion { announced });
        }
        Ok(())
    }

    /// Names each level of the cluster that this broker does not support, and the next step, for a
    /// message; `None` if it supports all of them.
    pub(super) fn unsupported(&self, finalized: &[FinalizedFeature]) -> Option<String> {
        let faults: Vec<String> = finalized.iter().filter_map(|feature| self.fault_of(feature)).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    fn fault_of(&self, FinalizedFeature { name, level }: &FinalizedFeature) -> Option<String> {
        let fault = format!("the cluster has finalized {name} at level {level}");
        let Some(range) = self.features.iter().find(|range| range.name == *name) else {
            return (*level > 0).then(|| {
                format!("{fault}, and this Levada does not have the feature (error 35): upgrade Levada first")
            });
        };
        let FeatureRange { min, max, .. } = range;
        let step = match level {
            level if level > max => "upgrade Levada first".to_owned(),
            level if level < min => format!(
                "upgrade controllers and brokers of Kafka 3 to Kafka 4 if there are any, and then raise the level with \
                 kafka-features.sh upgrade --feature {name}={min}"
            ),
            _ => return None,
        };
        Some(format!("{fault}, and this Levada supports levels {min} to {max} (error 35): {step}"))
    }

    /// The registration, with the directories that are `online`.
    pub(super) fn request(&self, online: impl Fn(&Uuid) -> bool) -> BrokerRegistrationRequest {
        let mut request = BrokerRegistrationRequest::default();
        request.broker_id = self.node_id;
        request.cluster_id = StrBytes::from(&*self.cluster_id);
        request.incarnation_id = self.incarnation_id;
        request.previous_broker_epoch = self.previous_epoch.unwrap_or(-1);
        request.rack = self.rack.as_deref().map(StrBytes::from);
        let listeners = self.listeners.iter().map(|listener| {
            let mut entry = broker_registration_request::Listener::default();
            entry.name = StrBytes::from(&*listener.name);
            entry.host = StrBytes::from(&*listener.host);
            entry.port = listener.port;
            entry.security_protocol = listener.security_protocol;
            entry
        });
        request.listeners = listeners.collect();
        let features = self.features.iter().map(|feature| {
            let mut entry = broker_registration_request::Feature::default();
            entry.name = StrBytes::from(&*feature.name);
            entry.min_supported_version = feature.min;
            entry.max_supported_version = feature.max;
            entry
        });
        request.features = features.collect();
        request.log_dirs = self.directories.iter().filter(|id| online(id)).copied().collect();
        request.log_dirs.sort_by_key(|id| id.to_bytes());
        request
    }
}

/// A registration that must not be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityFault {
    /// The id of the node is negative.
    #[error("node.id {node_id} is negative: give the broker an id of 0 or more that no other node has")]
    NodeId {
        /// Negative id.
        node_id: i32,
    },
    /// A controller has the id.
    #[error("node.id {node_id} is the id of a controller: give the broker an id that no other node has")]
    Voter {
        /// Id of the voter.
        node_id: i32,
    },
    /// No listener.
    #[error("the broker has no listener: check listeners and advertised.listeners")]
    NoListener,
    /// Two listeners of one name.
    #[error("two listeners have the name {name}: check listeners and advertised.listeners")]
    SameListener {
        /// Repeated name.
        name: String,
    },
    /// An id that is reserved, or that two directories have.
    #[error("directory id {id:?} is reserved or occurs twice: check meta.properties of each log directory")]
    Directory {
        /// Reserved or repeated id.
        id: Uuid,
    },
    /// The broker has no log directory.
    #[error("no log directory is online: check log.dirs")]
    NoDirectory,
    /// The features lack `metadata.version`.
    #[error("the announced features {announced:?} lack metadata.version")]
    NoMetadataVersion {
        /// Names of the announced features.
        announced: Vec<String>,
    },
}
