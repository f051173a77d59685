//! Notice of storage failures, for those who watch the device that several logs share.

use std::fmt;
use std::sync::Arc;

use crate::LogError;

/// The function of a watch.
type Tell = dyn Fn(&LogError) + Send + Sync;

/// A function that is called with each error of a file operation after which a log is in doubt, or
/// that a reader or a writer got. It must not wait, and must not use the log.
#[derive(Clone, Default)]
pub struct FailureWatch(Option<Arc<Tell>>);

impl FailureWatch {
    /// Calls `tell` with each error.
    pub fn new(tell: impl Fn(&LogError) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, error: &LogError) {
        if let Some(tell) = &self.0 {
            tell(error);
        }
    }
}

impl fmt::Debug for FailureWatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("FailureWatch")
    }
}
