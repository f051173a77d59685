//! Equipment of experiments: a workbench, payload, other processes and their use of the processor,
//! load, bare loops, TLS.

pub(crate) mod bench;
pub(crate) mod event_loop;
pub(crate) mod identity;
pub(crate) mod memory_sender;
pub(crate) mod pace;
pub(crate) mod payload;
pub mod peer;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod spliced;
pub(crate) mod tls_records;
