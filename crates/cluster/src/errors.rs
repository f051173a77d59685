//! Reactions of a broker that follows the quorum to the error codes of controllers.

use levada_wire::error_code::ErrorCode;

/// Reaction to an error code of a Fetch of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// No error: continue.
    Proceed,
    /// The response names leader and epoch: retry with these.
    Learn,
    /// The node cannot serve the request: send it to another node.
    OtherNode,
    /// Another request cannot help: an operator has to change something.
    Stop,
}

impl Reaction {
    /// The reaction to `code`. Unknown codes of later Kafka versions count as a failure of the
    /// node.
    pub fn to(code: i16) -> Self {
        match ErrorCode::of_code(code) {
            Some(ErrorCode::None) => Self::Proceed,
            Some(
                ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch | ErrorCode::UnknownLeaderEpoch,
            ) => Self::Learn,
            Some(
                ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::InconsistentClusterId
                | ErrorCode::InvalidRequest,
            ) => Self::Stop,
            _ => Self::OtherNode,
        }
    }
}

/// Cause and next step of an error that an operator has to resolve, for a message.
pub fn remedy(code: i16) -> &'static str {
    match ErrorCode::of_code(code) {
        Some(ErrorCode::ClusterAuthorizationFailed) => {
            "the controllers do not let this broker's principal act for the cluster (error 31): add it to super.users of \
             the controllers, or grant it CLUSTER_ACTION"
        }
        Some(ErrorCode::InconsistentClusterId) => {
            "the controllers belong to another cluster (error 104): compare cluster.id in meta.properties with the \
             cluster's id, and check controller.quorum.bootstrap.servers"
        }
        Some(ErrorCode::InvalidRequest) => {
            "the controllers refuse the request as malformed (error 42): their version is not supported"
        }
        Some(ErrorCode::UnsupportedVersion) => {
            "Levada does not support a finalized level of the cluster (error 35): list the levels with kafka-features.sh \
             describe; upgrade Levada, or the cluster if its metadata.version is below 4.0-IV3"
        }
        Some(ErrorCode::InvalidRegistration) => {
            "the controllers refuse the registration (error 119): check that no other broker has this log directory's id"
        }
        _ => "the controllers refuse the request",
    }
}
