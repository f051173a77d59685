//! Applies changed configuration to logs, coordinators and the broker itself.

use std::sync::Arc;

use levada_config::{BrokerConfig, ConfigErrors, Differences, StreamsGroupSettings, Values};
use levada_coordination::group::{OwnSetting, OwnSettings, OwnStreamsSetting};
use levada_metadata::image::{ConfigResource, Image, ResourceKind, Topic};
use levada_security::keystore::TlsError;

use crate::publishing::Publisher;
use crate::replica::log_config::{log_config, topic_config};
use crate::share_partitions::are_dead_letters_permitted;
use crate::tls::Tls;

/// The key of a group that names the topic of its dead letters.
const DEAD_LETTER_TOPIC: &str = "errors.deadletterqueue.topic.name";

/// The reason why a configuration that was read again is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    /// The file's values contradict values that only a restart changes.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Keys or trust of a listener cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Publisher {
    /// Applies a configuration that was read again, as far as that needs no restart,
    /// and reads TLS keys and trust again. Returns the names of the changed keys. An error changes
    /// nothing. Blocks for files.
    pub(crate) fn reload(&self, fresh: &BrokerConfig) -> Result<Differences, ReloadError> {
        self.metadata.hold(|image| {
            let (config, differences) = self.config.load().reloaded(fresh)?;
            // Only a check: `Tls::reload` keeps the former stores if it cannot use a file.
            Tls::load(&config, Some(&self.tls))?;
            self.config.replace(config);
            self.tls.reload(&self.config.load());
            self.apply_group_configs(image);
            image.topics().iter().for_each(|topic| self.apply_topic_config(image, topic));
            self.follow_all();
            Ok(differences)
        })
    }

    /// Applies the configuration that the image has for this broker, and reads TLS keys and
    /// trust again.
    pub(super) fn apply_broker_config(&self, image: &Image) {
        let none = Values::new();
        let stored = |resource| image.configs(&resource).map_or(&none, |values| &**values);
        let config = self.config.load();
        let own = stored(ConfigResource::broker(config.node_id));
        match config.with_stored(own, stored(ConfigResource::all_brokers())) {
            Ok(config) => {
                self.config.replace(config);
                self.tls.reload(&self.config.load());
            }
            Err(error) => {
                tracing::error!(%error, "cannot apply the broker configuration; the previous one stays in force")
            }
        }
    }

    /// Passes the settings of groups to the coordinators and to the leaders of shared partitions.
    pub(super) fn apply_group_configs(&self, image: &Image) {
        let config = self.config.load();
        let groups = image.config_resources().filter(|(resource, _)| resource.kind == ResourceKind::Group);
        let own = groups.map(|(resource, values)| {
            let own = OwnSetting {
                session_timeout_ms: config.own_session_timeout_ms(values),
                heartbeat_interval_ms: config.own_heartbeat_interval_ms(values),
                consumer_assignment_interval_ms: config.own_consumer_assignment_interval_ms(values),
                share_session_timeout_ms: config.own_share_session_timeout_ms(values),
                share_heartbeat_interval_ms: config.own_share_heartbeat_interval_ms(values),
                share_assignment_interval_ms: config.own_share_assignment_interval_ms(values),
                streams: own_streams(config.own_streams(values)),
            };
            (resource.name.clone(), own)
        });
        self.coordinators.own_settings_changed(OwnSettings {
            groups: own.collect(),
            consumer_assignment_interval_ms: Some(config.groups.consumer_assignment_interval_ms),
            share_assignment_interval_ms: Some(config.groups.share_assignment_interval_ms),
            streams_assignment_interval_ms: Some(config.groups.streams.assignment_interval_ms),
        });
        let groups = image.config_resources().filter(|(resource, _)| resource.kind == ResourceKind::Group);
        let own = groups.map(|(resource, values)| (resource.name.clone(), config.share_group(values)));
        let default = config.share_group(&Values::new());
        self.share_partitions.configure(default, own, are_dead_letters_permitted(image));
        warn_of_dead_letters(image);
    }

    /// Applies the configuration of the topic and of the broker to the topic's partitions.
    pub(super) fn apply_topic_config(&self, image: &Image, topic: &Topic) {
        let own = image.configs(&ConfigResource::topic(&**topic.name()));
        let broker = self.config.load();
        let config = Arc::new(topic_config(&broker, topic.name(), own.map(|own| &**own)));
        let log = log_config(&broker, &config);
        let partitions = self.replicas.partitions();
        for partition in topic.partitions().filter_map(|(index, _)| partitions.by_id(topic.id(), index)) {
            partition.configure(config.clone(), log.clone());
        }
    }
}

/// Writes a warning if groups name a topic for dead letters, and the level does not permit them.
fn warn_of_dead_letters(image: &Image) {
    if are_dead_letters_permitted(image) {
        return;
    }
    let groups = image.config_resources().filter(|(resource, values)| {
        let is_named = |values: &Values| values.get(DEAD_LETTER_TOPIC).is_some_and(|name| !name.is_empty());
        resource.kind == ResourceKind::Group && is_named(values)
    });
    let mut names: Vec<_> = groups.map(|(resource, _)| resource.name.clone()).collect();
    names.sort_unstable();
    if let Some(first) = names.first() {
        tracing::warn!(
            group = %first,
            groups = names.len(),
            "records that members reject get no dead letters: errors.deadletterqueue.topic.name has no effect below \
             share.version 2; levada cluster features upgrade share.version=2"
        );
    }
}

fn own_streams(own: StreamsGroupSettings) -> OwnStreamsSetting {
    OwnStreamsSetting {
        session_timeout_ms: own.session_timeout_ms,
        heartbeat_interval_ms: own.heartbeat_interval_ms,
        assignment_interval_ms: own.assignment_interval_ms,
        initial_rebalance_delay_ms: own.initial_rebalance_delay_ms,
        num_standby_replicas: own.num_standby_replicas,
        task_offset_interval_ms: own.task_offset_interval_ms,
        acceptable_recovery_lag: own.acceptable_recovery_lag,
        rack_aware_tags: own.rack_aware_tags,
    }
}
