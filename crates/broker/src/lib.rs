//! The broker: the APIs of Kafka's protocol, what they act on, and the threads that serve them.
//!
//! A room is a module with one type that owns the state of a subject. Each room uses only rooms
//! below it:
//!
//! - [`server`]: threads, listeners, connections, start and stop. [`desk`]: requests of the process
//!   itself, such as those of the console's pages. [`source`]: the state for scrapes.
//! - `api`: one file for each API; authorization checks, quotas, the audit log.
//! - `broker`: the list of rooms; opens them, looks after them, closes them.
//! - `transaction`: verification and markers. `controller`: changes of the metadata, decided here
//!   or sent to the controllers of a cluster. `publishing`: a new image takes effect.
//! - `coordinator`: the host of the machines of [`levada_coordination`]. `cluster`, `fetchers`,
//!   `peers`: threads with connections to other nodes. `end_offsets`: questions to leaders.
//! - `replica`: logs and their leadership: the order of appends (`lane`), what an acknowledgement
//!   waits for (`durability`, `led`), long polls, recovery, retention, compaction, moves.
//! - `remote_reads`: records that only remote storage has, through the local cache.
//! - `access`, `quota`, [`tls`], `transfers`, `replay`, `turns`, `stats`, `request_memory`,
//!   `fetch_session`, `live_config`, `streams_topics`, [`loggers`]: single subjects that many rooms
//!   use.
//! - [`offline`]: data directories that no broker uses.
//!
//! ARCHITECTURE.md has the lives of a fetch and of a produce request through these rooms.

mod access;
mod api;
mod broker;
mod cluster;
mod controller;
mod coordinator;
pub mod desk;
mod encoded_topics;
mod end_offsets;
mod error_map;
mod fetch_session;
mod fetchers;
mod group_work;
mod live_config;
pub mod loggers;
pub mod offline;
mod peers;
mod publishing;
mod quota;
mod remote_reads;
mod replay;
mod replica;
mod request_memory;
pub mod server;
mod share;
mod share_partitions;
pub mod source;
mod stats;
mod streams_topics;
mod telemetry;
mod tiered;
mod time_slice;
pub mod tls;
mod transaction;
mod transfers;
mod turns;
