//! Requests to the controller: all that this broker wants changed in the metadata. Nobody else
//! changes it.
//!
//! `embedded` is the controller itself: each change is decided by `metadata::controller`, written
//! to the metadata log, acted on by `publishing`, and then visible in the published image. All of
//! it happens off the shards, one change at a time. The other files check what a request needs
//! besides the image. A broker in a cluster puts the same requests to another node.

use std::sync::Arc;

use crate::blocking::off_shard;
use crate::config::LiveConfig;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::Metadata;
use crate::metadata::controller::{Node, Refusal};
use crate::metadata::image::Image;
use crate::metadata::store::{Store, StoreError};
use crate::publishing::Publisher;

mod access;
mod configs;
mod embedded;
mod features;
mod producer_ids;
mod quotas;
mod rules;
mod topics;

pub(crate) use self::configs::ConfigChanges;
use self::embedded::Embedded;
use self::producer_ids::ProducerIds;

/// The controller as the rest of the broker asks it.
pub(crate) struct Controller {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    embedded: Embedded,
    producer_ids: ProducerIds,
}

impl Controller {
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        publisher: Arc<Publisher>,
        store: Store,
    ) -> Self {
        Self {
            config,
            metadata,
            embedded: Embedded::new(store, publisher),
            producer_ids: ProducerIds::default(),
        }
    }

    /// Records that this node serves, and returns the image to begin with. Blocks.
    pub(crate) fn register(&self, node: &Node) -> Result<Image, StoreError> {
        self.embedded.register(node)
    }

    /// Records that this node no longer serves. Blocks.
    pub(crate) fn retreat(&self) -> Result<(), StoreError> {
        self.embedded.retreat(self.config.load().node_id)
    }

    /// Keeps the metadata log short. Blocks.
    pub(crate) fn shorten(&self) {
        self.embedded.shorten();
    }

    /// Runs `work` on a thread that may block, so that no shard does.
    async fn off_shard<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let controller = self.clone();
        off_shard(move || work(&controller)).await
    }
}

/// One failure of the whole change becomes one for each item.
fn flatten<T>(results: Result<Vec<Result<T, Refusal>>, Failure>, count: usize) -> Vec<Result<T, Failure>> {
    match results {
        Ok(results) => results.into_iter().map(|result| result.map_err(Failure::from)).collect(),
        Err(failure) => (0..count).map(|_| Err(failure.clone())).collect(),
    }
}

/// Outcome of a metadata change for each item.
type Keyed<K, T, E> = Vec<(K, Result<T, E>)>;

/// Like [`flatten`], for results that name their item.
fn flatten_keyed<K, T>(results: Result<Keyed<K, T, Refusal>, Failure>, keys: Vec<K>) -> Keyed<K, T, Failure> {
    match results {
        Ok(results) => {
            results.into_iter().map(|(key, result)| (key, result.map_err(Failure::from))).collect()
        }
        Err(failure) => keys.into_iter().map(|key| (key, Err(failure.clone()))).collect(),
    }
}

fn storage_failure(error: levada_log::LogError) -> Failure {
    Failure::new(ErrorCode::KafkaStorageError, error.to_string())
}
