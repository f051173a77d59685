//! Tests of the whole coordinator share a driver; the simulation runs against it too.

pub(super) mod rig;
mod simulation;
