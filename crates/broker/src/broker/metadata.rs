//! The cluster's metadata as the broker uses it: one image for everybody to read without a lock, and
//! one change at a time. A change is flushed first, then its partitions enter service, then the image
//! that has them is published.

use std::sync::Arc;

use arc_swap::ArcSwap;
use levada_log::checkpoint::MetaProperties;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::clock::now_ms;
use crate::error_code::Failure;
use crate::metadata::controller::{Decision, Node, Refusal, start_node, stop_node};
use crate::metadata::image::Image;
use crate::metadata::store::{OpenReport, Store, StoreError};
use crate::metadata::uuid;

/// The metadata log and the image it adds up to.
pub(crate) struct Metadata {
    store: Mutex<Store>,
    published: ArcSwap<Image>,
    identity: MetaProperties,
    kraft_version: i16,
    /// Held by whoever writes a snapshot.
    shortening: Mutex<()>,
}

impl Metadata {
    pub(super) fn new(store: Store) -> Self {
        let (published, identity) = (ArcSwap::from_pointee(store.image().clone()), store.identity().clone());
        Self {
            kraft_version: store.kraft_version(),
            store: Mutex::new(store),
            published,
            identity,
            shortening: Mutex::default(),
        }
    }

    /// The image as of now; it stays as it is, later changes are in later images.
    pub(crate) fn image(&self) -> Arc<Image> {
        self.published.load_full()
    }

    /// The quorum's own level.
    pub(super) fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    pub(super) fn cluster_id(&self) -> &str {
        &self.identity.cluster_id
    }

    /// The data directory's id.
    pub(crate) fn directory_id(&self) -> Uuid {
        uuid::loaded(self.identity.directory_id)
    }

    /// Makes one change: `decide` says what to record, `serve` acts on the image that has it before
    /// anybody else sees it. Blocks for a flush of the metadata log.
    ///
    /// What is recorded stays recorded, also if `serve` fails.
    pub(super) fn change<T>(
        &self,
        decide: impl FnOnce(&Image) -> Decision<T>,
        serve: impl FnOnce(&Image, &T) -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        let mut store = self.store.lock();
        let outcome = store.update(now_ms(), |image, _| decide(image))?;
        let served = serve(store.image(), &outcome);
        self.published.store(Arc::new(store.image().clone()));
        served.map(|()| outcome)
    }

    /// Acts on the image while nobody can change it.
    pub(super) fn hold<T>(&self, act: impl FnOnce(&Image) -> T) -> T {
        act(self.store.lock().image())
    }

    /// Like [`Metadata::change`], for a decision that may be refused as a whole and that nothing waits for.
    pub(super) fn decide<T>(
        &self,
        decide: impl FnOnce(&Image) -> Result<Decision<T>, Refusal>,
    ) -> Result<T, Failure> {
        let refusable = |image: &Image| match decide(image) {
            Ok(Decision { records, outcome }) => Decision { records, outcome: Ok(outcome) },
            Err(refusal) => Decision::nothing(Err(refusal)),
        };
        Ok(self.change(refusable, |_, _| Ok(()))??)
    }

    /// Takes a snapshot of the metadata log if one is due, and removes what it makes superfluous. Changes wait for neither. Blocks.
    pub(super) fn shorten(&self) {
        let _alone = self.shortening.lock();
        let due = self.store.lock().due_snapshot(now_ms());
        match due.and_then(|due| due.map(|due| due.write(now_ms())).transpose()) {
            Ok(None) => {}
            Ok(Some(end_offset)) => tracing::info!(end_offset, "snapshot of the metadata written"),
            Err(error) => tracing::error!(%error, "no snapshot of the metadata; the log goes on growing"),
        }
    }

    /// Records that this node serves.
    pub(super) fn node_started(&self, node: &Node) -> Result<(), StoreError> {
        self.node_changed(|image, offset| start_node(image, node, offset))
    }

    /// Records that this node no longer serves.
    pub(super) fn node_stopped(&self, node_id: i32) -> Result<(), StoreError> {
        self.node_changed(|image, _| stop_node(image, node_id))
    }

    fn node_changed(
        &self,
        decide: impl FnOnce(&Image, i64) -> Vec<crate::metadata::records::Record>,
    ) -> Result<(), StoreError> {
        let mut store = self.store.lock();
        store.update(now_ms(), |image, offset| Decision { records: decide(image, offset), outcome: () })?;
        self.published.store(Arc::new(store.image().clone()));
        Ok(())
    }
}

/// Says what a start found that should not have been.
pub(super) fn warn_of(report: &OpenReport) {
    if let Some(torn) = &report.torn {
        tracing::warn!(?torn, "the metadata log ended in a torn batch, which was cut off");
    }
    if let Some(error) = &report.passed_over {
        tracing::warn!(
            error,
            "a snapshot of the metadata is damaged; an older one and the log behind it are used"
        );
    }
}
