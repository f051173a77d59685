//! Reasons for the end of a connection, as its log entry names them.

use std::time::Duration;

use levada_io::TransferError;
use levada_wire::frame::FrameError;

use super::receive::MEMORY_WAIT;
use crate::api::RequestError;
use crate::request_memory::newcomers::{ADDRESS_BYTES, ALL_BYTES};
use crate::server::auth_gate::AuthError;

/// The reason why a connection ends other than by the client's wish.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseReason {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot send the whole response: {0}")]
    Send(#[from] TransferError),
    #[error("connection lost: {0}")]
    Lost(#[from] std::io::Error),
    #[error(transparent)]
    AuthError(#[from] AuthError),
    #[error(
        "a request arrived too slowly: {received} bytes were received, too few within {} ms",
        limit.as_millis()
    )]
    Slow { received: usize, limit: Duration },
    #[error(
        "a request waited {} s for memory ({held_bytes} bytes are in use); raise queued.max.request.bytes",
        MEMORY_WAIT.as_secs()
    )]
    NoMemory { held_bytes: u64 },
    #[error(
        "unauthenticated clients hold too much request memory: this one needs {asked} bytes; the limit is one request, \
         or {ADDRESS_BYTES} bytes for its address and {ALL_BYTES} for all addresses"
    )]
    NewcomersFull { asked: usize },
    #[error("the connection was idle for longer than connections.max.idle.ms ({} ms)", limit.as_millis())]
    Idle { limit: Duration },
}
