//! Settings of a group coordinator, as plain numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Maximum number of members of a group (`group.max.size`).
    pub max_size: usize,
    /// Time that a member without an id may wait in a join.
    pub new_member_join_timeout_ms: i64,
    /// Settings of consumer groups (KIP-848) only.
    pub consumer: ConsumerConfig,
    /// Settings of share groups (KIP-932) only.
    pub share: ShareConfig,
    /// Settings of streams groups (KIP-1071) only.
    pub streams: StreamsConfig,
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
    /// Maximum number of members of a group (`group.consumer.max.size`).
    pub max_size: usize,
    /// Minimum time between two target assignments (`group.consumer.assignment.interval.ms`).
    pub assignment_interval_ms: i32,
    /// True if a classic group with members may become a consumer group
    /// (`group.consumer.migration.policy`).
    pub upgrades: bool,
    /// True if a consumer group of which all members are classic becomes a classic group (as
    /// above).
    pub downgrades: bool,
}

impl ConsumerConfig {
    /// True if no group with members may change its kind: then classic members do not join consumer
    /// groups either.
    pub fn keeps_kinds_apart(&self) -> bool {
        !self.upgrades && !self.downgrades
    }
}

/// Settings of share groups; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    /// Time without a heartbeat after which a member is removed (`group.share.session.timeout.ms`).
    pub session_timeout_ms: i32,
    /// Heartbeat interval of members (`group.share.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: i32,
    /// Maximum number of members of a group (`group.share.max.size`).
    pub max_size: usize,
    /// Minimum time between two target assignments (`group.share.assignment.interval.ms`).
    pub assignment_interval_ms: i32,
    /// Time after which the initialization of partitions begins again, unless its end has been
    /// reported (`group.share.initialize.retry.interval.ms`).
    pub initialize_retry_interval_ms: i64,
}

/// Settings of streams groups; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsConfig {
    /// Time without a heartbeat after which a member is removed
    /// (`group.streams.session.timeout.ms`).
    pub session_timeout_ms: i32,
    /// Heartbeat interval of members (`group.streams.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: i32,
    /// Maximum number of members of a group (`group.streams.max.size`).
    pub max_size: usize,
    /// Minimum time between two target assignments (`group.streams.assignment.interval.ms`).
    pub assignment_interval_ms: i32,
    /// Time that the first assignment of an empty group waits for more members
    /// (`group.streams.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay_ms: i32,
    /// Number of standby tasks for each task with state (`group.streams.num.standby.replicas`).
    pub num_standby_replicas: i32,
    /// Shortest time between two reports of task offsets (`group.streams.task.offset.interval.ms`).
    pub task_offset_interval_ms: i32,
    /// Number of records that a task may lack to become active
    /// (`group.streams.acceptable.recovery.lag`).
    pub acceptable_recovery_lag: i64,
}

impl Default for StreamsConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            max_size: i32::MAX as usize,
            assignment_interval_ms: 1_000,
            initial_rebalance_delay_ms: 3_000,
            num_standby_replicas: 0,
            task_offset_interval_ms: 60_000,
            acceptable_recovery_lag: 10_000,
        }
    }
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            max_size: 200,
            assignment_interval_ms: 1_000,
            initialize_retry_interval_ms: 30_000,
        }
    }
}

/// Settings that may change while a coordinator serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSettings {
    /// Settings of single groups, by group id.
    pub groups: BTreeMap<String, OwnSetting>,
    /// Overrides [`ConsumerConfig::assignment_interval_ms`], for groups without their own interval
    /// (`group.consumer.assignment.interval.ms`).
    pub consumer_assignment_interval_ms: Option<i32>,
    /// Overrides [`ShareConfig::assignment_interval_ms`], for groups without their own interval
    /// (`group.share.assignment.interval.ms`).
    pub share_assignment_interval_ms: Option<i32>,
    /// Overrides [`StreamsConfig::assignment_interval_ms`], for groups without their own interval
    /// (`group.streams.assignment.interval.ms`).
    pub streams_assignment_interval_ms: Option<i32>,
}

impl OwnSettings {
    /// The group's own setting that `choose` returns, if there is one.
    pub(super) fn of<T>(&self, group_id: &str, choose: impl FnOnce(&OwnSetting) -> Option<T>) -> Option<T> {
        self.groups.get(group_id).and_then(choose)
    }
}

impl<const COUNT: usize> From<[(String, OwnSetting); COUNT]> for OwnSettings {
    fn from(groups: [(String, OwnSetting); COUNT]) -> Self {
        Self { groups: groups.into(), ..Self::default() }
    }
}

/// Settings of a group; the coordinator's apply to the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSetting {
    /// Overrides [`ConsumerConfig::session_timeout_ms`] (`consumer.session.timeout.ms`).
    pub session_timeout_ms: Option<i32>,
    /// Overrides [`ConsumerConfig::heartbeat_interval_ms`] (`consumer.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: Option<i32>,
    /// Overrides [`ConsumerConfig::assignment_interval_ms`] (`consumer.assignment.interval.ms`).
    pub consumer_assignment_interval_ms: Option<i32>,
    /// Overrides [`ShareConfig::session_timeout_ms`] (`share.session.timeout.ms`).
    pub share_session_timeout_ms: Option<i32>,
    /// Overrides [`ShareConfig::heartbeat_interval_ms`] (`share.heartbeat.interval.ms`).
    pub share_heartbeat_interval_ms: Option<i32>,
    /// Overrides [`ShareConfig::assignment_interval_ms`] (`share.assignment.interval.ms`).
    pub share_assignment_interval_ms: Option<i32>,
    /// Settings of streams groups.
    pub streams: OwnStreamsSetting,
}

/// Settings of a streams group; the coordinator's apply to the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnStreamsSetting {
    /// Overrides [`StreamsConfig::session_timeout_ms`] (`streams.session.timeout.ms`).
    pub session_timeout_ms: Option<i32>,
    /// Overrides [`StreamsConfig::heartbeat_interval_ms`] (`streams.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: Option<i32>,
    /// Overrides [`StreamsConfig::assignment_interval_ms`] (`streams.assignment.interval.ms`).
    pub assignment_interval_ms: Option<i32>,
    /// Overrides [`StreamsConfig::initial_rebalance_delay_ms`]
    /// (`streams.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay_ms: Option<i32>,
    /// Overrides [`StreamsConfig::num_standby_replicas`] (`streams.num.standby.replicas`).
    pub num_standby_replicas: Option<i32>,
    /// Overrides [`StreamsConfig::task_offset_interval_ms`] (`streams.task.offset.interval.ms`).
    pub task_offset_interval_ms: Option<i32>,
    /// Overrides [`StreamsConfig::acceptable_recovery_lag`] (`streams.acceptable.recovery.lag`).
    pub acceptable_recovery_lag: Option<i64>,
    /// Keys of the tags that members must have, separated by commas
    /// (`streams.rack.aware.assignment.tags`).
    pub rack_aware_tags: Option<Arc<str>>,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            max_size: i32::MAX as usize,
            assignment_interval_ms: 1_000,
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
            share: ShareConfig::default(),
            streams: StreamsConfig::default(),
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
        }
    }
}
