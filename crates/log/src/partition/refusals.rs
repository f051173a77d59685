//! Records that a log does not accept, and errors of its storage.

use super::Partition;
use crate::LogError;
use crate::refused::Passing;
use crate::watch::FailedWork;

impl Partition {
    /// Notes a batch that was refused for a reason that passes. Later batches of its producer are
    /// refused for the same reason until the producer sends this one again.
    pub fn note_refused(&self, records: &[u8], reason: Passing) {
        self.refused.note(records, reason);
    }

    /// Forgets the refused batches of a producer, whose transaction ends.
    pub fn forget_refused(&self, producer_id: i64) {
        self.refused.forget(producer_id);
    }

    /// Reports an error to the watch of the storage; the log may be usable again after it.
    pub fn report_failure(&self, error: &LogError) {
        self.watch.load().tell(error, FailedWork::Other);
    }

    /// Reports an error by which an append, or the beginning of a leader epoch, was refused.
    pub fn report_refused_append(&self, error: &LogError) {
        self.watch.load().tell(error, FailedWork::Append);
    }

    /// True while the storage of the log accepts no records.
    pub fn refuses_records(&self) -> bool {
        self.watch.load().refuses_records()
    }
}
