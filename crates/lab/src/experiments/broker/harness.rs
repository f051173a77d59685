//! The common parts of broker experiments: the processes to measure, a client, topics, load, and
//! the floor for comparison.

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod coordinator;
pub(crate) mod floor;
pub(crate) mod frames;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod replay;
pub(crate) mod share;
pub(crate) mod tiers;
pub(crate) mod topic;
