//! Bodies of the fuzz targets: a module for each, whose `run` checks one input and panics if it
//! finds a mistake. The folder `fuzz` outside this workspace has the programs for libFuzzer; here
//! the seeds of every target are a unit test.

pub mod batch;
pub mod checkpoints;
pub mod codecs;
mod damage;
pub mod directory;
pub mod embedded;
pub mod fetch;
pub mod fetch_answer;
pub mod frames;
pub mod http_head;
pub mod http_path;
pub mod http_range;
pub mod metadata;
pub mod partition;
pub mod plan;
pub mod produce;
pub mod properties;
pub mod proxy_header;
pub mod records;
pub mod requests;
pub mod sasl;
mod scratch;
pub mod telemetry;
pub mod tls;
pub mod transfer;

#[cfg(test)]
mod tests;
