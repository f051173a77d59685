//! Notices of storage failures, for a watcher of the device that several logs share, and its
//! decision if the logs accept records.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::LogError;

/// The work during which an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedWork {
    /// An append, or the beginning of a leader epoch: the log does not accept records.
    Append,
    /// Any other operation.
    Other,
}

/// The function of a watch.
type Tell = dyn Fn(&LogError, FailedWork) + Send + Sync;

/// A callback for each error of a file operation that leaves a log in doubt, or that a reader or a
/// writer received. It must not wait, and must not use the log.
#[derive(Clone, Default)]
pub struct FailureWatch {
    tell: Option<Arc<Tell>>,
    refuses: Arc<AtomicBool>,
}

impl FailureWatch {
    /// Calls `tell` with each error. While `refuses` is true, the logs accept no records.
    pub fn new(
        tell: impl Fn(&LogError, FailedWork) + Send + Sync + 'static,
        refuses: Arc<AtomicBool>,
    ) -> Self {
        Self { tell: Some(Arc::new(tell)), refuses }
    }

    pub(crate) fn tell(&self, error: &LogError, work: FailedWork) {
        if let Some(tell) = &self.tell {
            tell(error, work);
        }
    }

    pub(crate) fn refuses_records(&self) -> bool {
        self.refuses.load(Ordering::Acquire)
    }
}

impl fmt::Debug for FailureWatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("FailureWatch")
    }
}
