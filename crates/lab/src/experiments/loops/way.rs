//! The loops.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;

use levada_io::Caps;
use levada_io::buf::{Buffer, BufferPool};
use levada_io::probe::Support;
use levada_io::ring::{SocketEvent, SocketRing};
use rustix::event::epoll;

use super::server::{Cost, Load, Sink, Stage};
use crate::experiments::broker::harness::topic;

/// A network loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopMethod {
    /// Waits by `epoll`. A read takes at most this number of requests, and one call sends the
    /// responses to them.
    Epoll { frames: usize },
    /// Waits by a ring.
    Ring,
}

/// Number and size of the buffers that all connections of a ring share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffers {
    pub(super) bytes: usize,
    /// A power of two.
    pub(super) count: u16,
}

/// Bytes of a buffer for the responses to the requests of one turn.
const RESPONSE_BYTES: usize = 1 << 10;

/// Number of these buffers: two for each busy connection.
const RESPONSE_BUFFERS: u16 = 512;

/// Maximum number of buffers in which a batch arrives.
const MOST_PARTS: usize = 16;

impl LoopMethod {
    /// All loops; the bare loop of `lab broker` is first.
    pub(super) const ALL: [Self; 3] =
        [Self::Epoll { frames: 1 }, Self::Epoll { frames: topic::IN_FLIGHT }, Self::Ring];

    pub(super) fn name(self) -> String {
        match self {
            Self::Epoll { frames: 1 } => "epoll".to_owned(),
            Self::Epoll { frames } => format!("epoll, reads of {frames} requests"),
            Self::Ring => "ring".to_owned(),
        }
    }

    /// Reason why this machine cannot run the loop, with a remedy.
    pub(super) fn missing(self, caps: &Caps, buffers: Buffers) -> Option<String> {
        if !matches!(self, Self::Ring) {
            return None;
        }
        if let Support::Absent { why, remedy } = &caps.io_uring {
            return Some(format!("{why}; {remedy}"));
        }
        let error = new_ring(buffers, 1).err()?;
        Some(format!("{error}; use Linux 6.1 or later, and raise the limit of locked memory (ulimit -l)"))
    }

    /// Serves all requests.
    pub(super) fn serve(self, stage: &Stage<'_>, load: &Load, buffers: Buffers) -> io::Result<Cost> {
        match self {
            Self::Epoll { frames } => serve_by_epoll(stage, load, frames),
            Self::Ring => serve_by_ring(stage, load, new_ring(buffers, load.connections)?),
        }
    }
}

fn serve_by_epoll(stage: &Stage<'_>, load: &Load, frames: usize) -> io::Result<Cost> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, stream) in stage.connections.iter().enumerate() {
        epoll::add(&set, stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    let (mut sink, frame_len) = (Sink::new(load)?, load.frame_len());
    let (mut buffer, mut responses) = (vec![0; frames * frame_len], Vec::new());
    let mut events = Vec::with_capacity(1024);
    let meter = stage.begin();
    while sink.left > 0 {
        events.clear();
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => sink.calls += 1,
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let mut stream = &stage.connections[number];
            let mut got = 0;
            // The client sends whole requests, so the rest of one does not take long.
            while got == 0 || got % frame_len > 0 {
                match stream.read(&mut buffer[got..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => got += count,
                }
                sink.calls += 1;
            }
            responses.clear();
            for frame in buffer[..got].chunks(frame_len) {
                let batch = IoSlice::new(&frame[frame_len - load.batch.len()..]);
                responses.extend_from_slice(sink.take(number, &[batch])?);
            }
            stream.write_all(&responses)?;
            sink.calls += 1;
        }
    }
    Ok(meter.end(sink.calls))
}

fn new_ring(buffers: Buffers, sockets: usize) -> io::Result<SocketRing> {
    let pool = BufferPool::new(buffers.bytes, buffers.count)?;
    SocketRing::new(u32::try_from(sockets).unwrap_or(u32::MAX), &pool)
}

/// A loop on a ring.
struct RingLoop<'a> {
    ring: SocketRing,
    sink: Sink<'a>,
    connections: Vec<RingConnection>,
    responses: BufferPool,
    /// Connections with responses to send.
    answered: Vec<u32>,
}

