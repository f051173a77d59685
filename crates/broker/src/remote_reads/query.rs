//! Questions that the remote segments of a partition answer.

use super::RemoteReads;
use super::fault::Stop;

/// A question that is repeated until the cache has all the parts for its answer.
pub(super) trait Query: Send + 'static {
    type Found: Send + 'static;

    /// The answer, by the parts that the cache has. May wait for the local disk, never for the
    /// store.
    ///
    /// # Errors
    /// The next part that is missing, or a failure.
    fn attempt(&self, reads: &RemoteReads) -> Result<Self::Found, Stop>;
}
