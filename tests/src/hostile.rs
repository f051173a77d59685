//! Requests that cost as much as a request of their size can, for every API and version: made from
//! the layouts in `tests/src/hostile/requests.txt`, one line for each run of versions with the same
//! fields.
//!
//! A line: key, name, versions, `plain` or `compact`, fields. A field: `name:type`; types are `i8`
//! to `i64`, `f64`, `bool`, `uuid`, `s` (string), `b` (bytes), `r` (records), `[…]` (array), `{…}`
//! (fields); `?` says that it may be null.

mod layout;
mod shape;
pub mod world;

pub use layout::{Layout, layouts};
pub use shape::{Shape, shapes};

/// The name of everything that there is: a topic, a group, a transactional id.
pub const KNOWN: &str = "known";

/// A consumer group with many members.
pub const CROWD: &str = "crowd";

/// Size of a hostile request.
pub const REQUEST_BYTES: usize = 1 << 20;
