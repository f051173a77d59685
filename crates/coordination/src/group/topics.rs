//! Facts about topics that a coordinator needs.

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use levada_wire::Uuid;

use levada_base::Requester;

/// The topics at one moment, as the broker's metadata has them.
pub trait Topics: Debug + Send + Sync {
    /// A topic's id and its number of partitions.
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)>;

    /// A topic's name and its number of partitions.
    fn by_id(&self, id: Uuid) -> Option<(String, i32)>;

    /// The names of all topics.
    fn names(&self) -> Vec<Arc<str>>;

    /// The offset of the metadata.
    fn version(&self) -> i64;
}

/// A topic that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneTopic {
    /// Name of the topic, which another topic may have by now.
    pub name: String,
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: BTreeSet<i32>,
}

impl GoneTopic {
    /// True if an offset that was committed for this partition, and for the topic with this id, is
    /// deleted with the topic.
    pub(super) fn had(&self, index: i32, committed_for: Uuid) -> bool {
        self.partitions.contains(&index) && same_topic(committed_for, self.topic_id)
    }
}

/// False if a commit is for another topic of the same name: the one was deleted before the other
/// was created. Commits of older versions have no id.
pub(super) fn same_topic(stored: Uuid, asked: Uuid) -> bool {
    stored.is_zero() || asked.is_zero() || stored == asked
}

/// Topics that a client may describe, by default all, and the client.
#[derive(Clone)]
pub struct Visible {
    question: Option<Arc<Question>>,
    requester: Requester,
}

type Question = dyn Fn(&str) -> bool + Send + Sync;

impl Visible {
    /// All topics, for this client.
    pub fn all(requester: Requester) -> Self {
        Self { question: None, requester }
    }

    /// Topics for which `question` returns true. The function runs only when names are looked up.
    pub fn by(requester: Requester, question: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { question: Some(Arc::new(question)), requester }
    }

    /// True if a topic is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.question.as_ref().is_none_or(|question| question(name))
    }

    /// The client whose permissions count.
    pub fn requester(&self) -> &Requester {
        &self.requester
    }
}

impl Default for Visible {
    fn default() -> Self {
        Self::all(Requester::at(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }
}

impl PartialEq for Visible {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.question, &other.question) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same && self.requester == other.requester
    }
}

impl Eq for Visible {}

impl Debug for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.question.is_some() { "some" } else { "all" })
    }
}

/// State before the first announcement: no topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoTopics;

impl Topics for NoTopics {
    fn by_name(&self, _: &str) -> Option<(Uuid, i32)> {
        None
    }

    fn by_id(&self, _: Uuid) -> Option<(String, i32)> {
        None
    }

    fn names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn version(&self) -> i64 {
        -1
    }
}
