//! Refusals of batches.

use levada_wire::produce::RecordError;

use levada_wire::error_code::{ErrorCode, Failure};

/// The reason for the refusal of a batch, and its invalid records.
pub(super) struct Rejected {
    pub(super) failure: Failure,
    pub(super) errors: Vec<RecordError>,
    /// True if Kafka refuses the request before its log sees the batch.
    pub(super) is_unseen: bool,
}

impl<F: Into<Failure>> From<F> for Rejected {
    fn from(failure: F) -> Self {
        Self { failure: failure.into(), errors: Vec::new(), is_unseen: false }
    }
}

impl Rejected {
    pub(super) fn unseen(failure: impl Into<Failure>) -> Self {
        Self { is_unseen: true, ..Self::from(failure) }
    }

    /// True if the response contains the log start. As in Kafka, that is so if the log has judged
    /// the batch, except for these errors.
    pub(super) fn tells_log_start(&self) -> bool {
        let is_silent = matches!(
            self.failure.code,
            ErrorCode::CorruptMessage
                | ErrorCode::KafkaStorageError
                | ErrorCode::MessageTooLarge
                | ErrorCode::NotLeaderOrFollower
                | ErrorCode::RecordListTooLarge
                | ErrorCode::UnknownTopicOrPartition
        );
        !self.is_unseen && !is_silent
    }
}
