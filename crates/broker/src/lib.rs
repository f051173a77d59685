//! The broker: its configuration, the state machines and servers behind its APIs, and its threads.

mod access;
mod api;
mod blocking;
mod broker;
pub mod clock;
mod cluster;
pub mod config;
mod controller;
mod coordinator;
pub mod descriptors;
pub mod error_code;
mod error_map;
mod fetch_session;
mod fetchers;
pub mod group;
pub mod keystore;
#[cfg(test)]
mod log_fields;
mod log_pace;
pub mod loggers;
pub mod machine;
pub mod metadata;
pub mod offline;
mod pattern;
mod peers;
mod publishing;
mod quota;
mod record_json;
mod replay;
mod replica;
mod request_memory;
pub mod security;
#[cfg(test)]
mod seeds;
pub mod server;
mod shutdown;
mod stats;
pub mod tasks;
mod time_slice;
pub mod tls;
mod transaction;
mod transfers;
pub mod txn;
pub mod web;
