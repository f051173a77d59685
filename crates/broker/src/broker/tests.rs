//! A broker without connections.

mod crash;
mod idle;
mod recovering;
mod reindexing;
