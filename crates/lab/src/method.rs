//! What an experiment is, in words that the runner, the record and the experiments share: cases, metrics, limits, statistics.

pub(crate) mod experiment;
pub(crate) mod limits;
pub(crate) mod metric;
pub mod statistics;
pub(crate) mod times;
