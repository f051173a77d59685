//! Readers of old records, which read from the first record to the last at full speed.

use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, Wanted};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic::Filled;

/// Reads everything once, in steps of `max_bytes`. Returns the bytes of the records, without a
/// check of their content.
pub(crate) fn once(node: &Node, filled: &Filled, max_bytes: i32) -> Result<u64, LabError> {
    within(Duration::MAX, node, filled, max_bytes)
}

/// Reads as [`once`] does, but stops after `limit`.
pub(crate) fn within(limit: Duration, node: &Node, filled: &Filled, max_bytes: i32) -> Result<u64, LabError> {
    let mut connection = Connection::open(node.address())?;
    let (start, mut batch, mut bytes) = (Instant::now(), 0, 0);
    while batch < filled.batches && start.elapsed() < limit {
        let got = step(&mut connection, filled, batch, max_bytes)?;
        bytes += (got * filled.batch_len) as u64;
        batch += got;
    }
    Ok(bytes)
}

/// Fetches from the n-th batch on. Returns the number of complete batches in the response. Kafka
/// may append a part of the next batch.
pub(crate) fn step(
    connection: &mut Connection,
    filled: &Filled,
    batch: usize,
    max_bytes: i32,
) -> Result<usize, LabError> {
    let wanted = Wanted { offset: filled.offset(batch), max_bytes, max_wait_ms: 0 };
    connection.send(&frames::fetch(&filled.place, wanted)?)?;
    // Minimum size of each response; the rest depends on where segments end.
    let expected = frames::fetched_overhead(&filled.place) + filled.batch_len;
    let response = connection.receive(expected)?;
    let (len, _) = frames::fetched(response, &filled.place)?;
    match len / filled.batch_len {
        0 => Err(LabError::step("a fetch failed")(std::io::Error::other(format!(
            "no whole batch from number {batch} on"
        )))),
        count => Ok(count),
    }
}
