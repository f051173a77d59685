//! Background work that the appending thread does not wait for.

use std::fmt;
use std::sync::Arc;

/// A closure that runs once.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Takes work that the appending thread does not wait for.
#[derive(Clone)]
pub struct Background(Arc<dyn Fn(Work) + Send + Sync>);

impl Background {
    /// Hands work to `spawn`, which does it on another thread, at some time, or not at all.
    pub fn new(spawn: impl Fn(Work) + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        (self.0)(Box::new(work));
    }
}

impl Default for Background {
    /// Runs everything immediately, on the calling thread.
    fn default() -> Self {
        Self::new(|work| work())
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Background")
    }
}
