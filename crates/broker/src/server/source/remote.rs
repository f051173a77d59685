//! State of tiered storage.

use std::sync::Arc;

use crate::broker::Broker;
use crate::source::{RemoteLogState, RemoteState};
use crate::tiered::RemotePartition;

/// Tiered storage of a broker; none while it is off.
pub(super) fn remote(broker: &Broker) -> Option<RemoteState> {
    let tiers = broker.tiers();
    if !tiers.is_enabled() {
        return None;
    }
    let counts = tiers.counts();
    let mut state = RemoteState {
        copied_bytes: counts.copied_bytes.get(),
        copies: counts.copy_requests.get(),
        copy_errors: counts.copy_errors.get(),
        deletions: counts.delete_requests.get(),
        deletion_errors: counts.delete_errors.get(),
        ..RemoteState::default()
    };
    if let Some(reads) = broker.remote_reads() {
        let counts = reads.counts();
        (state.read_bytes, state.reads, state.read_errors) = (counts.bytes, counts.requests, counts.errors);
        (state.cache_bytes, state.cache_fetched_bytes) = (counts.cache.bytes, counts.cache.fetched_bytes);
        (state.cache_hits, state.cache_misses) = (counts.cache.hits, counts.cache.misses);
    }
    state.logs = tiers.led().iter().map(log).collect();
    state.logs.sort_unstable_by(|one, next| (&one.topic, one.partition).cmp(&(&next.topic, next.partition)));
    Some(state)
}

fn log(remote: &Arc<RemotePartition>) -> RemoteLogState {
    let (name, size) = (remote.name(), remote.size());
    let ((copy_lag_bytes, copy_lag_segments), (delete_lag_bytes, delete_lag_segments)) =
        (remote.copy_lag(), remote.delete_lag());
    RemoteLogState {
        topic: name.topic.clone(),
        partition: name.partition,
        bytes: size.bytes,
        segments: size.segments,
        copy_lag_bytes,
        copy_lag_segments,
        delete_lag_bytes,
        delete_lag_segments,
    }
}
