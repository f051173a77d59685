//! Sending of responses: bytes together, file ranges in turns, and nothing from a file that has
//! changed since its head was written.
//!
//! The end of each range is held back, read into memory and sent after a last check of the file's
//! state: a client gets the announced number of bytes only if the file was not written until its
//! last bytes were read.

use std::time::{Instant, SystemTime};

use bytes::Bytes;
use levada_io::residency::Warm;
use levada_io::{Extent, Piece, Turn};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::Interest;
use tokio::sync::oneshot;

use super::{CloseReason, Connection, KEPT_BACK_BYTES, Note};
use crate::access_log::{self, Draft};
use crate::answer::{Body, Part, Reply};
use crate::entry::Entry;
use crate::listen::Purpose;
use crate::range::Span;

/// Maximum number of bytes at the end of a range that are held back: a page.
const TAIL_BYTES: u64 = 4 << 10;

/// Bytes that are read ahead from a slow disk.
const AHEAD_BYTES: u64 = 1 << 20;

impl Connection {
    /// Sends a response, or holds it back together with earlier ones while the client's next
    /// request has already arrived.
    pub(super) async fn send(&mut self, reply: Reply, draft: Option<Box<Draft>>) -> Result<(), CloseReason> {
        let Reply { status, head, body, close } = reply;
        let (head_bytes, body_bytes) = (head.len() as u64, body.len());
        self.notes.push(Note { draft, status, head_bytes, body_bytes, begun: Instant::now() });
        self.push(Piece::Bytes(head));
        match body {
            Body::None => {}
            Body::Bytes(bytes) => self.push(Piece::Bytes(bytes)),
            Body::File(entry, span) => self.send_span(&entry, span).await?,
            Body::Parts(entry, parts) => {
                for part in parts {
                    match part {
                        Part::Bytes(bytes) => self.push(Piece::Bytes(bytes)),
                        Part::Span(span) => self.send_span(&entry, span).await?,
                    }
                }
            }
        }
        // The end of the connection leaves with the last bytes.
        self.outgoing.expect_more(close);
        if self.pending.is_empty() || self.outgoing.remaining() > KEPT_BACK_BYTES {
            self.flush().await?;
        } else {
            // Other connections of the shard have their turns also when nothing is waited for.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    async fn send_span(&mut self, entry: &Rc<Entry>, span: Span) -> Result<(), CloseReason> {
        let tail = ((span.end - 1) / TAIL_BYTES * TAIL_BYTES).max(span.start);
        if tail > span.start {
            let (file, offset) = (Arc::clone(&entry.file), span.start);
            self.push(Piece::Extent(Extent { file, offset, len: tail - span.start }));
            self.outgoing.expect_more(true);
            let begun = Instant::now();
            let all_resident = self.run(Some(entry)).await?;
            if all_resident && span.len() == entry.len() {
                entry.found_resident(begun);
            }
        }
        let read = self.read(entry, Span { start: tail, end: span.end }).await;
        let intact = read.and_then(|bytes| {
            entry.is_intact().then_some(bytes).ok_or_else(|| CloseReason::Changed { path: entry.path() })
        });
        match intact {
            Ok(bytes) => self.push(Piece::Bytes(bytes)),
            Err(error) => {
                // Complete responses to earlier requests may be kept back. All of the queue is in
                // memory: no byte of a changed file leaves with them.
                if self.notes.len() > 1 {
                    self.flush().await?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads a short range; another thread waits for the disk if it is not in memory.
    async fn read(&mut self, entry: &Entry, span: Span) -> Result<Bytes, CloseReason> {
        let failed = |source| CloseReason::Read { path: entry.path(), source };
        let read = |entry: &Entry| entry.read(span).map_err(failed);
        if let Some(bytes) = read(entry)? {
            return Ok(bytes);
        }
        let extent = Extent { file: Arc::clone(&entry.file), offset: span.start, len: span.len() };
        self.bring_in(Warm::of(extent, Vec::new())).await;
        match read(entry)? {
            Some(bytes) => Ok(bytes),
            // The pages were evicted again, or the queue is full: now this thread waits.
            None => entry.read_waiting(span).map_err(failed),
        }
    }

    /// Sends everything that was held back.
    pub(super) async fn flush(&mut self) -> Result<(), CloseReason> {
        if !self.outgoing.is_idle() {
            self.run(None).await?;
        }
        self.write_notes();
        Ok(())
    }

    /// Sends the response, one turn at a time, whenever the socket accepts more; true if all pages
    /// were checked and were in memory.
    async fn run(&mut self, entry: Option<&Entry>) -> Result<bool, CloseReason> {
        let mut all_resident = true;
        loop {
            self.writable().await?;
            let mut failed = None;
            let asks = entry.is_none_or(|entry| !entry.is_resident(Instant::now()));
            all_resident &= asks;
            let (socket, outgoing) = (&self.socket, &mut self.outgoing);
            let turn = socket.try_io(Interest::WRITABLE, || {
                let mut engine = self.shard.engine.borrow_mut();
                engine.report_cold(asks);
                match outgoing.step(&mut engine, socket.as_fd()) {
                    Ok(Turn::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
                    Ok(turn) => Ok(Some(turn)),
                    Err(error) => {
                        failed = Some(error);
                        Ok(None)
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
            match turn {
                Ok(Some(Turn::Done)) => return Ok(all_resident),
                Ok(Some(Turn::Cold)) => {
                    all_resident = false;
                    if let Some(warm) = self.outgoing.cold(AHEAD_BYTES) {
                        self.bring_in(warm).await;
                    }
                }
                Ok(_) => {
                    if let Some(entry) = entry.filter(|entry| !entry.is_intact()) {
                        return Err(CloseReason::Changed { path: entry.path() });
                    }
                    tokio::task::yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the socket takes more, for at most this time.
    async fn writable(&mut self) -> Result<(), CloseReason> {
        let (socket, timer, limit) = (&self.socket, &mut self.timer, self.shard.shared.send_time);
        let mut is_set = false;
        let ready = std::future::poll_fn(|context| {
            if let Poll::Ready(ready) = socket.poll_writable(context) {
                return Poll::Ready(ready.map_err(CloseReason::from));
            }
            if !is_set {
                timer.until(tokio::time::Instant::now() + limit);
                is_set = true;
            }
            let action = "take bytes of the response";
            timer.poll(context).map(|()| Err(CloseReason::Slow { action, limit }))
        });
        ready.await
    }

    /// Waits until a range is in memory, while other connections continue. If too many ranges wait
    /// already, or the disk fails, the next turn handles it.
    async fn bring_in(&self, warm: Warm) {
        let (done, there) = oneshot::channel();
        let told = move |warmed| {
            // The connection may have closed.
            let _ = done.send(warmed);
        };
        if self.shard.shared.warmer.submit(warm, told).is_ok() {
            let _ = there.await;
        }
    }

    /// Counts and logs the responses with files that were sent, or the part of them that was.
    pub(super) fn write_notes(&mut self) {
        let mut sent = self.pushed - self.outgoing.remaining();
        self.pushed = self.outgoing.remaining();
        if self.purpose == Purpose::Metrics {
            self.notes.clear();
            return;
        }
        self.shard.shared.stats.sent(sent);
        for note in self.notes.drain(..) {
            self.shard.shared.stats.answered(note.status);
            sent = sent.saturating_sub(note.head_bytes);
            let bytes = sent.min(note.body_bytes);
            sent -= bytes;
            if let (Some(access_log), Some(draft)) = (&self.shard.access_log, &note.draft) {
                let (peer, status, taken) = (self.peer, note.status, note.begun.elapsed());
                access_log
                    .note(draft, access_log::Result { peer, status, bytes, taken, now: SystemTime::now() });
            }
        }
    }
}
