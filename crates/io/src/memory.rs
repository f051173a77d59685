//! Transfers of memory: sent by reference through a ring or by `MSG_ZEROCOPY`, and read from files
//! through a ring beforehand.
//!
//! ```text
//!   files ── inflow ──► MemoryPiece ──► outbox ────► ring ──► socket
//!                                       │ runs::cut: copied, or by reference
//!                            Bytes ──► zerocopy ───────────► socket
//! ```

pub mod inflow;
pub mod outbox;
mod piece;
pub mod runs;
pub mod zerocopy;

pub use piece::MemoryPiece;
