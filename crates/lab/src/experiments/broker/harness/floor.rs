//! The machine's limit: bare loops of the system calls that a broker cannot avoid. They implement
//! enough of the protocol for the same client to check their responses, run on the broker's
//! processor, and have all requests in advance.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use levada_wire::fetch::{FetchResponse, FetchedPartition, FetchedTopic};
use levada_wire::gather::{HoleLen, Piece};
use levada_wire::messages::StrBytes;
use levada_wire::produce::{ProduceResponse, ProducedPartition, ProducedTopic};
use rustix::net::SendFlags;
use rustix::pipe::SpliceFlags;

use crate::error::LabError;
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::topic::Filled;
use crate::harness::bench::Bench;
use crate::machine::cpu;

/// The name in tables.
pub(crate) const LABEL: &str = "floor";

/// Serves one connection with `work` on the broker's processor while `client` runs; returns the
/// work's processor time.
pub(crate) fn beside(
    bench: &Bench,
    work: impl FnOnce(&TcpStream) -> io::Result<()> + Send,
    client: impl FnOnce(SocketAddr) -> Result<(), LabError>,
) -> Result<Duration, LabError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(LabError::step("no port is free"))?;
    let address = listener.local_addr().map_err(LabError::step("a listener has an address"))?;
    std::thread::scope(|scope| {
        let server: ScopedJoinHandle<'_, io::Result<Duration>> = scope.spawn(|| {
            cpu::pin(bench.places().sender());
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let before = cpu::of_this_thread();
            match work(&stream) {
                // The client has ended the connection: it needs no more.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                other => other?,
            }
            Ok(cpu::of_this_thread().saturating_sub(before))
        });
        let asked = client(address);
        if asked.is_err() {
            // Perhaps no client has connected.
            drop(TcpStream::connect(address));
        }
        let spent = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        asked?;
        spent.map_err(LabError::step("the bare loop failed"))
    })
}

/// Receives a frame, writes its batch to a file, answers.
pub(crate) fn produce(
    filled: &Filled,
    frame_len: usize,
    mut file: &File,
    stream: &TcpStream,
) -> io::Result<()> {
    let (mut response, offset_at) = produced(&filled.place)?;
    let mut frame = vec![0; frame_len];
    let (mut stream_in, mut stream_out) = (stream, stream);
    for number in 0.. {
        stream_in.read_exact(&mut frame)?;
        file.write_all(&frame[frame_len - filled.batch_len..])?;
        response[offset_at..offset_at + 8].copy_from_slice(&filled.offset(number).to_be_bytes());
        stream_out.write_all(&response)?;
    }
    Ok(())
}

/// The answer to a batch for a place, and where in it the offset is.
pub(crate) fn produced(place: &TopicPartition) -> io::Result<(BytesMut, usize)> {
    let partition =
        ProducedPartition { index: place.partition, base_offset: 0, ..ProducedPartition::default() };
    let name = StrBytes::from(place.topic.as_str());
    let topics = vec![ProducedTopic { name, partitions: vec![partition], ..ProducedTopic::default() }];
    let response = ProduceResponse { topics, ..ProduceResponse::default() };
    let response = response.encode(1, frames::PRODUCE_VERSION).map_err(io::Error::other)?;
    Ok((BytesMut::from(&response[..]), 4 + frames::produced_offset_at(place)))
}

/// Data of a fetch loop: batches of a file, as many as fit.
#[derive(Debug)]
pub(crate) struct Fetches<'a> {
    pub(crate) filled: &'a Filled,
    /// The first segment, which holds all.
    pub(crate) file: &'a File,
    pub(crate) max_bytes: i32,
}

/// Below this, reading into the header's buffer and one write is less than two calls that move
/// references.
const SPLICE_FROM: usize = 32 << 10;

/// The maximum size of an unprivileged pipe.
const PIPE_BYTES: usize = 1 << 20;

