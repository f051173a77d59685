//! The transfer engine: bytes from disk to network without lifting them, each counted under the path it took.
//!
//! It knows no Kafka and no async runtime.

pub mod map;

mod sys;
