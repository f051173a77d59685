//! Levels of features while the broker runs.

use std::sync::Arc;

use crate::broker::Broker;
use crate::error_code::Failure;
use crate::metadata::controller::{FeatureUpdate, update_features};

impl Broker {
    /// Sets the levels of features, all of them or none.
    pub(crate) async fn update_features(
        self: &Arc<Self>,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), Failure> {
        self.off_shard(move |broker| {
            let quorum = (broker.node_id(), broker.metadata.kraft_version());
            if validate_only {
                update_features(&broker.metadata.image(), quorum, &updates)?;
                return Ok(());
            }
            broker.metadata.decide(|image| update_features(image, quorum, &updates))
        })
        .await
    }
}
