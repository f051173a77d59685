//! A broker without connections.

mod crash;
