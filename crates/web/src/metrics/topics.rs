//! Topics and the logs of their partitions: traffic, sizes, offsets; and the upkeep of all logs.

use levada_broker::source::{LogState, UpkeepState};
use std::collections::BTreeMap;
use std::fmt;

use levada_broker::source::TrafficTotals;

use super::catalogue;
use super::catalogue::Family;
use super::exposition::Families;
use super::requests::buckets;

/// Maximum number of topics and partitions with separate series, in the order of names. Further
/// ones are counted.
pub(super) const TOPICS_MAX: usize = 5_000;
pub(super) const PARTITIONS_MAX: usize = 20_000;

type Value<T> = fn(&T) -> u64;

/// A number of one log.
type LogValue = fn(&LogState) -> i64;

impl Families<'_> {
    /// The series of topics and partitions. `logs` are sorted by topic and number.
    pub(super) fn topics(&mut self, logs: &[LogState]) -> fmt::Result {
        let topics: Vec<&[LogState]> = logs.chunk_by(|one, next| one.topic == next.topic).collect();
        let shown = &topics[..topics.len().min(TOPICS_MAX)];
        let sums: Vec<(&str, TrafficTotals)> =
            shown.iter().map(|logs| (&*logs[0].topic, sum(logs))).collect();
        let counters: [(&'static Family, Value<TrafficTotals>); 6] = [
            (catalogue::TOPIC_BYTES_IN, |topic| topic.bytes_in),
            (catalogue::TOPIC_RECORDS_IN, |topic| topic.records_in),
            (catalogue::TOPIC_BATCHES_IN, |topic| topic.batches_in),
            (catalogue::TOPIC_BYTES_OUT, |topic| topic.bytes_out),
            (catalogue::TOPIC_FAILED_PRODUCES, |topic| topic.failed_produces),
            (catalogue::TOPIC_FAILED_FETCHES, |topic| topic.failed_fetches),
        ];
        for (family, value) in counters {
            let mut series = self.family(family)?;
            sums.iter().try_for_each(|(topic, sum)| series.counter(&[topic], value(sum)))?;
        }
        let mut series = self.family(catalogue::ACKS_DURABILITY_PARTITIONS)?;
        for logs in shown {
            let mut counts = BTreeMap::<&str, u64>::new();
            logs.iter().for_each(|log| *counts.entry(&log.durability).or_default() += 1);
            counts.iter().try_for_each(|(label, count)| series.gauge(&[&logs[0].topic, label], *count))?;
        }
        let shown = &logs[..logs.len().min(PARTITIONS_MAX)];
        let gauges: [(&'static Family, LogValue); 3] = [
            (catalogue::LOG_SIZE, |log| i64::try_from(log.size_bytes).unwrap_or(i64::MAX)),
            (catalogue::LOG_START, |log| log.start),
            (catalogue::LOG_END, |log| log.end),
        ];
        for (family, value) in gauges {
            let mut series = self.family(family)?;
            shown
                .iter()
                .try_for_each(|log| series.gauge(&[&log.topic, &log.partition.to_string()], value(log)))?;
        }
        let mut series = self.family(catalogue::LEFT_OUT)?;
        series.gauge(&["topic"], topics.len().saturating_sub(TOPICS_MAX) as u64)?;
        series.gauge(&["partition"], logs.len().saturating_sub(PARTITIONS_MAX) as u64)
    }

    /// The upkeep of all logs.
    pub(super) fn upkeep(&mut self, upkeep: &UpkeepState) -> fmt::Result {
        let flushes = &upkeep.flushes;
        let mut series = self.family(catalogue::LOG_FLUSH)?;
        series.histogram(&[], flushes.sum_ns as f64 / 1e9, &buckets(flushes))?;
        self.counter(catalogue::RETENTION_SEGMENTS, upkeep.retention_segments)?;
        self.counter(catalogue::RETENTION_BYTES, upkeep.retention_bytes)?;
        self.gauge(catalogue::DIRECTORIES_OFFLINE, upkeep.offline_directories)?;
        self.gauge(catalogue::DIRECTORIES_REFUSING, upkeep.refusing_directories)?;
        if !upkeep.log_bytes.is_empty() {
            let mut series = self.family(catalogue::DIRECTORY_BYTES)?;
            upkeep.log_bytes.iter().try_for_each(|(directory, bytes)| series.gauge(&[directory], *bytes))?;
        }
        if upkeep.volumes.is_empty() {
            return Ok(());
        }
        let mut series = self.family(catalogue::DISK_FREE)?;
        upkeep.volumes.iter().try_for_each(|(directory, free, _)| series.gauge(&[directory], *free))?;
        let mut series = self.family(catalogue::DISK_SIZE)?;
        upkeep.volumes.iter().try_for_each(|(directory, _, size)| series.gauge(&[directory], *size))
    }
}

fn sum(logs: &[LogState]) -> TrafficTotals {
    let mut sum = TrafficTotals::default();
    for TrafficTotals { bytes_in, records_in, batches_in, bytes_out, failed_produces, failed_fetches } in
        logs.iter().map(|log| log.traffic)
    {
        sum.bytes_in += bytes_in;
        sum.records_in += records_in;
        sum.batches_in += batches_in;
        sum.bytes_out += bytes_out;
        sum.failed_produces += failed_produces;
        sum.failed_fetches += failed_fetches;
    }
    sum
}
