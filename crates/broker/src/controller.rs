//! Requests to the controller: each change of the metadata is decided by `metadata::controller`, written to the metadata log, acted on
//! by `publishing`, and then visible in the published image. All of it happens off the shards, one change at a time.
//!
//! This broker is its own controller. A broker in a cluster asks another node the same questions.

use std::sync::Arc;

use crate::blocking::off_shard;
use crate::config::LiveConfig;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::Metadata;
use crate::metadata::controller::Refusal;
use crate::publishing::Publisher;
use crate::replica::Replicas;

mod access;
mod configs;
mod features;
mod producer_ids;
mod quotas;
mod rules;
mod topics;

pub(crate) use self::configs::ConfigChanges;
use self::producer_ids::ProducerIds;

/// The controller as the rest of the broker asks it.
pub(crate) struct Controller {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    replicas: Arc<Replicas>,
    publisher: Arc<Publisher>,
    producer_ids: ProducerIds,
}

impl Controller {
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        replicas: Arc<Replicas>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self { config, metadata, replicas, publisher, producer_ids: ProducerIds::default() }
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
