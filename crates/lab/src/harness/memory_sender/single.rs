//! Messages of one piece, one after another, by each method to send memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use levada_io::buf::{Buffer, BufferPool};
use levada_io::outbox::Terms;
use levada_io::ring::{Event, Key, Memory, Operation, Ring, RingOptions};
use levada_io::zerocopy::ZeroCopyOutbox;
use levada_io::{Counters, Path, Thresholds, Turn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::SendFlags;

use super::route::{Socket, fd};
use super::{How, Load, Wait};

/// Maximum number of buffers, which take turns. The same number of sends may be parked.
const BUFFERS: u16 = 16;

/// Maximum number of bytes of all buffers together, which fit into the usual limit of locked memory
/// for users. There are at least two buffers.
const BUFFERED_BYTES: usize = 4 << 20;

/// Sender of messages of one piece, ready to send.
pub(super) struct Single {
    socket: Socket,
    messages: Messages,
    way: Transport,
    calls: u64,
}

/// Source of messages.
struct Messages {
    pool: BufferPool,
    /// File whose adjacent parts are the messages; none for generated messages.
    file: Option<Arc<File>>,
}

enum Transport {
    Plain,
    ZeroCopy(Box<ZeroCopyOutbox>, Box<Counters>),
    Ring(Box<Ring>),
}

impl Single {
    pub(super) fn new(load: &Load, socket: Socket) -> io::Result<Self> {
        let room = u16::try_from(BUFFERED_BYTES / load.bytes.max(1)).unwrap_or(BUFFERS);
        let pool = BufferPool::new(load.bytes, room.clamp(2, BUFFERS))?;
        for buffer in std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().iter_mut() {
            load.fill(0, buffer.space());
        }
        let way = match load.how {
            How::Send => Transport::Plain,
            How::MsgZerocopy => {
                Transport::ZeroCopy(Box::new(ZeroCopyOutbox::new(fd(&socket))), Box::default())
            }
            _ => {
                let mut ring = Ring::new(&RingOptions::default())?;
                if let How::RingZeroCopy { registered: true, .. } = load.how {
                    ring.register_buffers(&pool)?;
                }
                Transport::Ring(Box::new(ring))
            }
        };
        Ok(Self { socket, messages: Messages { pool, file: None }, way, calls: 0 })
    }

    /// Returns the sender with messages from a file.
    pub(super) fn reading(mut self, file: Arc<File>) -> Self {
        self.messages.file = Some(file);
        self
    }

    /// Number of system calls so far.
    pub(super) fn calls(&self) -> u64 {
        match &self.way {
            Transport::Plain => self.calls,
            Transport::ZeroCopy(_, counters) => {
                let seen = counters.snapshot();
                self.calls + Path::ALL.iter().map(|path| seen.calls(*path)).sum::<u64>()
            }
            Transport::Ring(ring) => ring.calls(),
        }
    }

    pub(super) fn send(&mut self, load: &Load) -> io::Result<u64> {
        match &mut self.way {
            Transport::Plain => {
                plain(&self.socket, &self.messages, load, &mut self.calls)?;
                Ok(0)
            }
            Transport::ZeroCopy(outbox, counters) => {
                let queue = ErrorQueue { socket: &self.socket, outbox, counters, calls: &mut self.calls };
                by_error_queue(queue, &self.messages, load)
            }
            Transport::Ring(ring) => by_ring(ring, &self.socket, &self.messages, load),
        }
    }
}

impl Messages {
    /// Returns the next message in a free buffer, or none if no buffer is free.
    fn message(&self, load: &Load, index: u32) -> io::Result<Option<Buffer>> {
        let Some(mut buffer) = self.pool.take() else { return Ok(None) };
        if let Some(file) = &self.file {
            file.read_exact_at(buffer.space(), u64::from(index) * load.bytes as u64)?;
        } else if load.check {
            load.fill(index, buffer.space());
        }
        buffer.set_len(load.bytes);
        Ok(Some(buffer))
    }
}

fn plain(socket: &Socket, messages: &Messages, load: &Load, calls: &mut u64) -> io::Result<()> {
    for index in 0..load.messages {
        let buffer = messages.message(load, index)?.ok_or(io::ErrorKind::OutOfMemory)?;
        let mut left = buffer.filled();
        while !left.is_empty() {
            *calls += 1;
            let count = rustix::net::send(fd(socket), left, SendFlags::NOSIGNAL)?;
            left = &left[count..];
        }
    }
    Ok(())
}

/// A socket whose error queue reports the release of sends by reference.
struct ErrorQueue<'a> {
    socket: &'a Socket,
    outbox: &'a mut ZeroCopyOutbox,
    counters: &'a Counters,
    calls: &'a mut u64,
}

