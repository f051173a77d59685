//! Tiered storage: work with the remote store, and the remote parts of logs.

use std::fmt;

use levada_broker::source::{RemoteLogState, RemoteState};

use super::catalogue;
use super::catalogue::Family;
use super::exposition::Families;
use super::topics::PARTITIONS_MAX;

/// A number of one log.
type LogValue = fn(&RemoteLogState) -> u64;

impl Families<'_> {
    /// The series of tiered storage; with `single`, of single partitions as well.
    pub(super) fn remote(&mut self, state: &RemoteState, single: bool) -> fmt::Result {
        for (family, value) in [
            (catalogue::REMOTE_COPIED_BYTES, state.copied_bytes),
            (catalogue::REMOTE_COPIES, state.copies),
            (catalogue::REMOTE_COPY_ERRORS, state.copy_errors),
            (catalogue::REMOTE_READ_BYTES, state.read_bytes),
            (catalogue::REMOTE_READS, state.reads),
            (catalogue::REMOTE_READ_ERRORS, state.read_errors),
            (catalogue::REMOTE_DELETIONS, state.deletions),
            (catalogue::REMOTE_DELETION_ERRORS, state.deletion_errors),
            (catalogue::REMOTE_CACHE_FETCHED, state.cache_fetched_bytes),
        ] {
            self.counter(family, value)?;
        }
        self.gauge(catalogue::REMOTE_CACHE_BYTES, state.cache_bytes)?;
        let mut series = self.family(catalogue::REMOTE_CACHE_LOOKUPS)?;
        series.counter(&["hit"], state.cache_hits)?;
        series.counter(&["miss"], state.cache_misses)?;
        if !single {
            return Ok(());
        }
        let gauges: [(&'static Family, LogValue); 6] = [
            (catalogue::REMOTE_LOG_SIZE, |log| log.bytes),
            (catalogue::REMOTE_SEGMENTS, |log| log.segments),
            (catalogue::REMOTE_COPY_LAG, |log| log.copy_lag_bytes),
            (catalogue::REMOTE_COPY_LAG_SEGMENTS, |log| log.copy_lag_segments),
            (catalogue::REMOTE_DELETE_LAG, |log| log.delete_lag_bytes),
            (catalogue::REMOTE_DELETE_LAG_SEGMENTS, |log| log.delete_lag_segments),
        ];
        for (family, value) in gauges {
            let mut series = self.family(family)?;
            for log in state.logs.iter().take(PARTITIONS_MAX) {
                series.gauge(&[&log.topic, &log.partition.to_string()], value(log))?;
            }
        }
        Ok(())
    }
}
