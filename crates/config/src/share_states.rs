//! Configuration of share coordinators: `share.coordinator.*`.

use super::reader::Reader;

/// The states of shared partitions, and the topic that keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareStatesConfig {
    /// `share.coordinator.snapshot.update.records.per.snapshot`.
    pub updates_per_snapshot: u32,
    /// `share.coordinator.state.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `share.coordinator.state.topic.replication.factor`.
    pub topic_replication_factor: i16,
    /// `share.coordinator.state.topic.min.isr`.
    pub topic_min_insync_replicas: i16,
    /// `share.coordinator.state.topic.segment.bytes`.
    pub topic_segment_bytes: i32,
}

impl Reader<'_> {
    pub(crate) fn share_states(&self) -> ShareStatesConfig {
        ShareStatesConfig {
            updates_per_snapshot: self.size("share.coordinator.snapshot.update.records.per.snapshot"),
            topic_partitions: self.int("share.coordinator.state.topic.num.partitions"),
            topic_replication_factor: self.short("share.coordinator.state.topic.replication.factor"),
            topic_min_insync_replicas: self.short("share.coordinator.state.topic.min.isr"),
            topic_segment_bytes: self.int("share.coordinator.state.topic.segment.bytes"),
        }
    }
}
