//! The broker: what it is told, the state machines and servers behind its APIs, and how it runs.

mod api;
mod broker;
mod cleaner;
pub mod clock;
pub mod config;
mod coordination;
mod durability;
pub mod error_code;
mod fetch_session;
pub mod group;
mod groups;
mod lane;
pub mod metadata;
mod partition;
mod pattern;
mod quota;
mod replay;
pub mod security;
pub mod server;
pub mod storage;
pub mod stores;
pub mod txn;
mod txns;
mod waiters;
pub mod web;
