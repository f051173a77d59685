//! Dynamic changes of configuration: the decision is written to the metadata log first, then the
//! logs and the broker apply it, then the new image is published.

use std::sync::Arc;

use levada_metadata::controller::{AlterConfig, Decision, NewValue, Refusal, alter_configs, replace_configs};
use levada_metadata::image::{ConfigResource, Image, ResourceKind};
use levada_wire::error_code::Failure;

use crate::controller::ByConfig;
use crate::controller::{Controller, flatten};

/// Changes of the configuration of several resources.
#[derive(Clone)]
pub(crate) enum ConfigChanges {
    /// Single keys change.
    Single(Vec<(ConfigResource, Vec<AlterConfig>)>),
    /// Everything that is set is replaced.
    Whole(Vec<(ConfigResource, Vec<NewValue>)>),
}

impl ConfigChanges {
    /// The resources, in order.
    pub(crate) fn resources(&self) -> Box<dyn Iterator<Item = &ConfigResource> + '_> {
        match self {
            Self::Single(changes) => Box::new(changes.iter().map(|(resource, _)| resource)),
            Self::Whole(changes) => Box::new(changes.iter().map(|(resource, _)| resource)),
        }
    }

    /// The changes of the resources for which `keep` is true, evaluated in order.
    pub(crate) fn filter(self, mut keep: impl FnMut(&ConfigResource) -> bool) -> Self {
        match self {
            Self::Single(mut changes) => {
                changes.retain(|(resource, _)| keep(resource));
                Self::Single(changes)
            }
            Self::Whole(mut changes) => {
                changes.retain(|(resource, _)| keep(resource));
                Self::Whole(changes)
            }
        }
    }

    /// The number of resources.
    fn count(&self) -> usize {
        match self {
            Self::Single(changes) => changes.len(),
            Self::Whole(changes) => changes.len(),
        }
    }
}

impl Controller {
    /// Changes each resource or refuses to; results in the order of `changes`.
    pub(crate) async fn change_configs(
        self: &Arc<Self>,
        changes: ConfigChanges,
        validate_only: bool,
    ) -> Vec<Result<(), Failure>> {
        let count = changes.count();
        let changed = self.off_shard(move |controller| {
            if validate_only {
                return Ok(controller.decide_configs(&controller.metadata.image(), &changes).outcome);
            }
            controller.embedded()?.change(|image| controller.decide_configs(image, &changes))
        });
        flatten(changed.await, count)
    }

    /// Checks the changes of brokers' settings without making them; results in the order of
    /// `changes`, where other resources pass.
    pub(crate) async fn check_brokers(self: &Arc<Self>, changes: &ConfigChanges) -> Vec<Result<(), Failure>> {
        let is_broker = |resource: &ConfigResource| resource.kind == ResourceKind::Broker;
        if !changes.resources().any(is_broker) {
            return vec![Ok(()); changes.count()];
        }
        let of_brokers = changes.clone().filter(is_broker);
        let mut checked = self.change_configs(of_brokers, true).await.into_iter();
        let result = |resource| if is_broker(resource) { checked.next().unwrap_or(Ok(())) } else { Ok(()) };
        changes.resources().map(result).collect()
    }

    fn decide_configs(&self, image: &Image, changes: &ConfigChanges) -> Decision<Vec<Result<(), Refusal>>> {
        let config = self.config.load();
        match changes {
            ConfigChanges::Single(changes) => alter_configs(image, changes, &ByConfig(&config)),
            ConfigChanges::Whole(changes) => replace_configs(image, changes, &ByConfig(&config)),
        }
    }
}
