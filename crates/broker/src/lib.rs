//! The broker: what it is told, and the state machines and servers behind its APIs.

pub mod config;
pub mod group;
pub mod metadata;
pub mod web;
