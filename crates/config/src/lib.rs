//! The configuration of the broker: one table of keys with Kafka's names, the layers that may set
//! them (flags over environment over file over default), and the typed configuration the rest of
//! the broker reads.
//!
//! `table` describes every key that has an effect, `kafka` all of Kafka's keys, `foreign` the
//! treatment of keys without an effect, and `removed` the keys of earlier versions. `sources` turns
//! layers into checked settings with their origins. `broker` and `topic` are the typed results.
//! `describe` is the output of DescribeConfigs and `levada config show`. `dynamic` lays settings of
//! the running broker over the rest. `group` and `client_metrics` are the settings of other
//! resources. `security` reads authentication and authorization, and `cluster` the cluster that the
//! broker joins.

mod broker;
mod client_metrics;
mod cluster;
mod dead_letters;
mod derived;
mod describe;
mod dynamic;
mod error;
mod foreign;
mod group;
mod hosts;
mod kafka;
mod key;
mod layers;
mod listener;
mod manual;
mod prefix;
mod properties;
mod reader;
mod remote;
mod remote_store;
mod removed;
mod replay;
mod security;
mod share_states;
mod sources;
mod streams_groups;
mod table;
mod telemetry;
mod thresholds;
mod throttled;
mod topic;
mod wording;
mod words;

pub use broker::{BrokerConfig, CleanerConfig, GroupConfig, OffsetsConfig, TransactionsConfig};
pub use client_metrics::{
    ClientMetrics, Wrong, check_client_metrics, describe_client_metrics, is_client_metrics_key,
};
pub use cluster::{ClusterConfig, PeerListener, ReplicationConfig};
pub use dead_letters::DeadLetterConfig;
pub use describe::is_sensitive;
pub use describe::{ConfigSource, Described, Synonym};
pub use dynamic::{broker_default, broker_kind, without_effect_on_broker};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use foreign::without_effect;
pub use group::{ShareGroupSettings, ShareStart, StreamsGroupSettings, check_group, is_group_key};
pub use hosts::HostLimits;
pub use hosts::address_of;
pub use key::{ConfigKey, ConfigType, Dynamic, HIDDEN, Valid};
pub use layers::Values;
pub use listener::{HostPort, Listener, ListenerLimits, Protocol};
pub use manual::manual_page;
pub use properties::{Property, SyntaxError, parse as parse_properties};
pub use remote::RemoteLogConfig;
pub use replay::ReplayCache;
pub use security::{Secret, SecurityConfig, TokenTimes};
pub use share_states::ShareStatesConfig;
pub use sources::Differences;
pub use sources::{Note, Settings, Sources, env_name};
pub use streams_groups::StreamsGroupsConfig;
pub use table::{BROKER_KEYS, TOPIC_KEYS, TopicConfigKey, broker_key, topic_key};
pub use telemetry::{TelemetryConfig, TelemetryOffer};
pub use thresholds::thresholds;
pub use throttled::ThrottledReplicas;
pub use topic::{CleanupPolicy, CompressionType, TimestampType, TopicConfig, TopicTiers, durability_label};

#[cfg(test)]
mod tests;
