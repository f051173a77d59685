//! Kafka's wire protocol.
