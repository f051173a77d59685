//! Lookups in the remote segments of a partition.

use super::RemoteReads;
use super::fault::Stop;

/// A lookup that is repeated until the cache has all parts that it needs.
pub(super) trait Query: Send + 'static {
    type Found: Send + 'static;

    /// The result, from the cached parts. May wait for the local disk, never for the store.
    ///
    /// # Errors
    /// The next part that is missing, or a failure.
    fn attempt(&self, reads: &RemoteReads) -> Result<Self::Found, Stop>;
}
