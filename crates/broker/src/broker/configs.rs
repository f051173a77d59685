//! Changing configuration while the broker runs: the decision goes into the metadata log first, then every log
//! and the broker itself go by it, then the image that has it is published.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::opening::log_config;
use crate::broker::topics::flatten;
use crate::config::Values;
use crate::error_code::Failure;
use crate::group::OwnSetting;
use crate::metadata::controller::{AlterConfig, Decision, NewValue, Refusal, alter_configs, replace_configs};
use crate::metadata::image::{ConfigResource, Image, ResourceKind};

/// What shall become of several resources' configuration.
pub(crate) enum ConfigChanges {
    /// Single keys change.
    Single(Vec<(ConfigResource, Vec<AlterConfig>)>),
    /// Everything that is set is replaced.
    Whole(Vec<(ConfigResource, Vec<NewValue>)>),
}

impl ConfigChanges {
    fn resources(&self) -> Vec<&ConfigResource> {
        match self {
            Self::Single(changes) => changes.iter().map(|(resource, _)| resource).collect(),
            Self::Whole(changes) => changes.iter().map(|(resource, _)| resource).collect(),
        }
    }
}

impl Broker {
    /// Changes each resource or refuses to; results in the order of `changes`.
    pub(crate) async fn change_configs(
        self: &Arc<Self>,
        changes: ConfigChanges,
        validate_only: bool,
    ) -> Vec<Result<(), Failure>> {
        let count = changes.resources().len();
        let changed = self.off_shard(move |broker| {
            if validate_only {
                return Ok(broker.decide_configs(&broker.metadata.image(), &changes).outcome);
            }
            broker.metadata.change(
                |image| broker.decide_configs(image, &changes),
                |next, _| {
                    broker.apply_configs(next, &changes.resources());
                    Ok(())
                },
            )
        });
        flatten(changed.await, count)
    }

    fn decide_configs(&self, image: &Image, changes: &ConfigChanges) -> Decision<Vec<Result<(), Refusal>>> {
        let config = self.config();
        match changes {
            ConfigChanges::Single(changes) => alter_configs(image, changes, &**config),
            ConfigChanges::Whole(changes) => replace_configs(image, changes, &**config),
        }
    }

    fn apply_configs(&self, image: &Image, changed: &[&ConfigResource]) {
        if changed.iter().any(|resource| resource.kind == ResourceKind::Group) {
            self.apply_group_configs(image);
        }
        if changed.iter().any(|resource| resource.kind == ResourceKind::Broker) {
            self.apply_broker_config(image);
            image.topics().iter().for_each(|topic| self.apply_topic_config(image, topic.name()));
            return;
        }
        for resource in changed.iter().filter(|resource| resource.kind == ResourceKind::Topic) {
            self.apply_topic_config(image, &resource.name);
        }
    }

    fn apply_broker_config(&self, image: &Image) {
        let none = Values::new();
        let stored = |resource| image.configs(&resource).map_or(&none, |values| &**values);
        let own = stored(ConfigResource::broker(self.node_id()));
        match self.config().with_dynamic(own, stored(ConfigResource::all_brokers())) {
            Ok(config) => {
                self.config.store(Arc::new(config));
                self.config_changed.send_replace(());
                self.tls.reload(&self.config());
            }
            Err(error) => tracing::error!(%error, "the broker configuration stays as it was"),
        }
    }

    /// Tells the coordinators what groups set for themselves.
    pub(super) fn apply_group_configs(&self, image: &Image) {
        let config = self.config();
        let groups = image.config_resources().filter(|(resource, _)| resource.kind == ResourceKind::Group);
        let own = groups.map(|(resource, values)| {
            let own = OwnSetting {
                session_timeout_ms: config.own_session_timeout_ms(values),
                heartbeat_interval_ms: config.own_heartbeat_interval_ms(values),
            };
            (resource.name.clone(), own)
        });
        self.groups.own_settings_changed(own.collect());
    }

    fn apply_topic_config(&self, image: &Image, name: &str) {
        let Some(topic) = image.topic(name) else { return };
        let own = image.configs(&ConfigResource::topic(name));
        let config = Arc::new(self.topic_config(name, own.map(|own| &**own)));
        let log = log_config(&self.config(), &config);
        for partition in topic.partitions().filter_map(|(index, _)| self.partitions.by_id(topic.id(), index))
        {
            partition.configure(config.clone(), log.clone());
        }
    }
}
