//! Fetches from the partitions' leaders and hands out records in order, each once.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch::{self, BatchError, BatchView};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::fetch_request::FetchTopic;
use levada_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use levada_wire::messages::{FetchRequest, FetchResponse};

use self::aborted::Aborted;
pub use self::request::{asked_partition, asked_topic, split_batch};
pub use self::sink::{FetchedRecord, Sink};
use crate::cluster::{Cluster, EARLIEST, Isolation, LATEST, NO_LEADER, OffsetQuery, Topic, TopicPartition};
use crate::error::{Cause, Caused, ClientError};
use crate::notice::Notice;
use crate::refusal::{Operation, Refusal};

mod aborted;
mod request;
mod sink;
#[cfg(test)]
mod tests;

/// Epoch of a fetch outside a session.
const NO_SESSION: i32 = -1;
const MAX_BYTES: i32 = 32 << 20;
/// Time that a leader may wait for new records; with several leaders the others wait too, so it is
/// shorter.
const WAIT_MS: i32 = 500;
const SHARED_WAIT_MS: i32 = 50;
/// The pause where no partition is to be read.
const IDLE: Duration = Duration::from_millis(200);
/// Minimum time between two searches for leaders.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// An offset for each partition.
pub type Offsets = BTreeMap<TopicPartition, i64>;
/// Topics by name, each with the only partitions to read.
pub type Topics = BTreeMap<String, Topic>;

/// A reader of partitions, without a group. It knows which topics to read and from where; a caller
/// assigns them again with the present leaders once [`Fetcher::is_outdated`].
#[derive(Debug)]
pub struct Fetcher {
    topics: Topics,
    positions: Offsets,
    /// Partitions without a start position, because they have had no leader so far.
    unplaced: Vec<TopicPartition>,
    ends: Option<Ends>,
    isolation: Isolation,
    /// Number of requests so far: each begins with another partition, because a response may be
    /// full before its last partition.
    turn: usize,
    assigned_at: Instant,
    /// Leaders may have changed since the topics were assigned.
    is_stale: bool,
}

/// The first offset of each partition that is not to be read.
#[derive(Debug)]
struct Ends {
    offsets: Offsets,
    /// Ends of the log, which can become shorter. Otherwise offsets that the log may still reach.
    are_of_logs: bool,
}

impl Fetcher {
    /// A reader without topics, of all records or of those of committed transactions.
    #[must_use]
    pub fn new(isolation: Isolation) -> Self {
        Self {
            topics: Topics::new(),
            positions: Offsets::new(),
            unplaced: Vec::new(),
            ends: None,
            isolation,
            turn: 0,
            assigned_at: Instant::now(),
            is_stale: false,
        }
    }

    /// The assigned topics.
    #[must_use]
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Isolation level of the fetches.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The next offset of each partition that has a position.
    #[must_use]
    pub fn positions(&self) -> &Offsets {
        &self.positions
    }

    /// True if this partition is being read, or will be once it has a leader.
    #[must_use]
    pub fn holds(&self, place: &TopicPartition) -> bool {
        self.positions.contains_key(place) || self.unplaced.contains(place)
    }

    /// Reads the partitions of these topics from now on, and no others. Partitions without a
    /// position wait for a leader. Forgets the ends of topics that were created again.
    pub fn assign(&mut self, topics: Topics, positions: Offsets) {
        debug_assert!(positions.keys().all(|place| topics.contains_key(&place.0)), "{positions:?}");
        if let Some(ends) = &mut self.ends {
            let id = |topics: &Topics, name: &String| topics.get(name).map(|topic| topic.id);
            ends.offsets.retain(|(name, _), _| id(&topics, name) == id(&self.topics, name));
        }
        let places = topics.values().flat_map(places_of);
        self.unplaced = places.filter(|place| !positions.contains_key(place)).collect();
        self.topics = topics;
        self.positions = positions;
        self.assigned_at = Instant::now();
        self.is_stale = false;
    }

    /// Notes that the leaders may have changed.
    pub fn doubt(&mut self) {
        self.is_stale = true;
    }

