//! Frames of the Kafka protocol, written by hand: what no client would send, and where every byte
//! is known.

mod batch;
mod requests;
mod responses;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub use batch::{Batch, TRANSACTIONAL, lose_transaction};
pub use requests::{
    ApiKey, FetchRequest, add_to_transaction, alter_broker, api_versions, create_topic, create_topic_with,
    delete_records, delete_topic, end_transaction, fetch, find_coordinator, find_transaction_coordinator,
    future_api_versions, init_producer_id, join_group, list_end_offset, list_offset, metadata, produce,
    produce_in, produce_to, samples, sync_group, waiting_fetch,
};
pub use responses::{
    Fetched, Joined, added_error, broker_ids, deleted_before, fetch_error, fetched, found_offset, joined,
    leaders, leading_error, listed_offset, produce_error, produced, producer_id, sync_error, topic_error,
};

const LIMIT: Duration = Duration::from_secs(20);

/// A connection that sends arbitrary bytes.
pub struct Connection {
    stream: TcpStream,
}

/// Outcome of a request.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// A response frame, without its length.
    Response(Vec<u8>),
    /// The broker closed the connection.
    Closed,
    /// Neither a response nor the end of the connection came in time.
    Silence,
}

impl Connection {
    /// Connects; the broker must accept.
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects, if the broker accepts.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self { stream })
    }

    /// Sends a request (without its length) and waits for its response, which must come.
    pub fn call(&mut self, request: &[u8]) -> Vec<u8> {
        self.try_call(request).unwrap_or_else(|error| panic!("no response: {error}"))
    }

    /// Sends a request and waits for its response.
    pub fn try_call(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send_frame(request)?;
        self.response()
    }

    /// Sends a request with the length that it has.
    pub fn send_frame(&mut self, request: &[u8]) -> io::Result<()> {
        let length = u32::try_from(request.len()).expect("a frame below 4 GB");
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend(request);
        self.stream.write_all(&frame)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Ends the stream.
    pub fn finish_sending(&mut self) {
        // The broker may have closed the connection first.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next response frame, without its length.
    pub fn response(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        assert!(length <= 200 << 20, "a response of {length} bytes");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// The next event, within `limit`.
    pub fn outcome(&mut self, limit: Duration) -> Outcome {
        self.stream.set_read_timeout(Some(limit)).expect("a timeout");
        let outcome = match self.response() {
            Ok(body) => Outcome::Response(body),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Outcome::Silence
            }
            Err(_) => Outcome::Closed,
        };
        self.stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        outcome
    }
}

/// Writes the primitive types of the protocol.
#[derive(Default, Clone)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// The bytes that were written.
    pub fn done(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of bytes that have been written.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// `INT8`.
    pub fn i8(mut self, value: i8) -> Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// `INT16`.
    pub fn i16(mut self, value: i16) -> Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// `INT32`; also the length of an array.
    pub fn i32(mut self, value: i32) -> Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// `INT64`.
    pub fn i64(mut self, value: i64) -> Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// `STRING`.
    pub fn string(self, value: &str) -> Self {
        let length = i16::try_from(value.len()).expect("a short string");
        self.i16(length).raw(value.as_bytes())
    }

    /// `BYTES`.
    pub fn bytes(self, value: &[u8]) -> Self {
        let length = i32::try_from(value.len()).expect("bytes below 2 GB");
        self.i32(length).raw(value)
    }

    /// `UNSIGNED_VARINT`.
    pub fn varint(mut self, mut value: u32) -> Self {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
        self
    }

    /// `COMPACT_STRING`.
    pub fn compact_string(self, value: &str) -> Self {
        let length = u32::try_from(value.len()).expect("a short string");
        self.varint(length + 1).raw(value.as_bytes())
    }

    /// Bytes as they are.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }
}

/// Reads the primitive types of the protocol; fails the test when there is too little.
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads from a response frame.
    pub fn new(response: &'a [u8]) -> Self {
        Decoder { rest: response }
    }

    /// `INT8`, or `BOOLEAN`.
    pub fn i8(&mut self) -> i8 {
        i8::from_be_bytes([self.take(1)[0]])
    }

    /// `INT16`.
    pub fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    /// `INT32`.
    pub fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    /// `INT64`.
    pub fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    /// `STRING`.
    pub fn string(&mut self) -> String {
        let length = usize::try_from(self.i16()).expect("a string that is not null");
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8")
    }

    /// `NULLABLE_STRING`.
    pub fn nullable_string(&mut self) -> Option<String> {
        let length = usize::try_from(self.i16()).ok()?;
        Some(String::from_utf8(self.take(length).to_vec()).expect("UTF-8"))
    }

    /// `UNSIGNED_VARINT`; the length of a compact array is one less.
    pub fn varint(&mut self) -> u32 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = u32::from(self.take(1)[0]);
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }

    /// `COMPACT_STRING`, empty if null.
    pub fn compact_string(&mut self) -> String {
        let length = self.varint().saturating_sub(1) as usize;
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8")
    }

    /// `BYTES`, empty if null.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::try_from(self.i32()).unwrap_or(0);
        self.take(length)
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        assert!(self.rest.len() >= length, "the response is {} bytes short", length - self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}
