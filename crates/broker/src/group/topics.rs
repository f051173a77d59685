//! What a coordinator needs to know about topics.

use std::fmt::Debug;

use uuid::Uuid;

/// The topics at one moment, as the broker's metadata has them.
pub trait Topics: Debug + Send + Sync {
    /// A topic's id and its number of partitions.
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)>;

    /// A topic's name and its number of partitions.
    fn by_id(&self, id: Uuid) -> Option<(String, i32)>;

    /// The names of all topics.
    fn names(&self) -> Vec<String>;

    /// The offset of the metadata.
    fn version(&self) -> i64;
}

/// Before the broker has told: no topics at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoTopics;

impl Topics for NoTopics {
    fn by_name(&self, _: &str) -> Option<(Uuid, i32)> {
        None
    }

    fn by_id(&self, _: Uuid) -> Option<(String, i32)> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn version(&self) -> i64 {
        -1
    }
}
