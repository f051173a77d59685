//! Settings of the state machines, taken from the broker's configuration.

use levada_coordination::group::{ConsumerConfig, GroupConfig, ShareConfig, StreamsConfig};
use levada_coordination::share_state::ShareStateConfig;
use levada_coordination::txn::TxnConfig;

use levada_config::BrokerConfig;

/// Settings of the group coordinators.
pub(super) fn group_config(config: &BrokerConfig) -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: config.groups.initial_rebalance_delay_ms.into(),
        min_session_timeout_ms: config.groups.min_session_timeout_ms,
        max_session_timeout_ms: config.groups.max_session_timeout_ms,
        max_size: config.groups.max_size as usize,
        consumer: ConsumerConfig {
            session_timeout_ms: config.groups.consumer_session_timeout_ms,
            heartbeat_interval_ms: config.groups.consumer_heartbeat_interval_ms,
            max_size: config.groups.consumer_max_size as usize,
            assignment_interval_ms: config.groups.consumer_assignment_interval_ms,
            upgrades: config.groups.consumer_migration.upgrades,
            downgrades: config.groups.consumer_migration.downgrades,
        },
        share: ShareConfig {
            session_timeout_ms: config.groups.share_session_timeout_ms,
            heartbeat_interval_ms: config.groups.share_heartbeat_interval_ms,
            max_size: config.groups.share_max_size as usize,
            assignment_interval_ms: config.groups.share_assignment_interval_ms,
            ..ShareConfig::default()
        },
        streams: StreamsConfig {
            session_timeout_ms: config.groups.streams.session_timeout_ms,
            heartbeat_interval_ms: config.groups.streams.heartbeat_interval_ms,
            max_size: config.groups.streams.max_size as usize,
            assignment_interval_ms: config.groups.streams.assignment_interval_ms,
            initial_rebalance_delay_ms: config.groups.streams.initial_rebalance_delay_ms,
            num_standby_replicas: config.groups.streams.num_standby_replicas,
            ..StreamsConfig::default()
        },
        offset_metadata_max_bytes: config.offsets.metadata_max_bytes as usize,
        offsets_retention_ms: config.offsets.retention_ms,
        offsets_retention_check_interval_ms: config.offsets.retention_check_interval_ms,
        ..GroupConfig::default()
    }
}

/// Settings of the transaction coordinators.
pub(super) fn txn_config(config: &BrokerConfig) -> TxnConfig {
    TxnConfig {
        max_timeout_ms: config.transactions.max_timeout_ms,
        id_expiration_ms: config.transactions.id_expiration_ms,
        abort_interval_ms: config.transactions.abort_interval_ms,
        expiration_interval_ms: config.transactions.expiration_interval_ms,
        ..TxnConfig::default()
    }
}

/// Settings of the coordinators of share-group state.
pub(super) fn share_state_config(config: &BrokerConfig) -> ShareStateConfig {
    ShareStateConfig {
        updates_per_snapshot: config.share_states.updates_per_snapshot,
        ..ShareStateConfig::default()
    }
}
