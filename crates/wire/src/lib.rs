//! Kafka's wire protocol.

pub mod primitives;
