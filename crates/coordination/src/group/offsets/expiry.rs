//! Expiry of committed offsets: Kafka's rules as pure functions (KIP-211).

use std::collections::BTreeSet;

use crate::group::records::OffsetValue;

/// Condition that keeps a group's offsets, and the start of their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) struct Retention<'a> {
    /// Start of the age of the group's offsets.
    pub(in crate::group) age: Age,
    /// Topics that members read; none if that cannot be known.
    pub(in crate::group) in_use: Option<&'a BTreeSet<String>>,
    /// True if all topics count as in use, while `in_use` is not known.
    pub(in crate::group) all_in_use: bool,
}

/// Start of the age of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) enum Age {
    /// The commit of the offset.
    SinceCommit,
    /// From the time when the last member left.
    Since(i64),
}

impl Retention<'_> {
    /// Offsets of topics in use never expire.
    pub(in crate::group) fn is_in_use(&self, topic: &str) -> bool {
        self.in_use.map_or(self.all_in_use, |topics| topics.contains(topic))
    }

    /// True if the offset has expired. An expiration time that the client has set (before Kafka
    /// 2.1) overrides the retention.
    pub(in crate::group) fn is_over(&self, offset: &OffsetValue, now_ms: i64, retention_ms: i64) -> bool {
        if let Some(expire_timestamp_ms) = offset.expire_timestamp_ms {
            return now_ms >= expire_timestamp_ms;
        }
        let since_ms = match self.age {
            Age::SinceCommit => offset.commit_timestamp_ms,
            Age::Since(since_ms) => since_ms,
        };
        now_ms.saturating_sub(since_ms) >= retention_ms
    }
}