fn by_error_queue(queue: ErrorQueue<'_>, messages: &Messages, load: &Load) -> io::Result<u64> {
    let ErrorQueue { socket, outbox, counters, calls } = queue;
    let thresholds = Thresholds { zero_copy_send_bytes: 1, ..Thresholds::default() };
    let before = counters.snapshot().copied_by_kernel();
    for index in 0..load.messages {
        let buffer = loop {
            if let Some(buffer) = messages.message(load, index)? {
                break buffer;
            }
            collect(socket, outbox, counters, calls)?;
        };
        outbox.push(buffer.into_bytes());
        let terms = Terms { budget: usize::MAX, may_refer: true, thresholds: &thresholds };
        while outbox.step(fd(socket), terms, counters)? != Turn::Done {}
    }
    while outbox.parked_bytes() > 0 {
        collect(socket, outbox, counters, calls)?;
    }
    Ok((counters.snapshot().copied_by_kernel() - before) / load.bytes as u64)
}

/// Waits until the kernel has released some sends.
fn collect(
    socket: &Socket,
    outbox: &mut ZeroCopyOutbox,
    counters: &Counters,
    calls: &mut u64,
) -> io::Result<()> {
    if outbox.collect(fd(socket), counters)?.is_none() {
        *calls += 1;
        // `poll` always reports errors, also with empty flags.
        retry_on_intr(|| poll(&mut [PollFd::new(socket, PollFlags::empty())], None))?;
    }
    Ok(())
}

fn by_ring(ring: &mut Ring, socket: &Socket, messages: &Messages, load: &Load) -> io::Result<u64> {
    let (zero_copy, wait) = match load.how {
        How::RingZeroCopy { wait, .. } => (true, wait),
        _ => (false, Wait::Result),
    };
    let mut copied = 0;
    for index in 0..load.messages {
        let buffer = loop {
            if let Some(buffer) = messages.message(load, index)? {
                break buffer;
            }
            copied += settle(ring, None, load.bytes)?;
        };
        let send = Operation::send(Arc::clone(socket), Memory::Buffer(buffer));
        let send = if zero_copy { send.zero_copy() } else { send };
        let key = ring.push(send).map_err(|full| io::Error::other(full.to_string()))?;
        copied += settle(ring, Some((key, wait)), load.bytes)?;
    }
    while ring.in_flight() > 0 {
        copied += settle(ring, None, load.bytes)?;
    }
    Ok(copied)
}

/// Waits until one operation has reached a state, or for any event. Returns the number of sends
/// that the kernel copied.
fn settle(ring: &mut Ring, until: Option<(Key, Wait)>, bytes: usize) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        ring.submit_and_wait(1, None)?;
        let mut settled = until.is_none();
        for completion in ring.reap() {
            let mine = |wait| until == Some((completion.key, wait));
            match completion.event {
                Event::Done { result, .. } => {
                    whole(result, bytes)?;
                    settled |= until.is_some_and(|(key, _)| key == completion.key);
                }
                Event::Sent { result } => {
                    whole(result, bytes)?;
                    settled |= mine(Wait::Result);
                }
                Event::Released { copied: was_copied, .. } => {
                    copied += u64::from(was_copied);
                    settled |= mine(Wait::Release);
                }
            }
        }
        if settled {
            return Ok(copied);
        }
    }
}

fn whole(result: io::Result<usize>, bytes: usize) -> io::Result<()> {
    match result? {
        count if count == bytes => Ok(()),
        count => Err(io::Error::other(format!("the kernel accepted {count} of {bytes} bytes"))),
    }
}
