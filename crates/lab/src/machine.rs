//! The machine that is measured on: its processors, what disturbs them, where time goes, and what of it stands in a record.

pub mod cpu;
pub mod environment;
pub mod flame;
pub(crate) mod host_memory;
pub(crate) mod interrupt;
pub mod noise;
