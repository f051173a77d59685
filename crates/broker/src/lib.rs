//! The broker: what it is told, the state machines and servers behind its APIs, and how it runs.

mod api;
mod blocking;
mod broker;
mod cleaner;
pub mod clock;
pub mod config;
mod coordination;
pub mod descriptors;
mod durability;
pub mod error_code;
mod error_map;
mod fetch_session;
pub mod group;
mod groups;
mod lane;
pub mod metadata;
mod partition;
mod pattern;
mod quota;
mod replay;
mod request_memory;
pub mod security;
#[cfg(test)]
mod seeds;
pub mod server;
mod shutdown;
mod stats;
pub mod storage;
pub mod stores;
pub mod tls;
pub mod txn;
mod txns;
mod waiters;
pub mod web;
