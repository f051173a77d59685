//! The metadata of tiered storage: the segments of a partition that a remote store has.
//!
//! - [`segment`]: a remote segment, its identity and its states.
//! - [`record`]: the records of `__remote_log_metadata`, byte for byte as Kafka's.
//! - [`cache`]: the remote segments of one partition, by id and by leader epoch.
//! - [`copying`]: the reach of the copies of a log.
//! - [`expiry`]: the remote segments to delete.
//! - [`lineage`]: the test that a remote segment has records of a log's own history.
//! - [`location`]: the place and the layout of a remote store.
//!
//! Nothing here opens a file or a socket, starts a thread, or reads a clock.

pub mod cache;
pub mod copying;
pub mod expiry;
pub mod lineage;
pub mod location;
pub mod record;
pub mod segment;

pub use cache::{CacheError, SegmentCache};
pub use location::{Bucket, LocationError, StoreLayout, StoreLocation, StoreOptions};
pub use record::{RemoteRecord, RemoteRecordError, metadata_partition};
pub use segment::{
    PartitionDelete, PartitionDeleteState, RemoteSegment, RemoteSegmentId, SegmentState, SegmentUpdate,
    TopicIdPartition,
};
