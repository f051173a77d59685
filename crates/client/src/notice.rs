//! Events of a wait or of a reader that a caller may report to people, and the end of a wait.

/// Receiver of events while a caller waits.
pub trait Watch<E> {
    /// True once the wait should end.
    fn is_asked_to_stop(&self) -> bool;

    /// Reports an event.
    fn notice(&self, notice: Notice<'_, E>);
}

/// The caller that never stops, and reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl<E> Watch<E> for Unwatched {
    fn is_asked_to_stop(&self) -> bool {
        false
    }

    fn notice(&self, _: Notice<'_, E>) {}
}

/// Event that a client reports to its watcher.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a, E> {
    /// The connection was lost, and is made again: once in each outage.
    Lost(&'a E),
    /// A broker has refused requests for some seconds; they are repeated.
    Refused(&'a E),
    /// A connection has replaced the lost one.
    Connected,
    /// Records of this batch wait for their partition for some seconds.
    Waits {
        /// The batch that is not acknowledged yet.
        batch: &'a BatchLabel,
        /// The last failure.
        error: &'a E,
    },
    /// Batches of a partition were abandoned.
    NotAcknowledged {
        /// The records of the batches.
        batch: &'a BatchLabel,
        /// The broker may have stored some of them.
        is_in_doubt: bool,
    },
    /// A batch was not sent when the producer was dropped after a failure.
    NotSent {
        /// The batch.
        batch: &'a BatchLabel,
    },
    /// The log no longer has the records at a reader's position.
    Deleted {
        /// Partition and its topic.
        place: Place<'a>,
        /// Position of the consumer, which the log no longer contains.
        position: i64,
        /// The new position: the start of the log.
        start: i64,
    },
    /// The log ends before a reader's position, and the reader continues at its end.
    Beyond {
        /// Partition and its topic.
        place: Place<'a>,
        /// Position of the consumer, which is after the log end.
        position: i64,
        /// The new position: the end of the log.
        end: i64,
    },
    /// The log has become shorter than the end up to which a reader reads.
    Shortened {
        /// Partition and its topic.
        place: Place<'a>,
        /// Log end offset after the truncation.
        end: i64,
    },
}

/// A topic's name and a partition's number.
pub type Place<'a> = (&'a str, i32);

/// The records of one batch or several, by the numbers that the caller assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLabel {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Number of records.
    pub records: u64,
    /// Number of the first record.
    pub first: u64,
    /// Number of the last record.
    pub last: u64,
}