/// A connection of the loop on a ring.
#[derive(Default)]
struct RingConnection {
    /// Received bytes that are not consumed: buffers, and the position of the first byte in each.
    parts: VecDeque<(Buffer, usize)>,
    /// Number of received bytes that are not consumed.
    len: usize,
    /// Responses that are not sent.
    responses: Option<Buffer>,
}

fn serve_by_ring(stage: &Stage<'_>, load: &Load, mut ring: SocketRing) -> io::Result<Cost> {
    for stream in stage.connections {
        ring.attach(stream)?;
    }
    ring.submit()?;
    let connections = stage.connections.iter().map(|_| RingConnection::default()).collect();
    let responses = BufferPool::new(RESPONSE_BYTES, RESPONSE_BUFFERS)?;
    let sink = Sink::new(load)?;
    let (meter, before) = (stage.begin(), ring.calls());
    let mut all = RingLoop { ring, sink, connections, responses, answered: Vec::new() };
    let mut events = Vec::with_capacity(1024);
    while all.sink.left > 0 {
        all.ring.turn(&mut events)?;
        for event in events.drain(..) {
            all.act(event)?;
        }
        all.send();
    }
    all.ring.submit()?;
    Ok(meter.end(all.sink.calls + all.ring.calls() - before))
}

impl RingLoop<'_> {
    fn act(&mut self, event: SocketEvent) -> io::Result<()> {
        match event {
            SocketEvent::Received { socket, buffer } => self.receive(socket, buffer),
            SocketEvent::Sent { socket, result } => {
                if self.connections[socket as usize].responses.is_some() {
                    self.answered.push(socket);
                }
                result.map(drop)
            }
            SocketEvent::Ended { error, .. } => Err(error.unwrap_or(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Writes the batches that are complete, and adds their responses.
    fn receive(&mut self, socket: u32, buffer: Buffer) -> io::Result<()> {
        let (frame_len, batch_len) = (self.sink.load.frame_len(), self.sink.load.batch.len());
        let connection = &mut self.connections[socket as usize];
        connection.len += buffer.len();
        connection.parts.push_back((buffer, 0));
        while connection.len >= frame_len {
            let (mut parts, mut count) = ([IoSlice::new(&[]); MOST_PARTS], 0);
            for (place, part) in parts.iter_mut().zip(connection.range(frame_len - batch_len..frame_len)) {
                (*place, count) = (IoSlice::new(part), count + 1);
            }
            let response = self.sink.take(socket as usize, &parts[..count])?;
            if connection.responses.is_none() {
                connection.responses = self.responses.take();
                self.answered.push(socket);
            }
            let responses = connection.responses.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
            let end = responses.len() + response.len();
            let room = responses.len()..end;
            responses.space().get_mut(room).ok_or(io::ErrorKind::OutOfMemory)?.copy_from_slice(response);
            responses.set_len(end);
            connection.consume(frame_len);
        }
        Ok(())
    }

    /// Sends the responses of each connection by one send. Those of a connection whose previous
    /// send is under way stay.
    fn send(&mut self) {
        for socket in self.answered.drain(..) {
            let connection = &mut self.connections[socket as usize];
            if let Some(responses) = connection.responses.take() {
                connection.responses = self.ring.send(socket, responses).err();
            }
        }
    }
}

impl RingConnection {
    /// Parts of a range of the bytes that are not consumed.
    fn range(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let mut position = 0;
        self.parts.iter().filter_map(move |(buffer, start)| {
            let bytes = &buffer.filled()[*start..];
            let within = |at: usize| at.saturating_sub(position).min(bytes.len());
            let part = &bytes[within(range.start)..within(range.end)];
            position += bytes.len();
            (!part.is_empty()).then_some(part)
        })
    }

    /// Drops this number of bytes from the front, and the buffers without further bytes.
    fn consume(&mut self, mut len: usize) {
        self.len -= len;
        while let Some((buffer, start)) = self.parts.front_mut() {
            let there = buffer.len() - *start;
            if len < there {
                *start += len;
                return;
            }
            len -= there;
            self.parts.pop_front();
        }
    }
}
