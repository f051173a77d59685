//! Static files over HTTP/1.1, sent by the transfer engine.
//!
//! Parsing and deciding make no use of a socket: [`request`] reads a head, [`target`] brings its
//! path into one form, [`site`] and [`root`] find the file beneath the directory, [`condition`],
//! [`range`] and [`encoding`] say which bytes of it the client wants. Shards drive connections with
//! that: a small file leaves by one call together with its head, a large one by reference in turns,
//! and pages that are not in memory are waited for by other threads.
//!
//! The crate stands on `levada-io` and `levada-tls`, and on nothing else of this repository.

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
mod responder;
mod server;
mod serving;
mod shard;
mod signals;
mod socket;
mod stats;
mod stop;
mod timer;
mod tls;

pub use access_log::{LogFormat, LogOptions};
pub use listen::Address;
pub use server::{Config, SEND_TIME, Server, StartError};
pub use signals::{Signal, Signals};
pub use site::{CacheRule, SiteError, SiteOptions};
pub use stats::Stats;
pub use tls::{TlsError, TlsOptions};
