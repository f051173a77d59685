//! Settings of a streams group for its coordinator.

use crate::BrokerConfig;
use crate::layers::Values;

/// Settings of a streams group, of those that the group sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsGroupSettings {
    /// `streams.session.timeout.ms`.
    pub session_timeout_ms: Option<i32>,
    /// `streams.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: Option<i32>,
    /// `streams.assignment.interval.ms`.
    pub assignment_interval_ms: Option<i32>,
    /// `streams.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: Option<i32>,
    /// `streams.num.standby.replicas`.
    pub num_standby_replicas: Option<i32>,
}

impl BrokerConfig {
    /// The settings of a streams group that are in force for its coordinator, of those that the
    /// group sets.
    pub fn own_streams(&self, own: &Values) -> StreamsGroupSettings {
        let number = |name| self.own_number(name, own);
        StreamsGroupSettings {
            session_timeout_ms: number("streams.session.timeout.ms"),
            heartbeat_interval_ms: number("streams.heartbeat.interval.ms"),
            assignment_interval_ms: number("streams.assignment.interval.ms"),
            initial_rebalance_delay_ms: number("streams.initial.rebalance.delay.ms"),
            num_standby_replicas: number("streams.num.standby.replicas"),
        }
    }
}
