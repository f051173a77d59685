//! The experiments. Each lists cases that do the same work in different ways, and runs one of them
//! once.
//!
//! On the kernel's ways of moving bytes: [`transfer`] (from a file to a socket), [`send`] (from
//! memory), [`copy`] (from file to file), [`read`] (from a file), [`receive`] (from a socket to a
//! file), [`search`] (an offset in a segment). On the network loop of a server: [`loops`]. On
//! brokers: [`broker`]. On servers of static files: [`files`]. [`calibrate`] finds the thresholds
//! of this machine.

pub mod broker;
pub mod calibrate;
pub mod copy;
pub mod files;
mod idle_connections;
pub mod loops;
pub(crate) mod offer;
pub mod read;
pub mod receive;
pub mod search;
pub mod send;
pub mod transfer;
