//! A blocking client of Kafka's protocol.

pub mod connection;

pub use self::connection::{Channel, Connection, ConnectionError, ConnectionOptions, OfferedVersions};
