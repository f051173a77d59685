//! A partition on disk, byte for byte as Apache Kafka lays it out; no sockets, no runtime, no clock.

pub mod batch;
pub mod compress;

mod config;
mod error;

pub use config::{LogConfig, TimestampType};
pub use error::{AppendError, LogError, ReadError};
