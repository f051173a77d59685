//! Cluster metadata: the KRaft records, the image that they add up to, the decisions that produce
//! new records, and the `__cluster_metadata-0` log that stores them.
//!
//! ```text
//! request → controller (pure: image in, records out) → store (append, flush) → image (apply) → published
//! ```

pub mod controller;
mod error_map;
pub mod features;
pub mod image;
mod published;
pub mod records;
pub mod store;
pub mod uuid;

pub use self::published::Metadata;
