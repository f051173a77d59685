//! Receiving requests: counts received bytes, and limits the time to wait for missing ones.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::{CloseReason, Connection, SILENCE_MAX};
use crate::request_memory::{Held, UNCOUNTED_BYTES};
use crate::server::channel::Received;

/// Minimum growth of an unfinished request per period (or per idle limit, if shorter): half a
/// request holds memory.
const PROGRESS_BYTES: usize = 64 * 1024;
const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Like [`PROGRESS_TIME`], for the one request that may exceed `queued.max.request.bytes`, because
/// other requests wait for it.
const EXCESS_PROGRESS_TIME: Duration = Duration::from_secs(1);

/// Time that a request may wait for `queued.max.request.bytes`.
pub(super) const MEMORY_WAIT: Duration = Duration::from_secs(30);

/// Idle time after which a connection releases its buffer.
const REST_AFTER: Duration = Duration::from_secs(1);

const _: () =
    assert!(UNCOUNTED_BYTES <= PROGRESS_BYTES, "a request that does not count is whole in one step");
const _: () = assert!(EXCESS_PROGRESS_TIME.as_millis() <= PROGRESS_TIME.as_millis());
const _: () = assert!(MEMORY_WAIT.as_millis() < SILENCE_MAX.as_millis());

impl Connection {
    /// The next whole frame, within the time limit for a client that has not authenticated yet;
    /// `None` as in [`next_frame`](Self::next_frame).
    pub(super) async fn next_in_time(&mut self) -> Result<Option<BytesMut>, CloseReason> {
        let Some(deadline) = self.gate.deadline() else { return self.next_frame().await };
        match tokio::time::timeout_at(deadline.into(), self.next_frame()).await {
            Ok(frame) => frame,
            Err(_) => Err(self.gate.too_late(self.shard.broker(), &self.info).into()),
        }
    }

    /// The next whole frame; `None` when the client has closed the connection between frames.
    async fn next_frame(&mut self) -> Result<Option<BytesMut>, CloseReason> {
        let mut progress = None;
        // This releases the share of the previous request, and with it that of the bytes after it.
        self.count()?;
        loop {
            if let Some(frame) = self.received.next_frame()? {
                return Ok(Some(frame));
            }
            match self.received.claimed() {
                None if self.received.pending() == 0 => self.silence().await?,
                claimed => {
                    self.unless_slow(&mut progress).await?;
                    // After the last wait before the read, so that all who waited do not read at
                    // once.
                    self.unless_full(claimed, &mut progress).await?;
                }
            }
            match self.channel.receive(&self.stream, self.received.spare()) {
                Ok(Received::End) if self.received.pending() == 0 => return Ok(None),
                Ok(Received::End) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
                }
                Ok(Received::Something) => self.count()?,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Counts received bytes above the free allowance of a connection.
    fn count(&mut self) -> Result<(), CloseReason> {
        let pending = self.received.pending();
        if pending <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let broker = self.shard.broker();
        let memory = broker.request_memory();
        if !self.gate.is_open() {
            let address = self.info.peer.ip();
            let share = self.newcomer.get_or_insert_with(|| memory.newcomers().share(address));
            let granted = share.grow_to(pending, self.gate.frame_bytes_max(broker));
            return if granted { Ok(()) } else { Err(CloseReason::NewcomersFull { asked: pending }) };
        }
        if broker.config().queued_max_request_bytes.is_some() {
            self.held.get_or_insert_with(|| memory.share()).grow_to(pending);
        }
        Ok(())
    }

    /// Waits while the memory of requests is used up: nothing more is read of a request that
    /// counts.
    async fn unless_full(
        &mut self,
        claimed: Option<u32>,
        progress: &mut Option<(Instant, usize)>,
    ) -> Result<(), CloseReason> {
        let counts = self.gate.is_open() && claimed.is_some_and(|bytes| bytes as usize > UNCOUNTED_BYTES);
        let memory = self.shard.broker().request_memory();
        let limit_bytes = self.shard.broker().config().queued_max_request_bytes.filter(|_| counts);
        let Some(limit_bytes) = limit_bytes.filter(|limit_bytes| !memory.has_room(*limit_bytes)) else {
            return Ok(());
        };
        if self.held.as_ref().is_some_and(Held::exceeds) {
            return Ok(());
        }
        let room = tokio::time::timeout(MEMORY_WAIT, memory.room(limit_bytes)).await;
        let excess = room.map_err(|_| CloseReason::NoMemory { held_bytes: memory.held_bytes() })?;
        if let Some(excess) = excess {
            self.held.get_or_insert_with(|| memory.share()).may_exceed(excess);
        }
        // The wait was not the client's fault.
        *progress = None;
        Ok(())
    }

    /// Waits for more of a request; `progress` is the time and size of the last sufficient growth.
    async fn unless_slow(&self, progress: &mut Option<(Instant, usize)>) -> Result<(), CloseReason> {
        let pending = self.received.pending();
        let (since, bytes) = *progress.get_or_insert_with(|| (Instant::now(), pending));
        let since = if pending - bytes >= PROGRESS_BYTES { Instant::now() } else { since };
        if since > progress.map_or(since, |known| known.0) {
            *progress = Some((since, pending));
        }
        let limit = match &self.held {
            Some(held) if held.exceeds() => EXCESS_PROGRESS_TIME,
            _ => self.max_idle.unwrap_or(PROGRESS_TIME).min(PROGRESS_TIME),
        };
        let ready = tokio::time::timeout_at((since + limit).into(), self.stream.readable());
        Ok(ready.await.map_err(|_| CloseReason::Slow { received: pending, limit })??)
    }

    /// Waits for a request to begin; after a while without the memory for it.
    ///
    /// The timer is reset only when it fires, or would fire too late: with every request that
    /// would cost more than the rest of waiting.
    async fn silence(&mut self) -> Result<(), CloseReason> {
        let since = tokio::time::Instant::now();
        let limit = self.max_idle.unwrap_or(Duration::MAX);
        let rest = limit.min(REST_AFTER);
        if self.silent.deadline() > since + rest {
            self.silent.as_mut().reset(since + rest);
        }
        loop {
            tokio::select! {
                biased;
                ready = self.stream.readable() => return Ok(ready?),
                () = &mut self.silent => {}
            }
            let silent = since.elapsed();
            if silent >= limit {
                return Err(CloseReason::Idle { limit });
            }
            let next = next_look(silent, rest, limit);
            if silent >= rest {
                self.received.rest();
            }
            self.silent.as_mut().reset(since.checked_add(next).unwrap_or(since + SILENCE_MAX));
        }
    }
}

/// Time since the last request at which a connection that has been silent for this long is checked
/// again: after `rest` its memory is released, at `limit` it is closed.
fn next_look(silent: Duration, rest: Duration, limit: Duration) -> Duration {
    if silent < rest { rest } else { limit.min(SILENCE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_waits_until_its_limit() {
        let at = |silent_ms: u64| {
            let [silent, rest, limit] = [silent_ms, 1_000, 60_000].map(Duration::from_millis);
            next_look(silent, rest, limit).as_millis()
        };
        assert_eq!([at(0), at(999), at(1_000), at(59_999)], [1_000, 1_000, 60_000, 60_000]);
        let endless = next_look(REST_AFTER, REST_AFTER, Duration::MAX);
        assert_eq!(endless, SILENCE_MAX);
    }
}
