//! Reasons why a streams group cannot assign its tasks, in Kafka's words: statuses of heartbeats.

use std::collections::BTreeMap;

use crate::group::records::InternalTopic;
use crate::group::request::StreamsStatus;

/// Maximum number of topic names in a sentence.
const NAMES_MAX: usize = 3;

/// Status about the topics of a group that prevents an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason(pub(super) StreamsStatus);

impl Reason {
    /// Source topics do not exist.
    pub(super) fn missing_sources(names: &[&String]) -> Self {
        let names = summary(names.iter().map(|name| name.as_str()));
        Self(StreamsStatus {
            code: StreamsStatus::MISSING_SOURCE_TOPICS,
            detail: format!("Source topics {names} are missing."),
        })
    }

    /// Internal topics do not exist.
    pub(super) fn missing_internal(topics: &[InternalTopic]) -> Self {
        let names = summary(topics.iter().map(|topic| topic.name.as_str()));
        let detail = format!("Internal topics are missing: {names}");
        Self(StreamsStatus { code: StreamsStatus::MISSING_INTERNAL_TOPICS, detail })
    }

    /// Topics that must have the same number of partitions do not have it.
    pub(super) fn unlike(counts: &str) -> Self {
        Self::partitions(format!("Following topics do not have the same number of partitions: [{counts}]"))
    }

    /// Reason for a topic between parts with another number of partitions than the external topics.
    pub(super) fn unlike_source(name: &str, own: i32, count: i32) -> Self {
        Self::partitions(format!(
            "Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions [{count}] of the source topic."
        ))
    }

    /// An internal topic exists with another number of partitions.
    pub(super) fn unexpected(name: &str, expected: i32, found: i32) -> Self {
        Self::partitions(format!(
            "Existing topic {name} has different number of partitions: expected {expected}, found {found}"
        ))
    }

    fn partitions(detail: String) -> Self {
        Self(StreamsStatus { code: StreamsStatus::INCORRECTLY_PARTITIONED_TOPICS, detail })
    }
}

/// Topics and their numbers of partitions.
pub(super) fn named_counts(counts: &BTreeMap<&str, i32>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
    format!("{{{}}}", counts.join(", "))
}

fn summary<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let shown: Vec<&str> = names.take(NAMES_MAX).collect();
    let shown = shown.join(", ");
    match count.saturating_sub(NAMES_MAX) {
        0 => shown,
        others => format!("{shown} and {others} additional topics"),
    }
}
