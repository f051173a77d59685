//! Dynamic changes of feature levels.

use std::sync::Arc;

use levada_metadata::controller::{FeatureUpdate, update_features};
use levada_wire::error_code::Failure;

use crate::controller::Controller;

impl Controller {
    /// Sets the levels of features, all of them or none.
    pub(crate) async fn update_features(
        self: &Arc<Self>,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), Failure> {
        self.off_shard(move |controller| {
            let config = controller.config.load();
            let facts = (config.node_id, config.first_min_insync_replicas());
            if validate_only {
                update_features(&controller.metadata.image(), facts, &updates)?;
                return Ok(());
            }
            controller.embedded()?.decide(|image| update_features(image, facts, &updates))
        })
        .await
    }
}
