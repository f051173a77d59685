//! The machine's limit: bare loops of the system calls that a broker cannot avoid. The loops
//! implement enough of the protocol for the same client to check their responses. They run on the
//! broker's processor and know all requests in advance.

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

/// Name of the floor in tables.
pub(crate) const LABEL: &str = "floor";

/// Serves one connection with `work` on the broker's processor while `client` runs. Returns the
/// processor time of `work`.
pub(crate) fn beside(
    bench: &Bench,
    work: impl FnOnce(&TcpStream) -> io::Result<()> + Send,
    client: impl FnOnce(SocketAddr) -> Result<(), LabError>,
) -> Result<Duration, LabError> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(LabError::step("cannot listen on a free port"))?;
    let address = listener.local_addr().map_err(LabError::step("cannot read the address of a listener"))?;
    std::thread::scope(|scope| {
        let server: ScopedJoinHandle<'_, io::Result<Duration>> = scope.spawn(|| {
            cpu::pin(bench.places().sender());
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let before = cpu::of_this_thread();
            match work(&stream) {
                // The client has closed the connection because it has all responses.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                other => other?,
            }
            Ok(cpu::of_this_thread().saturating_sub(before))
        });
        let asked = client(address);
        if asked.is_err() {
            // If the client did not connect, this connection ends the wait in `accept`.
            drop(TcpStream::connect(address));
        }
        let spent = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        asked?;
        spent.map_err(LabError::step("the bare loop failed"))
    })
}

/// Receives frames, writes the batch of each to a file, and sends a response.
pub(crate) fn produce(
    filled: &Filled,
    frame_len: usize,
    mut file: &File,
    stream: &TcpStream,
) -> io::Result<()> {
    let mut responses = ProduceResponses::new(&filled.place, filled.records)?;
    let mut frame = vec![0; frame_len];
    let (mut stream_in, mut stream_out) = (stream, stream);
    loop {
        stream_in.read_exact(&mut frame)?;
        file.write_all(&frame[frame_len - filled.batch_len..])?;
        stream_out.write_all(responses.respond())?;
    }
}

/// Responses to batches of equal length for one partition, which began empty.
#[derive(Debug)]
pub(crate) struct ProduceResponses {
    bytes: BytesMut,
    offset_at: usize,
    next: i64,
    records: i64,
}

impl ProduceResponses {
    /// Prepares the responses to batches with this number of records.
    pub(crate) fn new(place: &TopicPartition, records: usize) -> io::Result<Self> {
        let (bytes, offset_at) = produced(place)?;
        Ok(Self { bytes, offset_at, next: 0, records: i64::try_from(records).unwrap_or(i64::MAX) })
    }

    /// Returns the response to the next batch.
    pub(crate) fn respond(&mut self) -> &[u8] {
        self.bytes[self.offset_at..self.offset_at + 8].copy_from_slice(&self.next.to_be_bytes());
        self.next += self.records;
        &self.bytes
    }
}

/// Returns the response to a batch for a partition, and the position of the offset in it.
pub(crate) fn produced(place: &TopicPartition) -> io::Result<(BytesMut, usize)> {
    let partition =
        ProducedPartition { index: place.partition, base_offset: 0, ..ProducedPartition::default() };
    let name = StrBytes::from(place.topic.as_str());
    let topics = vec![ProducedTopic { name, partitions: vec![partition], ..ProducedTopic::default() }];
    let response = ProduceResponse { topics, ..ProduceResponse::default() };
    let response = response.encode(1, frames::PRODUCE_VERSION).map_err(io::Error::other)?;
    Ok((BytesMut::from(&response[..]), 4 + frames::produced_offset_at(place)))
}

/// Data of a fetch loop: the batches of a file, of which each response contains as many as fit.
#[derive(Debug)]
pub(crate) struct Fetches<'a> {
    pub(crate) filled: &'a Filled,
    /// The first segment, which contains all batches.
    pub(crate) file: &'a File,
    pub(crate) max_bytes: i32,
}

/// Length in bytes from which two calls that move references cost less than one read and one write.
const SPLICE_FROM: usize = 32 << 10;

/// Maximum size of an unprivileged pipe.
const PIPE_BYTES: usize = 1 << 20;

impl Fetches<'_> {
    /// Number of batches in the response to a fetch that begins at batch `n`.
    pub(crate) fn batches(&self, n: usize) -> usize {
        let fit = self.max_bytes.unsigned_abs() as usize / self.filled.batch_len;
        fit.max(1).min(self.filled.batches - n)
    }

    /// Returns the number of the requested batch, if the request names this topic.
    pub(crate) fn number(&self, request: &[u8]) -> Option<usize> {
        let name = self.filled.place.topic.as_bytes();
        request.windows(name.len()).position(|bytes| bytes == name)?;
        let at = request.len().checked_sub(frames::FETCH_OFFSET_FROM_END)?;
        let offset = i64::from_be_bytes(request.get(at..at + 8)?.try_into().ok()?);
        let batch = usize::try_from(offset).ok()? / self.filled.records.max(1);
        (batch < self.filled.batches).then_some(batch)
    }

    /// Position and length in the file of the records of a response that begins at a batch.
    pub(crate) fn range(&self, batch: usize) -> (usize, usize) {
        (batch * self.filled.batch_len, self.batches(batch) * self.filled.batch_len)
    }

    /// True if copying costs less than `splice` for `len` bytes.
    pub(crate) fn is_small(&self, len: usize) -> bool {
        len < SPLICE_FROM
    }

    /// Receives requests and sends the next batches to each. Begins again after the last batch.
    /// Returns only with an error.
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

    /// Returns the bytes of a response that precede `len` bytes of records.
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
            _ => Err(io::Error::other("the encoded response does not begin with bytes")),
        }
    }

    /// Sends header and records with one call.
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
                return Err(io::Error::other("the segment has become shorter during the run"));
            }
            let flags = if offset < end { SpliceFlags::MOVE | SpliceFlags::MORE } else { SpliceFlags::MOVE };
            while held > 0 {
                held -= rustix::pipe::splice(&reader, None, stream, None, held, flags)?;
            }
        }
        Ok(())
    }
}

/// Records by their length in bytes alone, to encode the header of a response.
struct Records(u64);

impl HoleLen for Records {
    fn len(&self) -> u64 {
        self.0
    }
}
