//! Dynamic changes of configuration: the decision is written to the metadata log first, then the
//! logs and the broker apply it, then the new image is published.

use std::sync::Arc;

use crate::controller::{Controller, flatten};
use crate::error_code::Failure;
use crate::metadata::controller::{AlterConfig, Decision, NewValue, Refusal, alter_configs, replace_configs};
use crate::metadata::image::{ConfigResource, Image};

/// Changes of the configuration of several resources.
pub(crate) enum ConfigChanges {
    /// Single keys change.
    Single(Vec<(ConfigResource, Vec<AlterConfig>)>),
    /// Everything that is set is replaced.
    Whole(Vec<(ConfigResource, Vec<NewValue>)>),
}

impl ConfigChanges {
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
            controller.embedded.change(|image| controller.decide_configs(image, &changes))
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
