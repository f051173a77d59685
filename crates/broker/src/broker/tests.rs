//! A broker without connections.

mod crash;
mod recovering;
