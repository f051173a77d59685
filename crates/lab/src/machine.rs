//! The measured machine: its processors, disturbances, profiles, and its description in a record.

pub mod cpu;
pub mod environment;
pub mod flame;
pub(crate) mod host_memory;
pub(crate) mod interrupt;
pub mod noise;
