//! Decisions, checked against what Kafka decides.
