//! The broker: its configuration, the state machines and servers behind its APIs, and its threads.

mod access;
mod api;
mod broker;
mod cluster;
mod controller;
mod coordinator;
mod error_map;
mod fetch_session;
mod fetchers;
mod live_config;
pub mod loggers;
pub mod offline;
mod peers;
mod publishing;
mod quota;
mod replay;
mod replica;
mod request_memory;
pub mod server;
mod stats;
mod time_slice;
pub mod tls;
mod transaction;
mod transfers;
mod turns;
pub mod web;
