//! The queue of a transfer: its remaining pieces in order, and the progress in the first one.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;

use super::engine::Engine;
use super::plan::{Question, Source, Tls, plan};
use crate::path::SocketPath;
use crate::piece::{Extent, Piece};
use crate::pipe::Pipe;
use crate::residency::{self, Lead};

/// Maximum number of additional windows that a check covers if the socket has accepted all earlier
/// bytes.
const LOOKAHEAD_WINDOWS_MAX: u64 = 3;

/// Pieces that are not empty, the first of them partly sent.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that the socket has accepted.
    done: u64,
    /// Bytes of all pieces that it has not.
    remaining: u64,
    /// The path of the first piece once another one refused it.
    detour: Option<SocketPath>,
    /// Bytes of the first piece that are known to be in the cache, or were reported as cold.
    resident_bytes: u64,
    /// Number of bytes beyond its turn that the next check covers.
    lookahead: u64,
    /// Holds the next bytes of the first piece, if a short send left some in it.
    pipe: Option<Pipe>,
    /// Encryption that the plan has to consider.
    tls: Tls,
    /// True if the caller sends more after the last piece, or closes the socket.
    expects_more: bool,
    cork: Cell<Cork>,
}

/// State of the socket's option `TCP_CORK`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Cork {
    /// The kernel sends incomplete segments.
    #[default]
    Off,
    /// The kernel holds incomplete segments back.
    On,
    /// The socket is not a TCP socket.
    Unsupported,
}

