//! The broker: its configuration, the state machines and servers behind its APIs, and its threads.

mod access;
mod api;
mod blocking;
mod broker;
pub mod clock;
#[expect(dead_code, reason = "the broker in a cluster, which uses it, follows")]
mod cluster;
pub mod config;
mod controller;
mod coordinator;
pub mod descriptors;
pub mod error_code;
mod error_map;
mod fetch_session;
pub mod group;
pub mod keystore;
mod log_pace;
pub mod loggers;
pub mod machine;
pub mod metadata;
pub mod offline;
mod pattern;
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
pub mod tls;
mod transaction;
mod transfers;
pub mod txn;
pub mod web;
