//! Decisions of the controller: pure functions from an image and a request to records, without
//! clock, disk or randomness.
//!
//! Each operation takes the image and a request and returns the records to append, all in one
//! batch, and the outcome for each item. Time and ids are parameters. The change takes effect when
//! the caller has appended and applied the records: the store does both. Checks, their order and
//! their messages are those of Kafka 4.3's controller.

mod access;
mod configs;
mod features;
mod names;
mod nodes;
mod partitions;
mod producer_ids;
mod quotas;
#[cfg(test)]
mod tests;
mod tokens;
mod topics;
mod unregister;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::image::{ConfigResource, ResourceKind};
use super::records::Record;

pub use self::access::{AlterCredential, alter_credentials, check_acl_host, create_acls, delete_acls};
pub use self::configs::changed;
pub use self::configs::{AlterConfig, ConfigChange, NewValue, alter_configs, replace_configs};
pub use self::features::{FeatureUpdate, update_features};
pub use self::names::TOPIC_NAME_BYTES_MAX;
pub use self::names::{METADATA_TOPIC, check_topic_name, is_internal};
pub use self::nodes::controller_endpoint;
pub use self::nodes::{Node, assign_directories, lose_directories, start_node, stop_node};
pub use self::partitions::{MorePartitions, check_replicas, create_partitions};
pub use self::producer_ids::{PRODUCER_ID_BLOCK_LEN, ProducerIdBlock, allocate_producer_ids};
pub use self::quotas::{AlterQuota, QuotaChange, alter_client_quotas};
pub use self::tokens::{
    EXPIRED_TOKENS_MAX, NewToken, TokenChange, TokenLifetimes, create_token, expire_token,
    remove_expired_tokens, renew_token,
};
pub use self::topics::{
    CreatedTopic, DeletedTopic, NewTopic, TopicKey, TopicRules, create_topics, delete_topics,
};
pub use self::unregister::{unregister_broker, unregister_controller};

/// Records to append as one batch, and the result to return once they are appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<T> {
    /// Records to append, possibly none.
    pub records: Vec<Record>,
    /// Result for the client.
    pub outcome: T,
}

impl<T> Decision<T> {
    /// A decision without records.
    pub fn nothing(outcome: T) -> Self {
        Self { records: Vec::new(), outcome }
    }
}

/// Refusal of one item of a request. The message is Kafka's; `None` means the code's own text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason:?}: {}", message.as_deref().unwrap_or("no message"))]
pub struct Refusal {
    /// Kind of the error that a client sees.
    pub reason: Reason,
    /// Message for the client.
    pub message: Option<Cow<'static, str>>,
}

impl Refusal {
    fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, message: Some(message.into()) }
    }
}

/// Kinds of refusals, each with an error code in Kafka's protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The topic name is not allowed.
    InvalidTopic,
    /// A topic of that name exists.
    TopicExists,
    /// The number of partitions is not allowed.
    InvalidPartitions,
    /// The replication factor is not allowed or not possible.
    InvalidReplicationFactor,
    /// The assignment of replicas to brokers is not allowed.
    InvalidReplicaAssignment,
    /// A configuration key or value is not allowed.
    InvalidConfig,
    /// More than the broker allows.
    PolicyViolation,
    /// The request contradicts itself.
    InvalidRequest,
    /// No topic of that name.
    UnknownTopic,
    /// No topic of that id.
    UnknownTopicId,
    /// An item occurs twice in the request.
    Duplicate,
    /// The resource to change does not exist.
    NotFound,
    /// A credential that is too weak, or without a user name.
    UnacceptableCredential,
    /// The number is not that of a SCRAM mechanism.
    UnknownMechanism,
    /// The `metadata.version` does not have such records.
    UnsupportedVersion,
    /// The client has exhausted its quota.
    QuotaExceeded,
    /// A feature cannot have that level.
    InvalidUpdateVersion,
    /// No delegation token has that HMAC.
    UnknownToken,
    /// The delegation token has expired.
    ExpiredToken,
    /// The client is neither the owner nor a renewer of the delegation token.
    NotTokensOwner,
    /// No broker of that id is registered.
    UnknownBroker,
    /// No controller of that id is registered.
    UnknownController,
    /// A failure that the client cannot avoid.
    ServerError,
}

/// Function that requests quota of the client for a number of partitions to be created or deleted;
/// true if it is granted. It is called once an item has passed all other checks, as in Kafka.
pub type Permit<'a> = &'a dyn Fn(usize) -> bool;

/// Checks the quota of the client.
fn check_quota(permit: Permit<'_>, partitions: usize) -> Result<(), Refusal> {
    let refused = || Refusal::new(Reason::QuotaExceeded, "The throttling quota has been exceeded.");
    permit(partitions).then_some(()).ok_or_else(refused)
}

/// Rules for configuration values, from the broker's table of keys.
pub trait ConfigRules {
    /// Checks all values that a resource would have after a change. `before` contains the present
    /// ones.
    fn check(
        &self,
        resource: &ConfigResource,
        values: &BTreeMap<String, String>,
        before: &BTreeMap<String, String>,
    ) -> Result<(), Refusal>;

    /// False for a key that this version does not have, set by other software: as in Kafka, such a
    /// stored key has no effect, and does not prevent other changes.
    fn is_supported(&self, resource: ResourceKind, key: &str) -> bool;

    /// True if the key's value is a list, to which items can be appended; `None` for an unknown
    /// key.
    fn is_list(&self, resource: ResourceKind, key: &str) -> Option<bool>;

    /// The value while nothing is set.
    fn default_value(&self, resource: ResourceKind, key: &str) -> Option<String>;
}
