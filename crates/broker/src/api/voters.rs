//! Code that the APIs for voters of the metadata quorum share, in a process that is its own
//! controller: checks in the order of Kafka's leader, with its error messages.

use std::fmt;

use levada_metadata::uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{StrBytes, Uuid};

use crate::api::Context;

/// A voter of the quorum.
pub(super) struct Voter {
    pub(super) id: i32,
    directory_id: Uuid,
}

impl Voter {
    /// The voter of a request; none without a valid id and a directory.
    pub(super) fn new(id: i32, directory_id: Uuid) -> Option<Self> {
        (id >= 0 && directory_id != Uuid::ZERO).then_some(Self { id, directory_id })
    }

    /// The only voter of this node's quorum.
    pub(super) fn of_this_node(context: &Context) -> Self {
        let broker = context.broker();
        Self { id: broker.node_id(), directory_id: broker.metadata().directory_id() }
    }
}

impl fmt::Display for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplicaKey(id={}, directoryId={})", self.id, uuid::text(self.directory_id))
    }
}

/// The refusal of a request for another cluster.
pub(super) fn check_cluster(context: &Context, asked: Option<&StrBytes>) -> Option<Failure> {
    let own = context.broker().metadata().cluster_id();
    let asked = asked.map(StrBytes::as_str).filter(|asked| *asked != own)?;
    let text = format!("The given id \"{asked}\" doesn't match the cluster id \"{own}\"");
    Some(Failure::new(ErrorCode::InconsistentClusterId, text))
}

/// The refusal of a quorum whose voters are fixed.
pub(super) fn check_level(context: &Context, change: &str) -> Option<Failure> {
    let level = context.broker().metadata().image().kraft_version();
    let text =
        || format!("Cluster doesn't support {change} voter because the kraft.version feature is {level}");
    (level == 0).then(|| Failure::new(ErrorCode::UnsupportedVersion, text()))
}
