//! Splits a byte stream into frames. The length of a frame is checked first, and memory grows with
//! the received bytes (or with the largest frame that this connection has sent), never with a
//! claimed length.

use bytes::{Buf, BytesMut};

/// Largest frame of a connection by default (Kafka's `socket.request.max.bytes`).
pub const MAX_FRAME_BYTES: u32 = 100 * 1024 * 1024;

/// Largest frame of a connection that has yet to authenticate.
pub const MAX_FRAME_BYTES_BEFORE_AUTHENTICATION: u32 = 512 * 1024;

/// Free capacity for a read of an idle or new connection, in bytes.
const FIRST_READ_BYTES: usize = 1024;

/// Capacity beyond the size of the largest frame so far: a read that does not fill it has emptied
/// the socket, which a read that ends exactly with a frame would not show.
const SLACK_BYTES: usize = 64;

/// Memory that a connection without a frame in progress may keep. The rest is freed with the frame
/// that needed it; otherwise a thousand idle connections would hold the memory of their largest
/// frames.
const KEPT_BYTES: usize = 64 * 1024;

/// Room for several small frames that come together. With frames of 16 KiB a broker that takes four
/// at a time and then answers them together saves a twentieth of its processor time, but client and
/// broker wait for each other: a fifth of the rate is gone.
const TOGETHER_BYTES: usize = 16 * 1024;

/// Collects the bytes of one socket and returns whole frames.
///
/// Read into [`spare`](FrameBuffer::spare), then call [`next_frame`](FrameBuffer::next_frame) until
/// it returns `None`.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: BytesMut,
    limit_bytes: u32,
    largest_bytes: usize,
    /// Capacity for data that a client sends after the frame in progress without waiting for its
    /// response.
    ahead_bytes: usize,
}

impl FrameBuffer {
    /// An empty buffer that refuses frames above `limit_bytes`. Allocates nothing.
    pub fn new(limit_bytes: u32) -> Self {
        Self { bytes: BytesMut::new(), limit_bytes, largest_bytes: 0, ahead_bytes: 0 }
    }

    /// Changes the limit, for frames whose length has not been read yet (after authentication).
    pub fn set_limit(&mut self, limit_bytes: u32) {
        self.limit_bytes = limit_bytes;
    }

    /// Bytes received and not yet handed out.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// Releases empty memory while nothing arrives.
    pub fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
            self.ahead_bytes = 0;
        }
    }

    /// True if [`next_frame`](FrameBuffer::next_frame) has a frame to hand out.
    pub fn has_frame(&self) -> bool {
        self.claimed().is_some_and(|claimed| claimed > 0 && self.bytes.len() - 4 >= claimed as usize)
    }

    /// The buffer to append the next read to, with spare capacity to read into
    /// (`capacity() - len() > 0`).
    ///
    /// The spare room is at most the missing part of the frame in progress and a little more, and
    /// beyond 1 KiB at most as much as has already arrived of it or as the largest frame this
    /// connection has completed; between frames at most 64 KiB of that. Once a read has brought
    /// more than a small frame, there is room for several, 16 KiB in all.
    pub fn spare(&mut self) -> &mut BytesMut {
        let received = self.bytes.len();
        let missing = match self.claimed() {
            Some(claimed) => (claimed as usize + 4 + SLACK_BYTES).saturating_sub(received),
            None => FIRST_READ_BYTES.max((self.largest_bytes + SLACK_BYTES).min(KEPT_BYTES)),
        };
        let earned =
            FIRST_READ_BYTES.max(received).max((self.largest_bytes + SLACK_BYTES).saturating_sub(received));
        let needed = missing.min(earned);
        let wanted = needed.max((needed + self.ahead_bytes).min(TOGETHER_BYTES.saturating_sub(received)));
        if self.bytes.capacity() - received < wanted.min(FIRST_READ_BYTES) || wanted > FIRST_READ_BYTES {
            self.bytes.reserve(wanted);
        }
        &mut self.bytes
    }

    /// Cuts off the next whole frame, without its size. `None` if more bytes are needed.
    ///
    /// # Errors
    /// The length is impossible or above the limit. The stream cannot be resynchronised: close it.
    pub fn next_frame(&mut self) -> Result<Option<BytesMut>, FrameError> {
        let Some(claimed) = self.bytes.first_chunk::<4>().copied().map(i32::from_be_bytes) else {
            return Ok(None);
        };
        let length = u32::try_from(claimed).map_err(|_| FrameError::Negative { claimed })?;
        if length == 0 {
            return Err(FrameError::Empty);
        }
        if length > self.limit_bytes {
            let limit_bytes = self.limit_bytes;
            return Err(FrameError::TooLarge { claimed: length, limit_bytes, hint: hint(length) });
        }
        let length = length as usize;
        if self.bytes.len() - 4 < length {
            return Ok(None);
        }
        self.largest_bytes = self.largest_bytes.max(length + 4);
        let was_full = self.bytes.len() == self.bytes.capacity();
        self.bytes.advance(4);
        let frame = self.bytes.split_to(length);
        if was_full && !self.bytes.is_empty() && length < TOGETHER_BYTES / 2 {
            // The next one came along before this one was answered, and the socket may have more.
            self.ahead_bytes = (2 * self.ahead_bytes).clamp(length, TOGETHER_BYTES);
        }
        if length > KEPT_BYTES {
            // The frame takes its memory along: a few bytes of the next one would keep all of it.
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Ok(Some(frame))
    }

    /// The length of the frame in progress, if [`next_frame`](Self::next_frame) accepts it: a claim
    /// until the bytes have arrived.
    pub fn claimed(&self) -> Option<u32> {
        let claimed = u32::from_be_bytes(*self.bytes.first_chunk::<4>()?);
        (claimed <= self.limit_bytes).then_some(claimed)
    }
}

/// Protocol that the first four bytes indicate, if it is not Kafka's.
fn hint(claimed: u32) -> &'static str {
    match &claimed.to_be_bytes() {
        [0x14..=0x17, 3, _, _] => "; this looks like TLS on a plaintext port",
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" => "; this looks like HTTP",
        _ => "",
    }
}

/// A length that no frame may have. The peer is at fault, and the connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is negative.
    #[error("frame length {claimed} is negative")]
    Negative {
        /// Length that the peer sent.
        claimed: i32,
    },
    /// Length zero: not even a header.
    #[error("frame length is 0")]
    Empty,
    /// The length exceeds the limit.
    #[error("frame length {claimed} exceeds the limit of {limit_bytes} bytes{hint}")]
    TooLarge {
        /// Length that the peer sent, bytes.
        claimed: u32,
        /// The limit in force.
        limit_bytes: u32,
        /// A guess at the peer's protocol, or empty.
        hint: &'static str,
    },
}

#[cfg(test)]
mod tests;
