//! Plain values that the other crates of the broker use: record batches and their compression, the
//! texts of ids, moments, the pace of log lines, the parties whose requests share turns, and
//! characters that are no plain text.
//!
//! - [`batch`]: the header of a batch as a view, validation, records, and an encoder.
//! - [`compress`]: the four codecs, with bounded output.
//! - [`Append`]: a batch on its way into a log.
//! - [`id_text`], [`parse_id`]: an id of 128 bits as Kafka writes it.
//! - [`Now`]: a moment by both clocks; `levada_process::clock` reads it.
//! - [`log_pace`]: how many lines a client can make the broker write.
//! - [`Requester`]: the party that shares turns at something scarce.
//! - [`is_steering`]: characters that steer a terminal.
//!
//! Nothing here opens a file or a socket, starts a thread, or reads a clock.

mod append;
pub mod batch;
pub mod compress;
mod id;
pub mod log_pace;
mod moment;
mod requester;
mod steering;

pub use append::{ANY_LEADER_EPOCH, Append, Source};
pub use id::{IdBytes, id_text, parse_id};
pub use moment::Now;
pub use requester::Requester;
pub use steering::is_steering;
