//! The machine's limit for one request at a time: a bare loop that receives the shortest request
//! and sends a recorded response of a broker.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::floor;
use crate::experiments::broker::harness::node::Node;
use crate::harness::bench::Bench;
use crate::method::experiment::Metrics;

/// Frames of one request and of its response, including their length prefixes.
pub(super) struct Floor {
    request: Bytes,
    response: Vec<u8>,
}

impl Floor {
    /// Records the response of a broker to a request frame.
    pub(super) fn of(node: &Node, request: Bytes) -> Result<Self, LabError> {
        let mut connection = Connection::open(node.address())?;
        connection.send(&request)?;
        let body = connection.receive_whole()?;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
        Ok(Self { request, response: [&length[..], &body].concat() })
    }

    /// Runs the loop for `time` with the client of the other cases.
    pub(super) fn measure(&self, bench: &Bench, time: Duration) -> Result<Metrics, LabError> {
        let (start, mut count) = (Instant::now(), 0_u32);
        let spent = floor::beside(
            bench,
            |mut stream| {
                let mut request = vec![0; self.request.len()];
                loop {
                    stream.read_exact(&mut request)?;
                    stream.write_all(&self.response)?;
                }
            },
            |address| {
                let mut connection = Connection::open(address)?;
                while count == 0 || start.elapsed() < time {
                    connection.send(&self.request)?;
                    connection.receive(4)?;
                    count += 1;
                }
                Ok(())
            },
        )?;
        Ok(super::metrics(spent, start.elapsed(), count))
    }
}
