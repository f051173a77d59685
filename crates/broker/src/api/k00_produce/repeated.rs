//! Partitions that a request names more than once.

use std::collections::{HashMap, HashSet};

use levada_wire::Uuid;
use levada_wire::messages::StrBytes;
use levada_wire::produce::ProduceTopic;

/// The partitions of a request that have been seen. A request with one partition has no set.
pub(super) struct Seen(Option<HashMap<(StrBytes, Uuid), HashSet<i32>>>);

impl Seen {
    /// No partition of these topics yet.
    pub(super) fn of(topics: &[ProduceTopic]) -> Self {
        let has_one = matches!(topics, [topic] if topic.partitions.len() <= 1);
        Self((!has_one).then(HashMap::new))
    }

    /// Notes a partition of the topic with this name and id. True if it is seen for the first time.
    pub(super) fn is_new(&mut self, (name, topic_id): (&StrBytes, Uuid), index: i32) -> bool {
        let Some(by_topic) = &mut self.0 else { return true };
        by_topic.entry((name.clone(), topic_id)).or_default().insert(index)
    }
}
