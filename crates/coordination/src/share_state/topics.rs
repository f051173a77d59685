//! Facts about topics that a coordinator of share-group state needs.

use std::fmt::Debug;

use levada_wire::Uuid;

/// The sizes of the topics at one moment, as the broker's metadata has them.
pub trait TopicSizes: Debug + Send + Sync {
    /// Number of partitions of a topic; none if no topic has the id.
    fn partition_count(&self, topic_id: Uuid) -> Option<i32>;
}
