//! A partition on disk, byte for byte as Apache Kafka lays it out, and the journal of a cluster's
//! metadata; no sockets, no runtime, no clock.

pub mod check;
pub mod checkpoint;
pub mod compact;
pub mod disk;
pub mod journal;

#[cfg(any(test, feature = "testing"))]
#[path = "tests/crash_disk/mod.rs"]
pub mod crash_disk;

mod background;
mod closed;
mod config;
mod epochs;
mod error;
mod index;
mod marks;
mod options;
mod partition;
mod producers;
mod progress;
mod recover;
mod refused;
mod retention;
mod segment;
mod watch;
mod writer;

pub use levada_base::{ANY_LEADER_EPOCH, Append, Source};

pub use background::Background;
pub use closed::{ClosedFiles, ClosedSegment};
pub use config::{AppendBy, LogConfig, OFFSET_MAX, Tiering, TimestampType};
pub use error::{AppendError, LogError, ReadError};
pub use options::OpenOptions;
pub use partition::{AbortedTransaction, BatchSpan, Partition, Slice, Times, TimestampOffset, outages};
pub use producers::ProducerState;
pub use recover::{Evidence, OpenReport, Reindexed, Shortfall, TruncatedTail};
pub use refused::Passing;
pub use watch::{FailedWork, FailureWatch};
pub use writer::{
    Appended, Destination, Discarded, ReplicaAppended, ReplicaSource, Retired, TieredState, Writer,
};
