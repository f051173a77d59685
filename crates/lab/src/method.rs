//! The definition of an experiment, shared by the runner, the record and the experiments: cases,
//! metrics, limits, statistics.

pub(crate) mod experiment;
pub(crate) mod limits;
pub(crate) mod metric;
pub mod statistics;
pub(crate) mod times;
