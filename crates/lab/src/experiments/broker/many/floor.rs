//! The machine's limit for many small producers: a bare loop of `epoll` on the broker's processor.
//! For each request it reads, writes the batch, and responds, with one call each.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::LabError;
use crate::experiments::broker::harness::floor::ProduceResponses;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::harness::bench::Bench;
use crate::harness::event_loop::{self, Interest};

/// Requests of the clients, as far as the loop must know them.
#[derive(Debug)]
pub(super) struct Load<'a> {
    /// Partitions to which the connections write in turn.
    pub(super) places: &'a [TopicPartition],
    /// One file for each partition.
    pub(super) files: &'a [File],
    pub(super) frame_len: usize,
    /// Length of the batch at the end of a frame. The batch has one record.
    pub(super) batch_len: usize,
}

/// Serves all connections while `clients` runs. Returns the result of `clients`, and the processor
/// time of the loop.
pub(super) fn beside<T>(
    bench: &Bench,
    load: &Load<'_>,
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<(T, Duration), LabError> {
    event_loop::around(bench, |listener, over| serve(listener, load, over), clients)
}

fn serve(listener: &TcpListener, load: &Load<'_>, over: &AtomicBool) -> io::Result<()> {
    let responses: io::Result<Vec<_>> =
        load.places.iter().map(|place| ProduceResponses::new(place, 1)).collect();
    let mut responses = responses?;
    let mut frame = vec![0; load.frame_len];
    event_loop::serve(listener, over, Ok, |at, stream: &mut TcpStream| {
        let got = stream.read(&mut frame)?;
        if got == 0 {
            return Ok(Interest::Nothing);
        }
        stream.read_exact(&mut frame[got..])?;
        let to = at % load.places.len();
        (&load.files[to]).write_all(&frame[load.frame_len - load.batch_len..])?;
        stream.write_all(responses[to].respond())?;
        Ok(Interest::ToReceive)
    })
}
