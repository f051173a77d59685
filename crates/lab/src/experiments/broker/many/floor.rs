//! The machine's limit for many small producers: a bare loop of `epoll` on the broker's processor that receives, writes and answers, each by one
//! call, and does nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use rustix::event::{Timespec, epoll};

use crate::error::LabError;
use crate::experiments::broker::harness::floor;
use crate::experiments::broker::harness::frames::Place;
use crate::harness::bench::Bench;

/// How often the loop looks whether it is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What the epoll set knows the listener by; connections have their index.
const LISTENER: u64 = u64::MAX;

/// What the clients send, so that nothing has to be looked for.
#[derive(Debug)]
pub(super) struct Load<'a> {
    /// Where the n-th connection, and each that comes a round later, sends its batches to.
    pub(super) places: &'a [Place],
    /// A file for each of them.
    pub(super) files: &'a [File],
    pub(super) frame_len: usize,
    /// At the end of a frame, with one record.
    pub(super) batch_len: usize,
}

/// Serves whoever connects while `clients` runs; what that was, and what this used of the processor.
pub(super) fn beside<T>(
    bench: &Bench,
    load: &Load<'_>,
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<(T, Duration), LabError> {
    floor::around(bench, |listener, over| serve(listener, load, over), clients)
}

fn serve(listener: &TcpListener, load: &Load<'_>, over: &AtomicBool) -> io::Result<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&set, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<TcpStream> = Vec::new();
    let answers: io::Result<Vec<_>> = load.places.iter().map(floor::produced).collect();
    let mut answers: Vec<Answer> =
        answers?.into_iter().map(|(bytes, offset_at)| Answer { bytes, offset_at, next: 0 }).collect();
    let (mut events, mut frame) = (Vec::with_capacity(1024), vec![0; load.frame_len]);
    while !over.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let data = epoll::EventData::new_u64(connections.len() as u64);
                epoll::add(&set, &stream, data, epoll::EventFlags::IN)?;
                connections.push(stream);
                continue;
            }
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(mut stream) = connections.get(at) else { continue };
            let got = stream.read(&mut frame)?;
            if got == 0 {
                epoll::delete(&set, stream)?;
                continue;
            }
            stream.read_exact(&mut frame[got..])?;
            let to = at % load.places.len();
            (&load.files[to]).write_all(&frame[load.frame_len - load.batch_len..])?;
            stream.write_all(answers[to].next())?;
        }
    }
    Ok(())
}

/// The answer of a partition.
struct Answer {
    bytes: BytesMut,
    offset_at: usize,
    next: i64,
}

impl Answer {
    /// Says that a record has the next offset.
    fn next(&mut self) -> &[u8] {
        self.bytes[self.offset_at..self.offset_at + 8].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        &self.bytes
    }
}
