//! One TLS connection of a server: encrypted by this process, or by the kernel after the handshake.
//!
//! A [`TlsSession`] is rustls between received bytes and bytes to be sent, without a socket.
//! [`offer`] hands its keys to the kernel where the kernel has the suite; bytes that are sent or
//! spliced into the socket from then on leave encrypted.

mod kernel;
mod session;

pub use kernel::{KernelSession, Offload, RECORD_BYTES, offer};
pub use session::{Next, TlsSession};
