//! Remote stores of tiered storage: a directory or an object store with the segments of partitions.
//!
//! [`Store`] writes, reads, deletes and lists the objects of segments. All of its functions block,
//! so that only threads call them that may wait for a network. Layouts name the objects of a
//! segment: those of Aiven's plug-in for Apache Kafka, and those of Kafka's own
//! `LocalTieredStorage`.
//!
//! A reader finds an object whole or not at all, and the last object of a segment is written last.
//! The length of an object is checked before memory is allocated for it.

mod audit;
mod cloud;
mod directory;
mod error;
mod found;
mod layout;
mod objects;
mod owner;
#[cfg(feature = "testing")]
mod stand_in;
mod store;

pub use audit::{Audit, Inventory, audit};
pub use cloud::Variables;
pub use error::{RemoteError, RemoteErrorKind};
pub use found::{FoundSegment, FoundSegments};
pub use layout::IndexKind;
pub use levada_tiered::StoreOptions;
pub use objects::ObjectEntry;
#[cfg(feature = "testing")]
pub use stand_in::{StandIn, StoreChange};
pub use store::{SegmentFile, SegmentFiles, Store};
