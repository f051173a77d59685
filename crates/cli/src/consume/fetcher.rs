//! Fetches from the partitions' leaders and hands out records in order, each once.

use std::collections::BTreeMap;

use bytes::Bytes;
use levada_log::batch::{self, BatchError, BatchView};
use levada_wire::{
    StrBytes,
    messages::{
        FetchRequest, FetchResponse,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
    },
};

use super::format::Shown;
use crate::{
    cluster::{Cluster, Topic},
    failure::Failure,
    kafka_error,
};

/// Version from which Fetch names topics by id.
const BY_ID: i16 = 13;
/// Epoch of a fetch outside a session.
const NO_SESSION: i32 = -1;
const MAX_BYTES: i32 = 32 << 20;
const PARTITION_MAX_BYTES: i32 = 8 << 20;
/// How long a leader may wait for new records; with several leaders the others wait too, so it is shorter.
const WAIT_MS: i32 = 500;
const SHARED_WAIT_MS: i32 = 50;

type Print<'p> = &'p mut dyn FnMut(&Shown<'_>) -> Result<(), Failure>;

/// A reader of one topic's partitions.
pub(super) struct Fetcher {
    cluster: Cluster,
    topic: Topic,
    positions: BTreeMap<i32, i64>,
}

impl Fetcher {
    pub(super) fn new(cluster: Cluster, topic: Topic, positions: BTreeMap<i32, i64>) -> Self {
        Self { cluster, topic, positions }
    }

    /// Whether every partition has been read up to its end.
    pub(super) fn has_reached(&self, ends: &BTreeMap<i32, i64>) -> bool {
        self.positions.iter().all(|(partition, position)| !is_before(ends, *partition, *position))
    }

    /// Asks each leader once and prints at most `most` records below `ends`; returns how many.
    pub(super) fn fetch(
        &mut self,
        most: u64,
        ends: Option<&BTreeMap<i32, i64>>,
        print: Print<'_>,
    ) -> Result<u64, Failure> {
        let mut printed = 0;
        let mut leaders: Vec<i32> = self.topic.leaders.values().copied().collect();
        leaders.sort_unstable();
        leaders.dedup();
        let wait_ms = if leaders.len() == 1 { WAIT_MS } else { SHARED_WAIT_MS };
        for leader in leaders {
            let response = self.ask(leader, wait_ms, ends)?;
            for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
                printed += self.take(data, most - printed, ends, print)?;
            }
        }
        Ok(printed)
    }

    fn ask(
        &mut self,
        leader: i32,
        wait_ms: i32,
        ends: Option<&BTreeMap<i32, i64>>,
    ) -> Result<FetchResponse, Failure> {
        let led = self.topic.leaders.iter().filter(|(_, other)| **other == leader);
        let positions =
            led.map(|(partition, _)| (*partition, self.positions.get(partition).copied().unwrap_or(0)));
        let wanted = positions.filter(|(one, at)| ends.is_none_or(|ends| is_before(ends, *one, *at)));
        let mut topic = FetchTopic::default();
        topic.partitions = wanted.map(|(partition, position)| asked(partition, position)).collect();
        if topic.partitions.is_empty() {
            return Ok(FetchResponse::default());
        }
        let client = self.cluster.broker(leader)?;
        let version = client.best_version::<FetchRequest>()?;
        if version >= BY_ID {
            topic.topic_id = self.topic.id;
        } else {
            topic.topic = StrBytes::from(self.topic.name.as_str());
        }
        let mut request = FetchRequest::default();
        request.max_wait_ms = wait_ms;
        request.min_bytes = 1;
        request.max_bytes = MAX_BYTES;
        request.session_epoch = NO_SESSION;
        request.topics = vec![topic];
        let response = client.request_at(version, &request)?;
        kafka_error::check(response.error_code, &format!("fetch {}", self.topic.name), None)?;
        Ok(response)
    }

    /// Prints the records of one partition's answer that were not printed before.
    fn take(
        &mut self,
        data: PartitionData,
        most: u64,
        ends: Option<&BTreeMap<i32, i64>>,
        print: Print<'_>,
    ) -> Result<u64, Failure> {
        let partition = data.partition_index;
        let place = format!("{}/{partition}", self.topic.name);
        let position = self.positions.entry(partition).or_insert(0);
        kafka_error::check(data.error_code, &format!("fetch {place} at offset {position}"), None)?;
        let end = ends.and_then(|ends| ends.get(&partition)).copied().unwrap_or(i64::MAX);
        let mut rest = data.records.unwrap_or_default();
        let mut printed = 0;
        while let Some(batch) = split_batch(&mut rest).map_err(|error| damaged(&place, *position, &error))? {
            let view = BatchView::parse(&batch).map_err(|error| damaged(&place, *position, &error))?;
            let wrong = |error| damaged(&place, view.base_offset(), &error);
            // Control records end transactions; they are no one's data.
            let records = if view.is_control() { None } else { Some(batch::records(&batch).map_err(wrong)?) };
            for record in records.into_iter().flatten() {
                let record = record.map_err(wrong)?;
                let offset = view.base_offset() + i64::from(record.offset_delta);
                if offset < *position {
                    continue;
                }
                if printed == most || offset >= end {
                    return Ok(printed);
                }
                let timestamp_ms = timestamp(&view, record.timestamp_delta);
                print(&Shown { topic: &self.topic.name, partition, offset, timestamp_ms, record: &record })?;
                *position = offset + 1;
                printed += 1;
            }
            *position = (*position).max(view.last_offset() + 1);
        }
        Ok(printed)
    }
}

fn asked(partition: i32, position: i64) -> FetchPartition {
    let mut asked = FetchPartition::default();
    asked.partition = partition;
    asked.fetch_offset = position;
    asked.current_leader_epoch = -1;
    asked.partition_max_bytes = PARTITION_MAX_BYTES;
    asked
}

fn is_before(ends: &BTreeMap<i32, i64>, partition: i32, position: i64) -> bool {
    ends.get(&partition).is_some_and(|end| position < *end)
}

/// The next whole batch, checked against its checksum; `None` at the end and before a batch that was cut off there.
fn split_batch(rest: &mut Bytes) -> Result<Option<Bytes>, BatchError> {
    match batch::check_stored(rest) {
        Ok(view) => Ok(Some(rest.split_to(view.bytes().len()))),
        Err(BatchError::Truncated { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn timestamp(view: &BatchView<'_>, delta: i64) -> i64 {
    match view.is_log_append_time() {
        true => view.max_timestamp(),
        false => view.base_timestamp().saturating_add(delta),
    }
}

fn damaged(place: &str, offset: i64, error: &BatchError) -> Failure {
    Failure::with_next(
        format!("{place}: the batch at offset {offset} is damaged: {error}"),
        "levada log dump on the segment file, to see whether the disk or the network is at fault",
    )
}
