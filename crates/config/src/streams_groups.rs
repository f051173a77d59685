//! Configuration of streams groups: `group.streams.*`.

use super::reader::Reader;

/// Limits and times of streams groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsGroupsConfig {
    /// `group.coordinator.rebalance.protocols` has `streams`.
    pub is_enabled: bool,
    /// `group.streams.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `group.streams.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.streams.max.size`.
    pub max_size: u32,
    /// `group.streams.num.standby.replicas`.
    pub num_standby_replicas: i32,
    /// `group.streams.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.streams.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
}

impl Reader<'_> {
    pub(crate) fn streams_groups(&self) -> StreamsGroupsConfig {
        StreamsGroupsConfig {
            is_enabled: self.has_protocol("streams"),
            session_timeout_ms: self.int("group.streams.session.timeout.ms"),
            heartbeat_interval_ms: self.int("group.streams.heartbeat.interval.ms"),
            max_size: self.size("group.streams.max.size"),
            num_standby_replicas: self.int("group.streams.num.standby.replicas"),
            initial_rebalance_delay_ms: self.int("group.streams.initial.rebalance.delay.ms"),
            assignment_interval_ms: self.int("group.streams.assignment.interval.ms"),
        }
    }
}
