//! Records against the bytes of a real Kafka.
