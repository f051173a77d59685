//! The cluster's metadata as the running broker uses it: one published image, read without a lock,
//! which `publishing` replaces by the next one. This module does not depend on the origin of
//! images: `controller` makes them from the metadata log, or a cluster's controllers send them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use levada_log::checkpoint::MetaProperties;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::controller::TOPIC_NAME_BYTES_MAX;
use crate::image::Image;

/// The published image, and the identity of cluster and data directory.
pub struct Metadata {
    published: ArcSwap<Image>,
    /// Held by the thread that replaces the image, and by threads that act on it.
    replacing: Mutex<()>,
    identity: MetaProperties,
}

impl Metadata {
    /// An empty image, until the first one is published.
    pub fn new(identity: MetaProperties) -> Self {
        let published = ArcSwap::from_pointee(Image::empty());
        Self { published, replacing: Mutex::default(), identity }
    }

    /// The image as of now; it stays as it is, later changes are in later images.
    pub fn image(&self) -> Arc<Image> {
        self.published.load_full()
    }

    /// True if there is such a partition, be it served or offline.
    pub fn has_partition(&self, topic: &str, index: i32) -> bool {
        topic.len() <= TOPIC_NAME_BYTES_MAX
            && self.image().topic(topic).is_some_and(|topic| topic.partition(index).is_some())
    }

    /// An image that is published, of the records up to this offset.
    pub fn cluster_id(&self) -> &str {
        &self.identity.cluster_id
    }

    /// The data directory's id.
    pub fn directory_id(&self) -> Uuid {
        Uuid::from_bytes(self.identity.directory_id)
    }

    /// Runs `act`, which updates the broker from the published image to the next one, and then
    /// publishes the latter. Only for the broker's `publishing`.
    ///
    /// # Panics
    /// If the next image is older than the published one.
    pub fn replace<T>(&self, next: &Image, act: impl FnOnce(&Image) -> T) -> T {
        let _alone = self.replacing.lock();
        let before = self.before(next);
        let acted = act(&before);
        self.published.store(Arc::new(next.clone()));
        acted
    }

    /// Like [`Metadata::replace`], but publishes the next image before its effects: other brokers
    /// have already shown it to clients.
    ///
    /// # Panics
    /// As there.
    pub fn replace_first<T>(&self, next: &Image, act: impl FnOnce(&Image) -> T) -> T {
        let _alone = self.replacing.lock();
        let before = self.before(next);
        self.published.store(Arc::new(next.clone()));
        act(&before)
    }

    /// The published image, which the next one must not precede.
    fn before(&self, next: &Image) -> Arc<Image> {
        let before = self.image();
        let (old, new) = (before.offset(), next.offset());
        assert!(old <= new, "an image at {new} follows one at {old}");
        before
    }

    /// Runs `act` on the published image, which cannot be replaced during the call.
    pub fn hold<T>(&self, act: impl FnOnce(&Image) -> T) -> T {
        let _alone = self.replacing.lock();
        act(&self.image())
    }
}
