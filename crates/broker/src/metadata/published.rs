//! The cluster's metadata as the running broker uses it: one published image, read without a lock, and one change at a time. A
//! change is flushed to the metadata log first, then its partitions enter service, then the image that has them is published.

use std::sync::Arc;

use arc_swap::ArcSwap;
use levada_log::checkpoint::MetaProperties;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::clock::now_ms;
use crate::metadata::controller::{Decision, Node, Refusal, TOPIC_NAME_BYTES_MAX, start_node, stop_node};
use crate::metadata::image::Image;
use crate::metadata::records::Record;
use crate::metadata::store::{Store, StoreError};

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
    pub(crate) fn new(store: Store) -> Self {
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

    /// True if there is such a partition, be it served or offline.
    pub(crate) fn has_partition(&self, topic: &str, index: i32) -> bool {
        topic.len() <= TOPIC_NAME_BYTES_MAX
            && self.image().topic(topic).is_some_and(|topic| topic.partition(index).is_some())
    }

    /// The quorum's own level.
    pub(crate) fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    pub(crate) fn cluster_id(&self) -> &str {
        &self.identity.cluster_id
    }

    /// The data directory's id.
    pub(crate) fn directory_id(&self) -> Uuid {
        Uuid::from_bytes(self.identity.directory_id)
    }

    /// Makes one change: `decide` says what to record, `serve` acts on the image that has it before
    /// anybody else sees it. Blocks for a flush of the metadata log.
    ///
    /// What is recorded stays recorded, also if `serve` fails.
    pub(crate) fn change<T, E: From<StoreError>>(
        &self,
        decide: impl FnOnce(&Image) -> Decision<T>,
        serve: impl FnOnce(&Image, &T) -> Result<(), E>,
    ) -> Result<T, E> {
        let mut store = self.store.lock();
        let outcome = store.update(now_ms(), |image, _| decide(image))?;
        let served = serve(store.image(), &outcome);
        self.publish(store.image());
        served.map(|()| outcome)
    }

    /// Replaces the published image. Only with the store locked.
    fn publish(&self, image: &Image) {
        let before = self.published.load().offset();
        assert!(before <= image.offset(), "an image at {} follows one at {before}", image.offset());
        self.published.store(Arc::new(image.clone()));
    }

    /// Acts on the image while nobody can change it.
    pub(crate) fn hold<T>(&self, act: impl FnOnce(&Image) -> T) -> T {
        act(self.store.lock().image())
    }

    /// Like [`Metadata::change`], for a decision that may be refused as a whole and that nothing waits for.
    pub(crate) fn decide<T, E: From<StoreError> + From<Refusal>>(
        &self,
        decide: impl FnOnce(&Image) -> Result<Decision<T>, Refusal>,
    ) -> Result<T, E> {
        let refusable = |image: &Image| match decide(image) {
            Ok(Decision { records, outcome }) => Decision { records, outcome: Ok(outcome) },
            Err(refusal) => Decision::nothing(Err(refusal)),
        };
        let decided: Result<T, Refusal> = self.change(refusable, |_, _| Ok::<(), E>(()))?;
        Ok(decided?)
    }

    /// Takes a snapshot of the metadata log if one is due, and removes what it makes superfluous. Changes wait for neither. Blocks.
    pub(crate) fn shorten(&self) {
        let _alone = self.shortening.lock();
        let due = self.store.lock().due_snapshot(now_ms());
        match due.and_then(|due| due.map(|due| due.write(now_ms())).transpose()) {
            Ok(None) => {}
            Ok(Some(end_offset)) => tracing::info!(end_offset, "metadata snapshot written"),
            Err(error) => {
                tracing::error!(%error, "cannot write a metadata snapshot; the metadata log keeps growing")
            }
        }
    }

    /// Records that this node serves.
    pub(crate) fn node_started(&self, node: &Node) -> Result<(), StoreError> {
        self.node_changed(|image, offset| start_node(image, node, offset))
    }

    /// Records that this node no longer serves.
    pub(crate) fn node_stopped(&self, node_id: i32) -> Result<(), StoreError> {
        self.node_changed(|image, _| stop_node(image, node_id))
    }

    fn node_changed(&self, decide: impl FnOnce(&Image, i64) -> Vec<Record>) -> Result<(), StoreError> {
        let mut store = self.store.lock();
        store.update(now_ms(), |image, offset| Decision { records: decide(image, offset), outcome: () })?;
        self.publish(store.image());
        Ok(())
    }
}
