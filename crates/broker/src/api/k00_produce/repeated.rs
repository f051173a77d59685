//! Partitions that a request names more than once.

use std::collections::HashSet;

use levada_wire::Uuid;
use levada_wire::messages::StrBytes;
use levada_wire::produce::ProduceTopic;

/// The partitions of a request that have been seen. A request with one partition has no set.
pub(super) struct Seen(Option<HashSet<(StrBytes, Uuid, i32)>>);

impl Seen {
    /// An empty set with capacity for the partitions of these topics.
    pub(super) fn of(topics: &[ProduceTopic]) -> Self {
        let partitions = topics.iter().map(|topic| topic.partitions.len()).sum();
        Self((partitions > 1).then(|| HashSet::with_capacity(partitions)))
    }

    /// Notes a partition of the topic with this name and id. True if it is seen for the first time.
    pub(super) fn is_new(&mut self, (name, topic_id): (&StrBytes, Uuid), index: i32) -> bool {
        self.0.as_mut().is_none_or(|seen| seen.insert((name.clone(), topic_id, index)))
    }
}
