//! Fetches from the partitions' leaders and hands out records in order, each once.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use levada_log::batch::{self, BatchError, BatchView};
use levada_wire::StrBytes;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use levada_wire::messages::{FetchRequest, FetchResponse};

use super::aborted::Aborted;
use super::format::Shown;
use super::sink::Sink;
use super::{Offsets, Topics, start};
use crate::cluster::{Cluster, EARLIEST, Isolation, LATEST, Topic, TopicPartition};
use crate::failure::Failure;
use crate::kafka_error;

/// Version from which Fetch names topics by id.
const BY_ID: i16 = 13;
/// Epoch of a fetch outside a session.
const NO_SESSION: i32 = -1;
const MAX_BYTES: i32 = 32 << 20;
const PARTITION_MAX_BYTES: i32 = 8 << 20;
/// Time that a leader may wait for new records; with several leaders the others wait too, so it is
/// shorter.
const WAIT_MS: i32 = 500;
const SHARED_WAIT_MS: i32 = 50;
/// The pause where no partition is to be read.
const IDLE: Duration = Duration::from_millis(200);

/// A reader of partitions.
pub(super) struct Fetcher {
    topics: Topics,
    positions: Offsets,
    isolation: Isolation,
    /// Requests so far: each begins with another partition, since an answer is full after some.
    turn: usize,
}

impl Fetcher {
    pub(super) fn new(isolation: Isolation) -> Self {
        Self { topics: Topics::new(), positions: Offsets::new(), isolation, turn: 0 }
    }

    pub(super) fn topics(&self) -> &Topics {
        &self.topics
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub(super) fn positions(&self) -> &Offsets {
        &self.positions
    }

    /// Reads these partitions from now on, and no others.
    pub(super) fn assign(&mut self, topics: Topics, positions: Offsets) {
        self.topics = topics;
        self.positions = positions;
    }

    /// True if every partition has been read up to its end.
    pub(super) fn has_reached(&self, ends: &Offsets) -> bool {
        self.positions.iter().all(|(place, position)| !is_before(ends, place, *position))
    }

    /// Sends one fetch to each leader and prints the records below `ends`.
    pub(super) fn fetch(
        &mut self,
        cluster: &mut Cluster,
        ends: Option<&Offsets>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let by_leader = self.by_leader(ends);
        if by_leader.is_empty() {
            thread::sleep(IDLE);
            return Ok(());
        }
        let wait_ms = if by_leader.len() == 1 { WAIT_MS } else { SHARED_WAIT_MS };
        self.turn = self.turn.wrapping_add(1);
        for (leader, mut places) in by_leader {
            let first = self.turn % places.len();
            places.rotate_left(first);
            let response = self.ask(cluster, leader, &places, wait_ms)?;
            for answer in response.responses {
                let Some(topic) = self.topic_of(&answer) else { continue };
                for data in answer.partitions {
                    self.take(cluster, &topic, data, (ends, sink))?;
                }
            }
        }
        Ok(())
    }

    /// The partitions that are not at their end, by leader.
    fn by_leader(&self, ends: Option<&Offsets>) -> BTreeMap<i32, Vec<TopicPartition>> {
        let mut by_leader: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for (place, position) in &self.positions {
            let leader = self.topics.get(&place.0).and_then(|topic| topic.leaders.get(&place.1));
            if ends.is_none_or(|ends| is_before(ends, place, *position)) {
                by_leader.entry(leader.copied().unwrap_or(-1)).or_default().push(place.clone());
            }
        }
        by_leader
    }

    fn topic_of(&self, answer: &FetchableTopicResponse) -> Option<String> {
        let is_it = |topic: &&Topic| {
            if answer.topic.is_empty() {
                topic.id == answer.topic_id
            } else {
                topic.name == answer.topic.as_str()
            }
        };
        self.topics.values().find(is_it).map(|topic| topic.name.clone())
    }

    fn ask(
        &self,
        cluster: &mut Cluster,
        leader: i32,
        places: &[TopicPartition],
        wait_ms: i32,
    ) -> Result<FetchResponse, Failure> {
        let (name, partition) = places.first().cloned().unwrap_or_default();
        if leader < 0 {
            kafka_error::check(LEADER_NOT_AVAILABLE, &format!("fetch {name}/{partition}"), None)?;
        }
        let client = cluster.broker(leader)?;
        let version = client.best_version::<FetchRequest>()?;
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, partition) in places {
            let Some(topic) = self.topics.get(name) else { continue };
            let position = self.positions.get(&(name.clone(), *partition)).copied().unwrap_or(0);
            let at = *at.entry(name).or_insert_with(|| {
                topics.push(asked_topic(topic, version));
                topics.len() - 1
            });
            topics[at].partitions.push(asked_partition(*partition, position));
        }
        let mut request = FetchRequest::default();
        request.max_wait_ms = wait_ms;
        request.min_bytes = 1;
        request.max_bytes = MAX_BYTES;
        request.isolation_level = self.isolation as i8;
        request.session_epoch = NO_SESSION;
        request.topics = topics;
        let response = client.request_at(version, &request)?;
        kafka_error::check(response.error_code, &format!("fetch {name}"), None)?;
        Ok(response)
    }

