//! Requests to the controller: all changes of the metadata by this broker. No other code changes
//! the metadata.
//!
//! `embedded` is the controller itself: `metadata::controller` decides each change, the metadata
//! log stores it, `publishing` applies it, and then the published image shows it. All of this
//! happens off the shards, one change at a time. The other files check the conditions of a request
//! that are not in the image.
//!
//! A broker in a cluster has a `remote` controller instead: clients' requests for changes are
//! forwarded without decoding. The broker's own requests are the creation of topics that clients
//! need and the allocation of producer ids.

use std::sync::Arc;

use levada_base::Requester;
use levada_metadata::Metadata;
use levada_metadata::controller::{Node, Refusal};
use levada_metadata::image::Image;
use levada_metadata::store::{Store, StoreError};
use levada_process::turns::Turns;
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};

use crate::live_config::LiveConfig;
use crate::publishing::Publisher;

mod access;
mod configs;
mod embedded;
mod features;
mod producer_ids;
mod quotas;
mod remote;
mod rules;
mod tokens;
mod topics;
mod unregister;

pub(crate) use self::configs::ConfigChanges;
use self::embedded::Embedded;
use self::producer_ids::ProducerIds;
pub(crate) use self::remote::{ActiveController, ClientRequest, Creator, Remote};
pub(crate) use self::rules::ByConfig;
use self::tokens::TokenSweep;
pub(crate) use self::topics::{Created, remote_log_metadata_configs};

/// Threads for changes. One of them makes a change, the others check theirs at the same time. All
/// further changes wait without a thread.
const THREADS_MAX: usize = 4;

/// The interface of the controller for the rest of the broker.
pub(crate) struct Controller {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    backend: Backend,
    producer_ids: ProducerIds,
    token_sweep: TokenSweep,
    threads: Turns,
}

/// The component that decides changes: in this process, or the controllers of a cluster.
enum Backend {
    Embedded(Box<Embedded>),
    Remote(Remote),
}

impl Controller {
    /// The controller of a broker without a cluster.
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        publisher: Arc<Publisher>,
        store: Store,
    ) -> Self {
        let backend = Backend::Embedded(Box::new(Embedded::new(store, publisher)));
        Self::with(config, metadata, backend)
    }

    /// The controller of a broker in a cluster.
    pub(crate) fn of_cluster(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        active: Arc<dyn ActiveController>,
    ) -> Self {
        let backend = Backend::Remote(Remote::new(active));
        Self::with(config, metadata, backend)
    }

    fn with(config: Arc<LiveConfig>, metadata: Arc<Metadata>, backend: Backend) -> Self {
        let (producer_ids, token_sweep) = (ProducerIds::default(), TokenSweep::new());
        Self { config, metadata, backend, producer_ids, token_sweep, threads: Turns::of(THREADS_MAX) }
    }

    /// The controller of the cluster, if that is another process.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match &self.backend {
            Backend::Embedded(_) => None,
            Backend::Remote(remote) => Some(remote),
        }
    }

    /// True if another process is the controller.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote().is_some()
    }

    /// The controller in this process.
    ///
    /// # Errors
    /// NOT_CONTROLLER if another process is the controller: requests of clients go there before
    /// they get here.
    fn embedded(&self) -> Result<&Embedded, Failure> {
        match &self.backend {
            Backend::Embedded(embedded) => Ok(embedded),
            Backend::Remote(_) => Err(ErrorCode::NotController.into()),
        }
    }

    /// Writes the registration of this node, and returns the first image. In a cluster the
    /// membership registers the node, and the image is the published one. Blocks.
    pub(crate) fn register(&self, node: &Node) -> Result<Image, StoreError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.register(node),
            Backend::Remote(_) => Ok((*self.metadata.image()).clone()),
        }
    }

    /// Records that this node no longer serves; in a cluster the controlled shutdown has done that.
    /// Blocks.
    pub(crate) fn retreat(&self) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Embedded(embedded) => embedded.retreat(self.config.load().node_id),
            Backend::Remote(_) => Ok(()),
        }
    }

    /// Records the directories of partitions that entered service; in a cluster the membership
    /// reports them. Blocks.
    pub(crate) fn record_directories(&self) {
        if let Backend::Embedded(embedded) = &self.backend {
            embedded.record_directories();
        }
    }

    /// Records that these directories are left, after others have failed; in a cluster the
    /// membership reports that. Blocks.
    pub(crate) fn lose_directories(&self, left: &[Uuid]) {
        if let Backend::Embedded(embedded) = &self.backend {
            embedded.lose_directories(left);
        }
    }

    /// Keeps the metadata log of this process short. Blocks.
    pub(crate) fn shorten(&self) {
        if let Backend::Embedded(embedded) = &self.backend {
            embedded.shorten();
        }
    }

    /// Runs `work` on one of a few threads that may block, so that no shard blocks. Work that has
    /// begun continues even if its request is cancelled.
    async fn off_shard<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let controller = self.clone();
        self.threads.run(Requester::Broker, move || work(&controller)).await
    }
}

/// Converts a failure of the whole change to one for each item.
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

#[cfg(test)]
mod tests;
