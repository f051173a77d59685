//! The server's side of a run: a thread that accepts all connections, and then serves them with one
//! of the loops.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use bytes::Bytes;
use rustix::net::sockopt;

use crate::error::LabError;
use crate::experiments::broker::harness::floor::ProduceResponses;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::machine::cpu::{self, Stopwatch};
use crate::machine::environment::CONGESTION;

/// Requests of the clients, and the files that get their batches.
#[derive(Debug)]
pub(super) struct Load {
    /// Partitions to which the connections write in turn.
    pub(super) places: Vec<TopicPartition>,
    /// A file for each partition.
    pub(super) files: Vec<File>,
    /// A request to each partition.
    pub(super) frames: Vec<Bytes>,
    /// The batch at the end of all requests, and its number of records.
    pub(super) batch: Bytes,
    pub(super) records: usize,
    pub(super) connections: usize,
    /// Number of requests after which a loop ends.
    pub(super) requests: usize,
}

impl Load {
    pub(super) fn frame_len(&self) -> usize {
        self.frames[0].len()
    }
}

/// Accepted connections, and the start of the measurement.
pub(super) struct Stage<'a> {
    pub(super) connections: &'a [TcpStream],
    ready: Sender<()>,
    /// Memory of the kernel before the loop registered the connections.
    slab_bytes: u64,
}

impl Stage<'_> {
    /// Starts the clients and the measurement.
    pub(super) fn begin(&self) -> Meter {
        let kernel_bytes = process::slab_bytes().saturating_sub(self.slab_bytes);
        // If the clients have failed, the loop finds their connections closed.
        let _ = self.ready.send(());
        let watch = Stopwatch::start();
        Meter { kernel_bytes, watch, cpu: cpu::of_this_thread() }
    }
}

/// A measurement that runs.
pub(super) struct Meter {
    kernel_bytes: u64,
    watch: Stopwatch,
    cpu: Duration,
}

impl Meter {
    /// Ends the measurement of a loop that has made this number of system calls.
    pub(super) fn end(self, calls: u64) -> Cost {
        let cpu = cpu::of_this_thread().saturating_sub(self.cpu);
        let elapsed = self.watch.elapsed();
        Cost { cpu: cpu + elapsed.workers, wall: elapsed.wall, calls, kernel_bytes: self.kernel_bytes }
    }
}

/// Cost of a loop.
#[derive(Debug)]
pub(super) struct Cost {
    /// Processor time of the loop's thread and of the ring's kernel workers.
    pub(super) cpu: Duration,
    pub(super) wall: Duration,
    /// Number of system calls.
    pub(super) calls: u64,
    /// Memory that the kernel has taken to register the connections with the loop.
    pub(super) kernel_bytes: u64,
}

/// Serves the connections that `open` makes, on the sender's processor, while `work` uses them.
/// Returns the result of `work`, and the cost of the loop. `work` begins when the loop is ready.
pub(super) fn beside<C, T>(
    bench: &Bench,
    load: &Load,
    serve: impl FnOnce(&Stage<'_>) -> io::Result<Cost> + Send,
    open: impl FnOnce(SocketAddr) -> Result<C, LabError>,
    work: impl FnOnce(C) -> Result<T, LabError>,
) -> Result<(T, Cost), LabError> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(LabError::step("cannot listen on a free port"))?;
    let address = listener.local_addr().map_err(LabError::step("cannot read the address of a listener"))?;
    // Accepted connections inherit it. Where the kernel refuses, the record says so.
    let _ = sockopt::set_tcp_congestion(&listener, CONGESTION);
    let (ready, begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let listener = &listener;
        let server = scope.spawn(move || {
            cpu::pin(bench.places().sender());
            let accept = |_| {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            let connections = (0..load.connections).map(accept).collect::<io::Result<Vec<_>>>()?;
            serve(&Stage { connections: &connections, ready, slab_bytes: process::slab_bytes() })
        });
        let worked = open(address).and_then(|clients| {
            // Without the message the loop has failed, and so do the clients.
            let _ = begun.recv();
            work(clients)
        });
        if worked.is_err() {
            // Ends a wait in `accept`.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        let served = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If one side fails, the other finds its connections closed.
        match (worked, served) {
            (Err(error), Err(cause)) if cause.kind() == io::ErrorKind::UnexpectedEof => Err(error),
            (_, Err(cause)) => Err(LabError::step("the bare loop failed")(cause)),
            (worked, Ok(cost)) => Ok((worked?, cost)),
        }
    })
}

/// Files and responses of a run.
pub(super) struct Sink<'a> {
    pub(super) load: &'a Load,
    responses: Vec<ProduceResponses>,
    /// Number of requests that are still to come.
    pub(super) left: usize,
    /// Number of system calls so far.
    pub(super) calls: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(load: &'a Load) -> io::Result<Self> {
        let responses = load.places.iter().map(|place| ProduceResponses::new(place, load.records));
        let responses = responses.collect::<io::Result<_>>()?;
        Ok(Self { load, responses, left: load.requests, calls: 0 })
    }

    /// Writes a batch that a connection has sent, given by its parts, and returns the response.
    pub(super) fn take(&mut self, connection: usize, batch: &[IoSlice<'_>]) -> io::Result<&[u8]> {
        let to = connection % self.load.files.len();
        let mut file = &self.load.files[to];
        let written = match batch {
            [whole] => file.write(whole)?,
            parts => file.write_vectored(parts)?,
        };
        if written != self.load.batch.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.calls += 1;
        self.left -= 1;
        Ok(self.responses[to].respond())
    }
}