    /// Prints the records of one partition's answer that were not printed before.
    fn take(
        &mut self,
        cluster: &mut Cluster,
        topic: &str,
        data: PartitionData,
        (ends, sink): (Option<&Offsets>, &mut Sink<'_>),
    ) -> Result<(), Failure> {
        let partition = data.partition_index;
        let place = (topic.to_owned(), partition);
        let shown = format!("{topic}/{partition}");
        let Some(position) = self.positions.get_mut(&place) else { return Ok(()) };
        if data.error_code == kafka_error::OFFSET_OUT_OF_RANGE {
            return self.step_inside(cluster, &place);
        }
        let checked =
            kafka_error::check(data.error_code, &format!("fetch {shown} at offset {position}"), None);
        kafka_error::needing(checked, "read", &format!("--topic {topic}"))?;
        let end = ends.and_then(|ends| ends.get(&place)).copied().unwrap_or(i64::MAX);
        let mut aborted = Aborted::new(data.aborted_transactions);
        let mut rest = data.records.unwrap_or_default();
        while let Some(batch) = split_batch(&mut rest).map_err(|error| damaged(&shown, *position, &error))? {
            let view = BatchView::parse(&batch).map_err(|error| damaged(&shown, *position, &error))?;
            let wrong = |error| damaged(&shown, view.base_offset(), &error);
            // Control records end transactions; they are no one's data.
            let is_shown = !aborted.holds(&view) && !view.is_control();
            let records = if is_shown { Some(batch::records(&batch).map_err(wrong)?) } else { None };
            for record in records.into_iter().flatten() {
                let record = record.map_err(wrong)?;
                let offset = view.base_offset() + i64::from(record.offset_delta);
                if offset < *position {
                    continue;
                }
                if sink.is_done() {
                    return Ok(());
                }
                if offset >= end {
                    // Compaction may have removed the records directly before the end.
                    *position = (*position).max(end);
                    return Ok(());
                }
                let timestamp_ms = view.timestamp_of(&record);
                sink.show(&Shown { topic, partition, offset, timestamp_ms, record: &record })?;
                *position = offset + 1;
            }
            *position = (*position).max(view.last_offset() + 1);
        }
        Ok(())
    }

    /// Moves a position that the log no longer contains to the nearest end of the log, and prints a
    /// note.
    fn step_inside(&mut self, cluster: &mut Cluster, place: &TopicPartition) -> Result<(), Failure> {
        let Some(topic) = self.topics.get(&place.0) else { return Ok(()) };
        let mut topic = topic.clone();
        topic.leaders.retain(|partition, _| *partition == place.1);
        let topics = Topics::from([(place.0.clone(), topic)]);
        let mut at = |timestamp| {
            let found = start::offsets_at(cluster, &topics, timestamp, Isolation::Uncommitted)?;
            Ok::<_, Failure>(found.get(place).copied().unwrap_or(0))
        };
        let (start, end) = (at(EARLIEST)?, at(LATEST)?);
        let position = self.positions.entry(place.clone()).or_insert(start);
        let shown = format!("{}/{}", place.0, place.1);
        if *position < start {
            tell!(
                "{shown}: offsets {position} to {} are deleted; reading continues at {start}",
                start - 1
            );
            *position = start;
        } else if *position > end {
            tell!(
                "{shown}: the log ends at {end}, before the reached offset {position}; reading continues at {end}"
            );
            *position = end;
        }
        Ok(())
    }
}

const LEADER_NOT_AVAILABLE: i16 = 5;

/// A topic of a fetch request, without partitions.
pub(crate) fn asked_topic(topic: &Topic, version: i16) -> FetchTopic {
    let mut asked = FetchTopic::default();
    if version >= BY_ID {
        asked.topic_id = topic.id;
    } else {
        asked.topic = StrBytes::from(topic.name.as_str());
    }
    asked
}

/// A partition of a fetch request.
pub(crate) fn asked_partition(partition: i32, position: i64) -> FetchPartition {
    let mut asked = FetchPartition::default();
    asked.partition = partition;
    asked.fetch_offset = position;
    asked.current_leader_epoch = -1;
    asked.partition_max_bytes = PARTITION_MAX_BYTES;
    asked
}

fn is_before(ends: &Offsets, place: &TopicPartition, position: i64) -> bool {
    ends.get(place).is_some_and(|end| position < *end)
}

/// The next whole batch, checked against its checksum; `None` at the end and before a batch that
/// was cut off there.
pub(crate) fn split_batch(rest: &mut Bytes) -> Result<Option<Bytes>, BatchError> {
    match batch::check_stored(rest) {
        Ok(view) => Ok(Some(rest.split_to(view.bytes().len()))),
        Err(BatchError::Truncated { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn damaged(place: &str, offset: i64, error: &BatchError) -> Failure {
    Failure::with_next(
        format!("{place}: the batch at offset {offset} is damaged: {error}"),
        "run levada log dump on the segment file: if it finds no fault, the network is the cause",
    )
}
