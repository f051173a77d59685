//! Changing configuration while the broker runs: the decision goes into the metadata log first, then every log and the broker
//! itself go by it, then the image that has it is published.

use std::sync::Arc;

use crate::controller::{Controller, flatten};
use crate::error_code::Failure;
use crate::metadata::controller::{AlterConfig, Decision, NewValue, Refusal, alter_configs, replace_configs};
use crate::metadata::image::{ConfigResource, Image};

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

impl Controller {
    /// Changes each resource or refuses to; results in the order of `changes`.
    pub(crate) async fn change_configs(
        self: &Arc<Self>,
        changes: ConfigChanges,
        validate_only: bool,
    ) -> Vec<Result<(), Failure>> {
        let count = changes.resources().len();
        let changed = self.off_shard(move |controller| {
            if validate_only {
                return Ok(controller.decide_configs(&controller.metadata.image(), &changes).outcome);
            }
            controller.metadata.change(
                |image| controller.decide_configs(image, &changes),
                |next, _| {
                    controller.publisher.apply_configs(next, &changes.resources());
                    Ok(())
                },
            )
        });
        flatten(changed.await, count)
    }

    fn decide_configs(&self, image: &Image, changes: &ConfigChanges) -> Decision<Vec<Result<(), Refusal>>> {
        let config = self.config.load();
        match changes {
            ConfigChanges::Single(changes) => alter_configs(image, changes, &**config),
            ConfigChanges::Whole(changes) => replace_configs(image, changes, &**config),
        }
    }
}
