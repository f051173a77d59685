//! Settings of a group coordinator, as plain numbers.

use std::collections::BTreeMap;

/// Settings of a group coordinator; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Time that the first rebalance of an empty group waits for more members
    /// (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay_ms: i64,
    /// Smallest session timeout of a member (`group.min.session.timeout.ms`).
    pub min_session_timeout_ms: i32,
    /// Largest session timeout of a member (`group.max.session.timeout.ms`).
    pub max_session_timeout_ms: i32,
    /// Most members a group may have (`group.max.size`).
    pub max_size: usize,
    /// Time that a member without an id may wait in a join.
    pub new_member_join_timeout_ms: i64,
    /// Settings of consumer groups (KIP-848) only.
    pub consumer: ConsumerConfig,
    /// Longest metadata of a commit, in UTF-16 units as Kafka counts (`offset.metadata.max.bytes`).
    pub offset_metadata_max_bytes: usize,
    /// Time that offsets outlive the last member (`offsets.retention.minutes`).
    pub offsets_retention_ms: i64,
    /// Interval between scans for expired offsets (`offsets.retention.check.interval.ms`).
    pub offsets_retention_check_interval_ms: i64,
}

/// Settings of consumer groups; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// Time without a heartbeat after which a member is removed
    /// (`group.consumer.session.timeout.ms`).
    pub session_timeout_ms: i32,
    /// Heartbeat interval of members (`group.consumer.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: i32,
    /// Most members a group may have (`group.consumer.max.size`).
    pub max_size: usize,
    /// True if a classic group with members may become a consumer group
    /// (`group.consumer.migration.policy`).
    pub upgrades: bool,
    /// True if a consumer group of classic members alone becomes a classic group (as above).
    pub downgrades: bool,
}

impl ConsumerConfig {
    /// True if no group with members may change its kind: then classic members do not join consumer
    /// groups either.
    pub fn keeps_kinds_apart(&self) -> bool {
        !self.upgrades && !self.downgrades
    }
}

/// Settings of single consumer groups, by group id.
pub type OwnSettings = BTreeMap<String, OwnSetting>;

/// Settings of a consumer group; the coordinator's apply to the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnSetting {
    /// In place of [`ConsumerConfig::session_timeout_ms`] (`consumer.session.timeout.ms`).
    pub session_timeout_ms: Option<i32>,
    /// In place of [`ConsumerConfig::heartbeat_interval_ms`] (`consumer.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: Option<i32>,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            max_size: i32::MAX as usize,
            upgrades: true,
            downgrades: true,
        }
    }
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay_ms: 3_000,
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            max_size: i32::MAX as usize,
            new_member_join_timeout_ms: 300_000,
            consumer: ConsumerConfig::default(),
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
        }
    }
}
