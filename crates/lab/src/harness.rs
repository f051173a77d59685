//! What experiments are set up with: a workbench, bytes to move, a second process at the other end, TLS records.

pub(crate) mod bench;
pub(crate) mod memory_sender;
pub(crate) mod payload;
pub mod peer;
pub(crate) mod tls_records;
