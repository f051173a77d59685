//! Kafka's error codes that a controller answers with, and the reaction of a broker that follows
//! the quorum.

/// No error.
pub const NONE: i16 = 0;
/// The offset is outside the leader's log.
pub const OFFSET_OUT_OF_RANGE: i16 = 1;
/// The controller does not have the topic or the partition.
pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
/// A request could not be processed in time.
pub const REQUEST_TIMED_OUT: i16 = 7;
/// The node is not the leader of the partition.
pub const NOT_LEADER_OR_FOLLOWER: i16 = 6;
/// The connection's principal lacks CLUSTER_ACTION on the cluster.
pub const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
/// The request's version is not supported, or the announced features do not cover the finalized
/// ones.
pub const UNSUPPORTED_VERSION: i16 = 35;
/// The node is not the active controller.
pub const NOT_CONTROLLER: i16 = 41;
/// The request is malformed.
pub const INVALID_REQUEST: i16 = 42;
/// The controller has not attempted the change.
pub const OPERATION_NOT_ATTEMPTED: i16 = 55;
/// The leader does not have the fetch session.
pub const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
/// The request's leader epoch is older than the node's.
pub const FENCED_LEADER_EPOCH: i16 = 74;
/// The request's leader epoch is newer than the node's.
pub const UNKNOWN_LEADER_EPOCH: i16 = 75;
/// The broker's registration has been replaced by another.
pub const STALE_BROKER_EPOCH: i16 = 77;
/// The request's partition epoch is older than the controller's.
pub const INVALID_UPDATE_VERSION: i16 = 95;
/// The envelope's principal cannot be read.
pub const PRINCIPAL_DESERIALIZATION_FAILURE: i16 = 97;
/// The node does not have a topic of this id.
pub const UNKNOWN_TOPIC_ID: i16 = 100;
/// Another incarnation of the broker is still registered.
pub const DUPLICATE_BROKER_REGISTRATION: i16 = 101;
/// The leader has the records in tiered storage only.
pub const OFFSET_MOVED_TO_TIERED_STORAGE: i16 = 109;
/// The broker id has no registration.
pub const BROKER_ID_NOT_REGISTERED: i16 = 102;
/// The node belongs to another cluster.
pub const INCONSISTENT_CLUSTER_ID: i16 = 104;
/// A member of the requested ISR may not be in it: it is fenced, stops, or has another epoch.
pub const INELIGIBLE_REPLICA: i16 = 107;
/// The change was made, and with it another broker leads.
pub const NEW_LEADER_ELECTED: i16 = 108;
/// The registration itself is not valid.
pub const INVALID_REGISTRATION: i16 = 119;

/// Reaction to an error code of a Fetch of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// There is no error.
    Proceed,
    /// The answer names leader and epoch: retry with these.
    Learn,
    /// The node cannot serve the request: send it to another node.
    OtherNode,
    /// Asking again cannot help: an operator has to change something.
    Stop,
}

impl Reaction {
    /// The reaction to `code`. Codes of later Kafka versions count as a failure of the node.
    pub fn to(code: i16) -> Self {
        match code {
            NONE => Self::Proceed,
            NOT_LEADER_OR_FOLLOWER | FENCED_LEADER_EPOCH | UNKNOWN_LEADER_EPOCH => Self::Learn,
            CLUSTER_AUTHORIZATION_FAILED | INCONSISTENT_CLUSTER_ID | INVALID_REQUEST => Self::Stop,
            _ => Self::OtherNode,
        }
    }
}

/// Cause and next step of an error that an operator has to resolve, for a message.
pub fn remedy(code: i16) -> &'static str {
    match code {
        CLUSTER_AUTHORIZATION_FAILED => {
            "the controllers do not let this broker's principal act for the cluster (error 31): add it to super.users of \
             the controllers, or grant it CLUSTER_ACTION"
        }
        INCONSISTENT_CLUSTER_ID => {
            "the controllers belong to another cluster (error 104): compare cluster.id in meta.properties with the \
             cluster's id, and check controller.quorum.bootstrap.servers"
        }
        INVALID_REQUEST => {
            "the controllers refuse the request as malformed (error 42): their version is not supported"
        }
        UNSUPPORTED_VERSION => {
            "Levada does not support a finalized level of the cluster (error 35): list the levels with kafka-features.sh \
             describe; upgrade Levada, or the cluster if its metadata.version is below 4.0-IV3"
        }
        INVALID_REGISTRATION => {
            "the controllers refuse the registration (error 119): check that no other broker has this log directory's id"
        }
        _ => "the controllers refuse the request",
    }
}
