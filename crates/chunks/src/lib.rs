//! Parts of remote segments in local files, for reads of records that have left the disk.
//!
//! - [`Cache`]: a directory of bounded size. A missing part is fetched once, however many readers
//!   request it; a read that goes through a log once does not displace the parts that others
//!   repeat.
//! - [`search`]: from an offset or a timestamp to batches, by the indexes and batches of a segment.
//!
//! A part is a file of its own, so that its eviction is the removal of a name: a response that is
//! on its way keeps the open file. Callers block on the disk and on the fetch; nothing here starts
//! a thread, opens a socket or reads a clock.

mod cache;
mod key;
mod ledger;
pub mod search;
mod trailer;

pub use cache::{Cache, CacheCounts, Chunk, ChunkError, Opened};
pub use key::{CHUNK_BYTES, ChunkKey, Part};
pub use ledger::Pattern;
