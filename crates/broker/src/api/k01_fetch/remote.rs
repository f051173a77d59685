//! The part of a fetch that reads from remote storage.

use std::time::Duration;

use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{AbortedTransaction, FetchPartition, FetchedPartition};
use tokio::time::Instant;

use super::{Limits, Look, Reader};
use crate::api::Context;
use crate::api::records::Records;
use crate::error_map::remote_error;
use crate::remote_reads::{RemoteRead, RemoteSlice};
use crate::replica::Partition;

/// A partition whose records are to be read from remote storage.
pub(super) struct Wanted {
    /// Index of the partition in the response.
    at: usize,
    read: RemoteRead,
}

impl Look {
    /// Notes a remote read for the next partition of the response. As in Kafka, it counts as if it
    /// returned all bytes that it may: their number is not known yet.
    pub(super) fn want_remote(
        &mut self,
        partition: &Partition,
        wanted: &FetchPartition,
        (limits, max_bytes): (&Limits, u32),
    ) {
        self.urgent = true;
        if max_bytes == 0 {
            return;
        }
        let read = RemoteRead {
            partition: (partition.topic_id(), partition.index()),
            log: partition.shared_log(),
            offset: wanted.fetch_offset,
            max_bytes,
            min_one: self.bytes == 0,
            lists_aborted: matches!(limits.reader, Reader::Consumer { committed_only: true, .. }),
            batches_max: 0,
        };
        self.remote.push(Wanted { at: self.partitions.len(), read });
        self.bytes += u64::from(max_bytes);
    }
}

/// Waits for the remote reads, up to the configured time and while the client is connected, and
/// adds their records and errors.
pub(super) async fn complete(context: &Context, look: &mut Look) {
    context.wait_for_others();
    let (places, reads): (Vec<_>, Vec<_>) =
        std::mem::take(&mut look.remote).into_iter().map(|wanted| (wanted.at, wanted.read)).unzip();
    let Some(remote) = context.broker().remote_reads().cloned() else {
        // The cache could not be opened. The records may be there after a restart.
        let error = ErrorCode::UnknownServerError;
        return places.iter().for_each(|at| fail(&mut look.partitions[*at], error));
    };
    let wait_ms = context.broker().config().remote_log.fetch_max_wait_ms;
    let until = Instant::now() + Duration::from_millis(u64::from(wait_ms.unsigned_abs()));
    let results = tokio::select! {
        results = remote.read_all(reads, until) => results,
        () = context.stop().signalled() => return,
    };
    for (at, result) in places.into_iter().zip(results) {
        match result {
            Some(Ok(slice)) => add(&mut look.partitions[at], slice),
            Some(Err(fault)) => fail(&mut look.partitions[at], remote_error(&fault)),
            None => {}
        }
    }
}

fn add(fetched: &mut FetchedPartition<Records>, slice: RemoteSlice) {
    if fetched.aborted.is_some() {
        let told = |one: levada_log::AbortedTransaction| AbortedTransaction {
            producer_id: one.producer_id,
            first_offset: one.first_offset,
        };
        fetched.aborted = Some(slice.aborted.into_iter().map(told).collect());
    }
    fetched.records = Records::of(slice.extents, true);
}

fn fail(fetched: &mut FetchedPartition<Records>, error: ErrorCode) {
    *fetched = FetchedPartition { error_code: error.code(), ..FetchedPartition::new(fetched.index) };
}