impl Queue {
    pub(crate) fn new(tls: Tls, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let pieces: VecDeque<Piece> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let remaining = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.len()));
        Self { pieces, remaining, tls, ..Self::default() }
    }

    /// Appends a piece that is not empty.
    pub(crate) fn push(&mut self, piece: Piece) {
        if !piece.is_empty() {
            self.remaining = self.remaining.saturating_add(piece.len());
            self.pieces.push_back(piece);
        }
    }

    /// Sets if the caller sends more after the last piece, or closes the socket.
    pub(crate) fn expect_more(&mut self, is_expected: bool) {
        self.expects_more = is_expected;
    }

    /// Makes the kernel hold incomplete segments back, for calls that cannot announce further data.
    pub(crate) fn cork(&self, socket: BorrowedFd<'_>) {
        if self.cork.get() == Cork::Off {
            let is_set = rustix::net::sockopt::set_tcp_cork(socket, true).is_ok();
            self.cork.set(if is_set { Cork::On } else { Cork::Unsupported });
        }
    }

    /// Makes the kernel send an incomplete segment that [`Queue::cork`] holds back.
    pub(crate) fn uncork(&self, socket: BorrowedFd<'_>) {
        if self.cork.get() == Cork::On {
            // A closed connection holds nothing back.
            let _ = rustix::net::sockopt::set_tcp_cork(socket, false);
            self.cork.set(Cork::Off);
        }
    }

    /// True if the caller sends more after the last piece, or closes the socket.
    pub(crate) fn expects_more(&self) -> bool {
        self.expects_more
    }

    /// Number of bytes that the socket has not accepted.
    pub(crate) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Bytes in memory before the first range of a file.
    pub(crate) fn in_memory(&self) -> u64 {
        let bytes = self.pieces.iter().take_while(|piece| matches!(piece, Piece::Bytes(_)));
        bytes.map(Piece::len).sum::<u64>().saturating_sub(self.done)
    }

    /// The pieces with their paths and how much of each is sent.
    pub(crate) fn unsent(&self, engine: &Engine) -> impl Iterator<Item = (&Piece, SocketPath, u64)> {
        let states = std::iter::once((self.detour, self.done)).chain(std::iter::repeat((None, 0)));
        self.pieces.iter().zip(states).map(|(piece, (detour, done))| {
            let path = detour.unwrap_or_else(|| planned(piece, self.tls, engine));
            (piece, path, done)
        })
    }

    /// The path of the first piece.
    pub(crate) fn front_path(&self, engine: &Engine) -> Option<SocketPath> {
        self.unsent(engine).next().map(|(_, path, _)| path)
    }

    /// The first piece, if it is a range of a file, and how much of it is sent.
    pub(crate) fn front_extent(&self) -> Option<(&Extent, u64)> {
        match self.pieces.front()? {
            Piece::Bytes(_) => None,
            Piece::Extent(extent) | Piece::Volatile(extent) => Some((extent, self.done)),
        }
    }

    /// Sends the rest of the first piece by `path`.
    pub(crate) fn detour(&mut self, path: SocketPath) {
        self.detour = Some(path);
    }

    /// Bytes of the first piece that may be sent before its pages are requested: none, if it begins
    /// with cold pages.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes.saturating_sub(self.done)
    }

    /// True if the first piece need not be checked again, and the next one is in memory.
    pub(crate) fn leads_to_memory(&self) -> bool {
        let is_resident = self.pieces.front().is_some_and(|first| first.len() <= self.resident_bytes);
        is_resident && matches!(self.pieces.get(1), Some(Piece::Bytes(_)))
    }

    /// The pages of the first piece to check next, so that its next `len` bytes can be sent.
    fn window(&self, engine: &Engine, len: u64) -> Option<Extent> {
        let (extent, done) = self.front_extent()?;
        let offset = extent.offset.saturating_add(done);
        let end = offset.saturating_add(len.max(1));
        let end = end.checked_next_multiple_of(engine.page_bytes).unwrap_or(u64::MAX);
        Some(Extent { file: Arc::clone(&extent.file), offset, len: (end - offset).min(extent.len - done) })
    }

    /// Checks that the next pages of the first piece are in the cache: those of a turn of `budget`
    /// bytes, so that a window ends where a turn does, and further pages while the socket accepts
    /// everything. False: the first pages are missing.
    pub(crate) fn ask(&mut self, engine: &Engine, budget: u64) -> bool {
        let window_bytes = engine.thresholds.cold_window_bytes;
        let Some(window) = self.window(engine, budget.min(window_bytes).saturating_add(self.lookahead))
        else {
            return true;
        };
        match residency::lead(&window, engine.means) {
            Some(Lead::Missing(_)) => return false,
            Some(Lead::Ready(len)) => self.mark_resident(len),
            None => self.mark_resident(window.len),
        }
        let lookahead_max = window_bytes.saturating_mul(LOOKAHEAD_WINDOWS_MAX);
        self.lookahead = self.lookahead.saturating_add(window_bytes).min(lookahead_max);
        true
    }

    /// Records that the socket takes nothing for now: pages beyond a window that were checked may
    /// leave the cache until it does.
    pub(crate) fn blocked(&mut self, engine: &Engine) {
        self.lookahead = 0;
        let Some(window) = self.window(engine, engine.thresholds.cold_window_bytes) else { return };
        // Whole pages, because a path sends no part of a page that it has whole.
        self.resident_bytes = self.resident_bytes.min(self.done.saturating_add(window.len));
    }

    /// Missing pages of the window at which the first piece found pages that are not in the cache.
    /// It is not checked again.
    pub(crate) fn missing(&mut self, engine: &Engine) -> Option<Extent> {
        let mut window = self.window(engine, engine.thresholds.cold_window_bytes)?;
        if let Some(Lead::Missing(len)) = residency::lead(&window, engine.means) {
            window.len = len;
        }
        self.lookahead = 0;
        self.mark_resident(window.len);
        Some(window)
    }

    /// Records that the first piece need not be checked before its next `len` bytes are sent.
    pub(crate) fn mark_resident(&mut self, len: u64) {
        self.resident_bytes = self.done + len;
    }

    /// Replaces the first bytes of the first piece by as many others, at most `limit`.
    pub(crate) fn supply(&mut self, bytes: impl IntoIterator<Item = Bytes>, limit: u64) {
        let Some((extent, done)) = self.front_extent() else { return };
        let bytes: Vec<Bytes> = bytes.into_iter().filter(|bytes| !bytes.is_empty()).collect();
        let len: u64 = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        assert!(len <= limit, "{len} bytes for a range of {limit}");
        let rest = extent.after(done + len);
        let rest = match self.pieces.pop_front() {
            Some(Piece::Volatile(_)) => Piece::Volatile(rest),
            _ => Piece::Extent(rest),
        };
        // Bytes in the pipe, if any, are among them.
        (self.done, self.resident_bytes, self.detour, self.pipe) = (0, 0, None, None);
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        bytes.into_iter().rev().for_each(|bytes| self.pieces.push_front(Piece::Bytes(bytes)));
    }

    /// The file ranges after the first `skip` bytes, at most `limit` bytes. They continue after the
    /// end of the last one, as a reader of a log will.
    pub(crate) fn ahead(&self, skip: u64, limit: u64) -> Vec<Extent> {
        let mut ahead: Vec<Extent> = Vec::new();
        let (mut skip, mut left) = (self.done.saturating_add(skip), limit);
        for piece in &self.pieces {
            let passed = skip.min(piece.len());
            skip -= passed;
            let (Piece::Extent(extent) | Piece::Volatile(extent)) = piece else { continue };
            let len = (extent.len - passed).min(left);
            left -= len;
            let offset = extent.offset.saturating_add(passed);
            ahead.push(Extent { file: Arc::clone(&extent.file), offset, len });
        }
        if let Some(last) = ahead.last_mut() {
            last.len = last.len.saturating_add(left);
        }
        ahead.retain(|extent| extent.len > 0);
        ahead
    }

    /// Removes `count` bytes from the front: the socket took them.
    pub(crate) fn sent(&mut self, count: u64) {
        assert!(count <= self.remaining, "{count} bytes of {} were sent", self.remaining);
        self.remaining -= count;
        self.done += count;
        while let Some(front) = self.pieces.front() {
            if self.done < front.len() {
                break;
            }
            self.done -= front.len();
            self.detour = None;
            self.resident_bytes = 0;
            self.pieces.pop_front();
        }
        debug_assert_eq!(self.pieces.is_empty(), self.remaining == 0, "no piece is empty");
        debug_assert!(!self.pieces.is_empty() || self.done == 0, "{} bytes after the last piece", self.done);
    }

    /// The pipe that holds the next bytes, if any.
    pub(crate) fn take_pipe(&mut self) -> Option<Pipe> {
        self.pipe.take()
    }

    /// Keeps a pipe that holds the next bytes.
    pub(crate) fn keep_pipe(&mut self, pipe: Pipe) {
        assert!(!pipe.is_empty() && pipe.filled() <= self.remaining, "{pipe:?} for {} bytes", self.remaining);
        self.pipe = Some(pipe);
    }
}

/// The path of a piece: the planned one, unless the engine forces another one for ranges that will
/// not change.
fn planned(piece: &Piece, tls: Tls, engine: &Engine) -> SocketPath {
    let source = match piece {
        Piece::Bytes(_) => Source::Memory,
        Piece::Extent(_) => match engine.forced {
            Some(path) => return path,
            None => Source::File,
        },
        Piece::Volatile(_) => Source::VolatileFile,
    };
    plan(&Question { source, len: piece.len(), tls, means: engine.means }, &engine.thresholds)
}
