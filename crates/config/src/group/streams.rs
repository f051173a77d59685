//! Settings of a streams group for its coordinator.

use std::collections::HashSet;
use std::sync::Arc;

use super::{RACK_AWARE_TAGS, RECOVERY_LAG, TASK_OFFSET_INTERVAL_MS};
use crate::BrokerConfig;
use crate::layers::Values;

/// Settings that a streams group overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// `streams.task.offset.interval.ms`.
    pub task_offset_interval_ms: Option<i32>,
    /// `streams.acceptable.recovery.lag`.
    pub acceptable_recovery_lag: Option<i64>,
    /// `streams.rack.aware.assignment.tags`, separated by commas without spaces.
    pub rack_aware_tags: Option<Arc<str>>,
}

/// Name of the only assignor.
const ASSIGNOR: &str = "sticky";

fn tags(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).filter(|_| !value.trim().is_empty()).collect()
}

/// Checks the tags that members must have; the error is Kafka's sentence.
pub(super) fn check_tags(value: &str) -> Result<(), String> {
    let mut seen = HashSet::new();
    if !tags(value).into_iter().all(|tag| seen.insert(tag)) {
        return Err(format!("{RACK_AWARE_TAGS} must not contain duplicate tag keys."));
    }
    if seen.contains("") {
        return Err(format!("Configuration '{RACK_AWARE_TAGS}' values must not be empty."));
    }
    Ok(())
}

/// Checks the name of an assignor; the error is Kafka's sentence.
pub(super) fn check_assignor(value: &str) -> Result<(), String> {
    if value == ASSIGNOR {
        return Ok(());
    }
    Err(format!(
        "streams.assignor.name '{value}' is not a registered task assignor. Registered assignors are: [{ASSIGNOR}]."
    ))
}

impl BrokerConfig {
    /// The settings in force for the coordinator of a streams group with these values.
    pub fn own_streams(&self, own: &Values) -> StreamsGroupSettings {
        let number = |name| self.own_number(name, own);
        StreamsGroupSettings {
            session_timeout_ms: number("streams.session.timeout.ms"),
            heartbeat_interval_ms: number("streams.heartbeat.interval.ms"),
            assignment_interval_ms: number("streams.assignment.interval.ms"),
            initial_rebalance_delay_ms: number("streams.initial.rebalance.delay.ms"),
            num_standby_replicas: number("streams.num.standby.replicas"),
            task_offset_interval_ms: number(TASK_OFFSET_INTERVAL_MS),
            acceptable_recovery_lag: own.get(RECOVERY_LAG).and_then(|_| self.group_number(RECOVERY_LAG, own)),
            rack_aware_tags: own.get(RACK_AWARE_TAGS).map(|value| tags(value).join(",").into()),
        }
    }
}

#[cfg(test)]
mod tests;
