//! Static files over HTTP/1.1, sent by the transfer engine.
//!
//! Parsing and decisions use no socket: [`request`] reads a head, [`target`] normalises its path,
//! [`site`] and [`root`] find the file beneath the directory, and [`condition`], [`range`] and
//! [`encoding`] select its bytes for the client. Shards drive connections: a small file leaves with
//! its head by one call, a large one by reference in turns, and other threads wait for pages that
//! are not in memory.
//!
//! The crate depends on `levada-io`, `levada-tls` and `levada-process`, and on no crate of the
//! broker alone.

pub mod condition;
pub mod encoding;
pub mod proxy;
pub mod range;
pub mod request;
pub mod root;
pub mod site;
pub mod target;

mod access_log;
mod answer;
mod cache;
mod clock;
mod connection;
mod connection_limits;
mod entry;
mod listen;
mod listing;
mod media;
mod metrics;
mod outgoing;
mod page;
mod responder;
mod server;
mod serving;
mod shard;
mod signals;
mod socket;
mod stats;
mod timer;
mod tls;

pub use access_log::{LogFormat, LogOptions};
pub use listen::Address;
pub use server::{CONNECTIONS_MAX, Config, SEND_TIME, Server, StartError};
pub use signals::{Signal, Signals};
pub use site::{CacheRule, SiteError, SiteOptions};
pub use stats::Stats;
pub use tls::{TlsError, TlsOptions};
