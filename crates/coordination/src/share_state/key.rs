//! The name of a partition that a group shares.

use std::fmt::{self, Display};
use std::sync::Arc;

use levada_base::{id_text, parse_id};
use levada_wire::{Uuid, record_json};
use serde::{Serialize, Serializer};

/// A partition of a topic, shared by a group. Two topics of the same name have different ids.
///
/// The text of a key, `group:topicId:partition` with the topic id in Kafka's base64, decides which
/// partition of `__share_group_state` has its state; FindCoordinator has it as its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ShareKey {
    /// Id of the group.
    #[serde(serialize_with = "text")]
    pub group_id: Arc<str>,
    /// Id of the topic.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
}

impl ShareKey {
    /// The key in a text; none if the text is not the text of a key. A group id may have colons.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, ':');
        let partition = parts.next()?.parse().ok()?;
        let topic_id = Uuid::from_bytes(parse_id(parts.next()?)?);
        let group_id = parts.next().filter(|group_id| !group_id.trim().is_empty())?;
        Some(Self { group_id: group_id.into(), topic_id, partition })
    }
}

impl Display for ShareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.group_id, id_text(self.topic_id.to_bytes()), self.partition)
    }
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

#[cfg(test)]
mod tests;