    /// True if the topics should be assigned again, with the present leaders.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.is_stale && self.assigned_at.elapsed() >= SEARCH_PAUSE
    }

    /// True if an end is set.
    #[must_use]
    pub fn has_ends(&self) -> bool {
        self.ends.is_some()
    }

    /// Continues beyond the ends that were set.
    pub fn forget_ends(&mut self) {
        self.ends = None;
    }

    /// Ends at these offsets, in addition to the known ones. `are_of_logs` is true for ends of
    /// logs.
    pub fn end_at(&mut self, offsets: Offsets, are_of_logs: bool) {
        let known = self.ends.take().map(|ends| ends.offsets);
        let mut all = known.unwrap_or_default();
        all.extend(offsets);
        self.ends = Some(Ends { offsets: all, are_of_logs });
    }

    /// The topics with the partitions whose end is to be looked up; none if all are known.
    #[must_use]
    pub fn without_end(&self) -> Topics {
        let Some(ends) = &self.ends else { return self.topics.clone() };
        let mut topics = Topics::new();
        for place in self.positions.keys().filter(|place| !ends.offsets.contains_key(*place)) {
            let Some(topic) = self.topics.get(&place.0) else { continue };
            let leader = self.leader(place);
            if leader != NO_LEADER {
                let without = || Topic { leaders: BTreeMap::new(), ..topic.clone() };
                topics.entry(place.0.clone()).or_insert_with(without).leaders.insert(place.1, leader);
            }
        }
        topics
    }

    /// True if every partition has been read up to its end.
    #[must_use]
    pub fn has_reached_ends(&self) -> bool {
        let Some(ends) = &self.ends else { return false };
        let mut places = self.positions.iter();
        self.unplaced.is_empty()
            && places.all(|(place, position)| ends.offsets.get(place).is_some_and(|end| position >= end))
    }

    /// Sends one fetch to each leader and passes the records before the ends to `sink`, each once,
    /// in the order of their partition. Blocks up to 0.5 s while there are no new records.
    ///
    /// # Errors
    /// An error of the sink, or of the client. One that passes (see [`Cause::passes`]) does not
    /// keep it from the other partitions, and is returned last. Refusals are not returned while
    /// other partitions have new records.
    pub fn fetch<S: Sink>(&mut self, cluster: &mut Cluster, sink: &mut S) -> Result<(), S::Error> {
        let mut by_leader = self.by_leader();
        let without = by_leader.remove(&NO_LEADER).unwrap_or_default();
        let mut fault = without.first().map(leaderless);
        if by_leader.is_empty() && fault.is_none() {
            thread::sleep(IDLE);
            return Ok(());
        }
        let wait_ms = if by_leader.len() == 1 { WAIT_MS } else { SHARED_WAIT_MS };
        self.turn = self.turn.wrapping_add(1);
        let mut has_moved = false;
        for (leader, mut places) in by_leader {
            if sink.is_done() {
                return Ok(());
            }
            let first = self.turn % places.len();
            places.rotate_left(first);
            let mut found = Vec::new();
            match self.ask(cluster, leader, &places, wait_ms) {
                Ok(response) => match self.take_all(cluster, response, sink, &mut found) {
                    Ok(moved) => has_moved |= moved,
                    Err(Fault::Client(error)) => return Err(error.into()),
                    Err(Fault::Sink(error)) => return Err(error),
                },
                Err(error) => found.push(error),
            }
            for error in found {
                if !error.cause().passes() {
                    return Err(error.into());
                }
                // A lost connection has to be replaced.
                if fault.is_none() || error.cause() == Cause::Connection {
                    fault = Some(error);
                }
            }
        }
        let Some(error) = fault else { return Ok(()) };
        self.is_stale = true;
        if has_moved && error.cause() != Cause::Connection { Ok(()) } else { Err(error.into()) }
    }

    /// Passes on the records of a response; returns true if there were any. Adds errors that pass.
    fn take_all<S: Sink>(
        &mut self,
        cluster: &mut Cluster,
        response: FetchResponse,
        sink: &mut S,
        passing: &mut Vec<ClientError>,
    ) -> Result<bool, Fault<S::Error>> {
        let mut has_moved = false;
        for answer in response.responses {
            let Some(topic) = self.topic_of(&answer) else { continue };
            for data in answer.partitions {
                let place = (topic.clone(), data.partition_index);
                let before = self.positions.get(&place).copied();
                match self.take(cluster, &place, data, sink) {
                    Err(Fault::Client(error)) if error.cause().passes() => passing.push(error),
                    taken => taken?,
                }
                has_moved |= self.positions.get(&place).copied() != before;
            }
        }
        Ok(has_moved)
    }

    /// The partitions that are not at their end, by leader; those without a start position are
    /// under [`NO_LEADER`] too.
    fn by_leader(&self) -> BTreeMap<i32, Vec<TopicPartition>> {
        let mut by_leader: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for (place, position) in &self.positions {
            let leader = self.leader(place);
            let is_wanted = match &self.ends {
                None => true,
                // Without an end it is read once that is known.
                Some(ends) => match ends.offsets.get(place) {
                    Some(end) => position < end,
                    None => leader == NO_LEADER,
                },
            };
            if is_wanted {
                by_leader.entry(leader).or_default().push(place.clone());
            }
        }
        if !self.unplaced.is_empty() {
            by_leader.entry(NO_LEADER).or_default().extend(self.unplaced.iter().cloned());
        }
        by_leader
    }

    fn leader(&self, place: &TopicPartition) -> i32 {
        let leader = self.topics.get(&place.0).and_then(|topic| topic.leaders.get(&place.1));
        leader.copied().unwrap_or(NO_LEADER)
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
    ) -> Result<FetchResponse, ClientError> {
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
        let topic = || places.first().map_or_else(String::new, |(name, _)| name.clone());
        Refusal::check(response.error_code, None, || Operation::Fetch { topic: topic() })?;
        Ok(response)
    }

    /// Passes on the records of one partition's response that were not passed on before.
    fn take<S: Sink>(
        &mut self,
        cluster: &mut Cluster,
        place: &TopicPartition,
        data: PartitionData,
        sink: &mut S,
    ) -> Result<(), Fault<S::Error>> {
        let (topic, partition) = (place.0.as_str(), place.1);
        let Some(position) = self.positions.get_mut(place) else { return Ok(()) };
        if data.error_code == ErrorCode::OffsetOutOfRange.code() {
            return Ok(self.step_inside(cluster, place, sink)?);
        }
        Refusal::check(data.error_code, None, || fetching(place, Some(*position)))
            .map_err(ClientError::from)?;
        let high_watermark = data.high_watermark;
        let is_empty = data.records.as_ref().is_none_or(Bytes::is_empty);
        let end = self.ends.as_ref().and_then(|ends| ends.offsets.get(place));
        let end = end.copied().unwrap_or(i64::MAX);
        let mut aborted = Aborted::new(data.aborted_transactions);
        let mut rest = data.records.unwrap_or_default();
        while let Some(batch) = split_batch(&mut rest).map_err(|error| damaged(place, *position, error))? {
            let view = BatchView::parse(&batch).map_err(|error| damaged(place, *position, error))?;
            let wrong = |error| damaged(place, view.base_offset(), error);
            // Control records end transactions; they contain no data for consumers.
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
                let (deliveries, record) = (None, &record);
                let fetched = FetchedRecord { topic, partition, offset, timestamp_ms, deliveries, record };
                sink.take(&fetched).map_err(Fault::Sink)?;
                *position = offset + 1;
            }
            *position = (*position).max(view.last_offset() + 1);
        }
        let is_at_the_end = is_empty && (high_watermark..end).contains(&*position);
        if is_at_the_end {
            self.shorten(cluster, place, sink)?;
        }
        Ok(())
    }

    /// Moves a position that the log no longer contains to the nearest end of the log.
    fn step_inside(
        &mut self,
        cluster: &mut Cluster,
        place: &TopicPartition,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        let mut at = |timestamp| self.offset_at(cluster, place, timestamp);
        let (start, end) = (at(EARLIEST)?, at(LATEST)?);
        let position = self.positions.entry(place.clone()).or_insert(start);
        let shown = (place.0.as_str(), place.1);
        if *position < start {
            sink.notice(Notice::Deleted { place: shown, position: *position, start });
            *position = start;
        } else if *position > end {
            sink.notice(Notice::Beyond { place: shown, position: *position, end });
            *position = end;
        }
        self.lower_end(place, end);
        Ok(())
    }

    /// Lowers the ends if the log has become shorter, as after the election of a replica that was
    /// not in sync: the former end may never be reached. A new leader does not respond before it
    /// knows its high watermark.
    fn shorten(
        &mut self,
        cluster: &mut Cluster,
        place: &TopicPartition,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        if self.ends.as_ref().is_some_and(|ends| ends.are_of_logs) {
            let end = self.offset_at(cluster, place, LATEST)?;
            if self.lower_end(place, end) {
                sink.notice(Notice::Shortened { place: (place.0.as_str(), place.1), end });
            }
        }
        Ok(())
    }

    /// Returns true if the end was a later one.
    fn lower_end(&mut self, place: &TopicPartition, end: i64) -> bool {
        let ends = self.ends.as_mut().filter(|ends| ends.are_of_logs);
        match ends.and_then(|ends| ends.offsets.get_mut(place)) {
            Some(known) if *known > end => {
                *known = end;
                true
            }
            _ => false,
        }
    }

    /// An offset of one partition's log.
    fn offset_at(
        &self,
        cluster: &mut Cluster,
        place: &TopicPartition,
        timestamp: i64,
    ) -> Result<i64, ClientError> {
        let (topic, partition) = (place.0.as_str(), place.1);
        let leader = self.leader(place);
        let query = OffsetQuery { topic, partition, leader, timestamp };
        let found = cluster.look_up(&[query], Isolation::Uncommitted)?;
        let found = found.get(place).map(|found| found.offset);
        found.ok_or_else(|| ClientError::NoOffset { topic: topic.to_owned(), partition })
    }
}

/// An error of the client, or of the sink.
enum Fault<E> {
    Client(ClientError),
    Sink(E),
}

impl<E> From<ClientError> for Fault<E> {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// The partitions of a topic.
pub fn places_of(topic: &Topic) -> impl Iterator<Item = TopicPartition> {
    topic.leaders.keys().map(|partition| (topic.name.clone(), *partition))
}

fn damaged(place: &TopicPartition, offset: i64, reason: BatchError) -> ClientError {
    ClientError::DamagedBatch { topic: place.0.clone(), partition: place.1, offset, reason }
}

fn fetching(place: &TopicPartition, offset: Option<i64>) -> Operation {
    Operation::FetchPartition { topic: place.0.clone(), partition: place.1, offset }
}

fn leaderless(place: &TopicPartition) -> ClientError {
    let code = ErrorCode::LeaderNotAvailable.code();
    Refusal { operation: fetching(place, None), code, message: None }.into()
}