impl Fetches<'_> {
    /// Batches of the response to a fetch from the n-th on.
    pub(crate) fn batches(&self, n: usize) -> usize {
        let fit = self.max_bytes.unsigned_abs() as usize / self.filled.batch_len;
        fit.max(1).min(self.filled.batches - n)
    }

    /// The requested batch, if the request is for this topic.
    pub(crate) fn number(&self, request: &[u8]) -> Option<usize> {
        let name = self.filled.place.topic.as_bytes();
        request.windows(name.len()).position(|bytes| bytes == name)?;
        let at = request.len().checked_sub(frames::FETCH_OFFSET_FROM_END)?;
        let offset = i64::from_be_bytes(request.get(at..at + 8)?.try_into().ok()?);
        let batch = usize::try_from(offset).ok()? / self.filled.records.max(1);
        (batch < self.filled.batches).then_some(batch)
    }

    /// Range of an answer's records in the file.
    pub(crate) fn range(&self, batch: usize) -> (usize, usize) {
        (batch * self.filled.batch_len, self.batches(batch) * self.filled.batch_len)
    }

    /// True if this number of bytes should be copied.
    pub(crate) fn is_small(&self, len: usize) -> bool {
        len < SPLICE_FROM
    }

    /// Receives a request, sends the next batches; from the beginning again after the last.
    pub(crate) fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let wanted = Wanted { offset: 0, max_bytes: self.max_bytes, max_wait_ms: 0 };
        let request = frames::fetch(&self.filled.place, wanted).map_err(io::Error::other)?;
        let mut request = vec![0; request.len()];
        let (reader, writer) = rustix::pipe::pipe()?;
        rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES)?;
        let (mut at, mut stream_in) = (0, stream);
        loop {
            stream_in.read_exact(&mut request)?;
            let count = self.batches(at);
            let (from, len) = self.range(at);
            let header = self.header(len)?;
            if self.is_small(len) {
                self.copy(stream, &header, (from, len))?;
            } else {
                rustix::net::send(stream, &header, SendFlags::MORE | SendFlags::NOSIGNAL)?;
                self.splice(stream, (&reader, &writer), (from, len))?;
            }
            at = (at + count) % self.filled.batches;
        }
    }

    /// The answer's beginning, if it has this number of bytes of records.
    pub(crate) fn header(&self, len: usize) -> io::Result<Bytes> {
        let records = Some(Records(len as u64));
        let partition = FetchedPartition { records, ..FetchedPartition::new(self.filled.place.partition) };
        let name = StrBytes::from(self.filled.place.topic.as_str());
        let topics =
            vec![FetchedTopic { name, topic_id: levada_wire::Uuid::ZERO, partitions: vec![partition] }];
        let response = FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics,
            node_endpoints: Vec::new(),
        };
        let gather = response.encode(1, frames::FETCH_VERSION).map_err(io::Error::other)?;
        match gather.into_pieces().into_iter().next() {
            Some(Piece::Bytes(bytes)) => Ok(bytes),
            _ => Err(io::Error::other("a response begins with bytes")),
        }
    }

    /// Sends header and records by one call.
    pub(crate) fn copy(
        &self,
        mut stream: &TcpStream,
        header: &[u8],
        (from, len): (usize, usize),
    ) -> io::Result<()> {
        let mut body = vec![0; len];
        self.file.read_exact_at(&mut body, from as u64)?;
        let sent = stream.write_vectored(&[IoSlice::new(header), IoSlice::new(&body)])?;
        if sent < header.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        stream.write_all(&body[sent - header.len()..])
    }

    fn splice(
        &self,
        stream: &TcpStream,
        (reader, writer): (impl std::os::fd::AsFd, impl std::os::fd::AsFd),
        (from, len): (usize, usize),
    ) -> io::Result<()> {
        let (mut offset, end) = (from as u64, (from + len) as u64);
        while offset < end {
            let want = usize::try_from(end - offset).unwrap_or(usize::MAX).min(PIPE_BYTES);
            let mut held =
                rustix::pipe::splice(self.file, Some(&mut offset), &writer, None, want, SpliceFlags::MOVE)?;
            if held == 0 {
                return Err(io::Error::other("the segment is shorter than it was"));
            }
            let flags = if offset < end { SpliceFlags::MOVE | SpliceFlags::MORE } else { SpliceFlags::MOVE };
            while held > 0 {
                held -= rustix::pipe::splice(&reader, None, stream, None, held, flags)?;
            }
        }
        Ok(())
    }
}

/// This number of bytes of records.
struct Records(u64);

impl HoleLen for Records {
    fn len(&self) -> u64 {
        self.0
    }
}
