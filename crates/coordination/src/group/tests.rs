//! Parts that tests of groups share, and a simulation of whole lives of groups.

pub(in crate::group) mod rig;
mod simulation;
