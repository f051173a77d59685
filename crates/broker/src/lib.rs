//! The broker.
pub mod group;
