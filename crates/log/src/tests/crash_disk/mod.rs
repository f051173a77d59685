//! Crashes of a disk, for tests of this crate and of those above it: a [`Recorder`] writes down the
//! changes of a directory, and a [`World`] derives from them the contents of the directory after a
//! crash. Needs the feature `testing`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod recorder;
mod world;

pub use recorder::{Op, Recorder};
pub use world::{Crash, Tree, World, lay_out};
