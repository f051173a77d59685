//! The machine's limit for many small producers: a bare loop of `epoll` on the broker's processor
//! that receives, writes and answers, each by one call, and does nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::BytesMut;

use crate::error::LabError;
use crate::experiments::broker::harness::floor;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::harness::bench::Bench;
use crate::harness::event_loop::{self, Interest};

/// Prepared requests of the clients.
#[derive(Debug)]
pub(super) struct Load<'a> {
    /// File for the batches of the n-th connection, and of each connection a round later.
    pub(super) places: &'a [TopicPartition],
    /// A file for each of them.
    pub(super) files: &'a [File],
    pub(super) frame_len: usize,
    /// At the end of a frame, with one record.
    pub(super) batch_len: usize,
}

/// Serves all connections while `clients` runs; returns its result, and the processor time of the
/// loop.
pub(super) fn beside<T>(
    bench: &Bench,
    load: &Load<'_>,
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<(T, Duration), LabError> {
    event_loop::around(bench, |listener, over| serve(listener, load, over), clients)
}

fn serve(listener: &TcpListener, load: &Load<'_>, over: &AtomicBool) -> io::Result<()> {
    let answers: io::Result<Vec<_>> = load.places.iter().map(floor::produced).collect();
    let mut answers: Vec<Answer> =
        answers?.into_iter().map(|(bytes, offset_at)| Answer { bytes, offset_at, next: 0 }).collect();
    let mut frame = vec![0; load.frame_len];
    event_loop::serve(listener, over, Ok, |at, stream: &mut TcpStream| {
        let got = stream.read(&mut frame)?;
        if got == 0 {
            return Ok(Interest::Nothing);
        }
        stream.read_exact(&mut frame[got..])?;
        let to = at % load.places.len();
        (&load.files[to]).write_all(&frame[load.frame_len - load.batch_len..])?;
        stream.write_all(answers[to].next())?;
        Ok(Interest::ToReceive)
    })
}

/// The answer of a partition.
struct Answer {
    bytes: BytesMut,
    offset_at: usize,
    next: i64,
}

impl Answer {
    /// Answers that a record has the next offset.
    fn next(&mut self) -> &[u8] {
        self.bytes[self.offset_at..self.offset_at + 8].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        &self.bytes
    }
}
