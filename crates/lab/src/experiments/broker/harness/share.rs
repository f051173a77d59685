//! Members of share groups (KIP-932): each has a connection with its share session, and a list of
//! acquired records that it has not acknowledged.
//!
//! The members of `levada-client` share connections and decode each record. Here each member has
//! its own connection and may discard records without decoding, so that the client costs little
//! beside the broker, and the same with each system.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use levada_wire::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch,
};
use levada_wire::messages::share_fetch_request::{
    AcknowledgementBatch as FetchAcknowledgement, FetchPartition, FetchTopic,
};
use levada_wire::messages::{
    ShareAcknowledgeRequest, ShareFetchRequest, ShareFetchResponse, ShareGroupHeartbeatRequest,
};
use levada_wire::{StrBytes, Uuid};

use crate::error::LabError;
use crate::experiments::broker::harness::config;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::coordinator;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;

/// Versions that Kafka 4.3 and 4.4 have.
const HEARTBEAT_VERSION: i16 = 1;
const FETCH_VERSION: i16 = 2;

/// Settings of brokers. During a measurement members need no heartbeat and locks do not expire. A
/// group may have 1 000 members, each with its session, and as many records in flight as Kafka
/// allows.
pub(crate) const SETTINGS: [(&str, &str); 9] = [
    ("group.share.max.session.timeout.ms", "3600000"),
    ("group.share.session.timeout.ms", "3600000"),
    ("group.share.max.record.lock.duration.ms", "3600000"),
    ("group.share.record.lock.duration.ms", "3600000"),
    ("group.share.assignment.interval.ms", "0"),
    ("group.share.max.size", "1000"),
    ("group.share.max.share.sessions", "3000"),
    ("group.share.max.partition.max.record.locks", "10000"),
    ("group.share.partition.max.record.locks", "10000"),
];

/// Limit for the time in which a group assigns its partitions.
const LIMIT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(10);

/// Epochs of a member that leaves, and of the last request of a session.
const LEAVING: i32 = -1;
const CLOSING: i32 = -1;

/// Acknowledgement type of a processed record.
const ACCEPT: i8 = 1;

/// Limits of a share fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchLimits {
    pub(crate) max_bytes: i32,
    pub(crate) max_records: i32,
    pub(crate) max_wait_ms: i32,
}

/// Records that a fetch has acquired: a partition and its offsets.
pub(crate) type Acquired = (i32, RangeInclusive<i64>);

/// A member with its connection and share session.
#[derive(Debug)]
pub(crate) struct Member {
    connection: Connection,
    group: StrBytes,
    id: StrBytes,
    topic: (StrBytes, Uuid),
    epoch: i32,
    partitions: Vec<i32>,
    session_epoch: i32,
    /// Acquired records that the member has not acknowledged.
    pub(crate) held: Vec<Acquired>,
}

/// Starts the members of one group, whose topic begins at the first record. Returns once each
/// member has its partitions.
pub(crate) fn join(node: &Node, group: &str, topic: &str, count: usize) -> Result<Vec<Member>, LabError> {
    config::alter(node, (config::GROUP, group), &[("share.auto.offset.reset", Some("earliest"))])?;
    coordinator::find(node, (coordinator::GROUP, group))?;
    let member = |_| Member::new(node, group, topic);
    let mut members = (0..count).map(member).collect::<Result<Vec<_>, LabError>>()?;
    let start = Instant::now();
    while !members.iter_mut().try_fold(true, |is_settled, member| Ok(member.beat()? && is_settled))? {
        if start.elapsed() > LIMIT {
            return Err(node.failed("does not give each member of a share group its partitions"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(members)
}

impl Member {
    fn new(node: &Node, group: &str, topic: &str) -> Result<Self, LabError> {
        let mut connection = Connection::open(node.address())?;
        let topic = (StrBytes::from(topic), topic::id(&mut connection, topic)?);
        let id = StrBytes::from(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>()));
        let group = StrBytes::from(group);
        let (partitions, held) = (Vec::new(), Vec::new());
        Ok(Self { connection, group, id, topic, epoch: 0, partitions, session_epoch: 0, held })
    }

    /// Sends a heartbeat. Returns true if the heartbeat changed nothing and the member has
    /// partitions.
    fn beat(&mut self) -> Result<bool, LabError> {
        let mut request = ShareGroupHeartbeatRequest::default();
        (request.group_id, request.member_id) = (self.group.clone(), self.id.clone());
        request.member_epoch = self.epoch;
        request.subscribed_topic_names = (self.epoch == 0).then(|| vec![self.topic.0.clone()]);
        let response = self.connection.ask(HEARTBEAT_VERSION, &request)?;
        match response.error_code {
            0 => {}
            code if coordinator::is_loading(code) => return Ok(false),
            code => return Err(frames::refused("ShareGroupHeartbeat", code)),
        }
        let mut is_same = self.epoch == response.member_epoch;
        self.epoch = response.member_epoch;
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.into_iter();
            let partitions: Vec<i32> = topics.flat_map(|topic| topic.partitions).collect();
            is_same &= partitions == self.partitions;
            self.partitions = partitions;
        }
        Ok(is_same && !self.partitions.is_empty())
    }

    /// Fetches records of the only partition and discards them. Returns their number of bytes. The
    /// member does not remember these records as acquired.
    pub(crate) fn skim(&mut self, limits: FetchLimits, expected: usize) -> Result<usize, LabError> {
        let request = self.fetch_request(limits);
        self.connection.send(&frames::request(FETCH_VERSION, &request)?)?;
        self.session_epoch += 1;
        frames::share_fetched(self.connection.receive(expected)?)
    }

    /// Fetches records and acknowledges all records that the member holds. The member then holds
    /// the new records.
    pub(crate) fn fetch(&mut self, limits: FetchLimits) -> Result<ShareFetchResponse, LabError> {
        let request = self.fetch_request(limits);
        let response = self.connection.ask(FETCH_VERSION, &request)?;
        self.session_epoch += 1;
        let partitions = || response.responses.iter().flat_map(|topic| &topic.partitions);
        let codes = partitions().flat_map(|one| [one.error_code, one.acknowledge_error_code]);
        if let Some(error) = [response.error_code].into_iter().chain(codes).find(|code| *code != 0) {
            return Err(frames::refused("ShareFetch", error));
        }
        for one in partitions() {
            let acquired =
                one.acquired_records.iter().map(|acquired| acquired.first_offset..=acquired.last_offset);
            self.held.extend(acquired.map(|offsets| (one.partition_index, offsets)));
        }
        Ok(response)
    }

    /// Returns the next fetch request, with acknowledgements of all records that the member holds.
    fn fetch_request(&mut self, limits: FetchLimits) -> ShareFetchRequest {
        let mut request = ShareFetchRequest::default();
        (request.group_id, request.member_id) = (Some(self.group.clone()), Some(self.id.clone()));
        request.share_session_epoch = self.session_epoch;
        (request.min_bytes, request.max_bytes) = (1, limits.max_bytes);
        (request.max_records, request.batch_size) = (limits.max_records, limits.max_records);
        request.max_wait_ms = limits.max_wait_ms;
        let held = std::mem::take(&mut self.held);
        request.topics = self.fetched(&held);
        request
    }

    /// Returns the partitions with which a session begins, or those with acknowledgements.
    fn fetched(&self, held: &[Acquired]) -> Vec<FetchTopic> {
        let named = |partition: &i32| {
            let mut named = FetchPartition::default();
            named.partition_index = *partition;
            let own = held.iter().filter(|(of, _)| of == partition);
            let batch = |(_, offsets): &Acquired| {
                let mut batch = FetchAcknowledgement::default();
                (batch.first_offset, batch.last_offset) = (*offsets.start(), *offsets.end());
                batch.acknowledge_types = vec![ACCEPT];
                batch
            };
            named.acknowledgement_batches = own.map(batch).collect();
            (self.session_epoch == 0 || !named.acknowledgement_batches.is_empty()).then_some(named)
        };
        let partitions: Vec<FetchPartition> = self.partitions.iter().filter_map(named).collect();
        if partitions.is_empty() {
            return Vec::new();
        }
        let mut topic = FetchTopic::default();
        (topic.topic_id, topic.partitions) = (self.topic.1, partitions);
        vec![topic]
    }

    /// Acknowledges a range of records in one request.
    pub(crate) fn acknowledge(&mut self, (partition, offsets): &Acquired) -> Result<(), LabError> {
        let mut batch = AcknowledgementBatch::default();
        (batch.first_offset, batch.last_offset) = (*offsets.start(), *offsets.end());
        batch.acknowledge_types = vec![ACCEPT];
        let mut acknowledged = AcknowledgePartition::default();
        (acknowledged.partition_index, acknowledged.acknowledgement_batches) = (*partition, vec![batch]);
        let mut topic = AcknowledgeTopic::default();
        (topic.topic_id, topic.partitions) = (self.topic.1, vec![acknowledged]);
        self.send_acknowledgements(self.session_epoch, vec![topic])?;
        self.session_epoch += 1;
        Ok(())
    }

    /// Acknowledges all records that the member holds.
    pub(crate) fn settle(&mut self) -> Result<(), LabError> {
        let held = std::mem::take(&mut self.held);
        held.iter().try_for_each(|acquired| self.acknowledge(acquired))
    }

    fn send_acknowledgements(&mut self, epoch: i32, topics: Vec<AcknowledgeTopic>) -> Result<(), LabError> {
        let mut request = ShareAcknowledgeRequest::default();
        (request.group_id, request.member_id) = (Some(self.group.clone()), Some(self.id.clone()));
        (request.share_session_epoch, request.topics) = (epoch, topics);
        let response = self.connection.ask(FETCH_VERSION, &request)?;
        let codes =
            response.responses.iter().flat_map(|topic| topic.partitions.iter().map(|one| one.error_code));
        match [response.error_code].into_iter().chain(codes).find(|code| *code != 0) {
            None => Ok(()),
            Some(error) => Err(frames::refused("ShareAcknowledge", error)),
        }
    }

    /// Closes the session, which releases the held records, and leaves the group.
    pub(crate) fn leave(mut self) -> Result<(), LabError> {
        self.send_acknowledgements(CLOSING, Vec::new())?;
        let mut request = ShareGroupHeartbeatRequest::default();
        (request.group_id, request.member_id, request.member_epoch) =
            (self.group.clone(), self.id.clone(), LEAVING);
        match self.connection.ask(HEARTBEAT_VERSION, &request)?.error_code {
            0 => Ok(()),
            error => Err(frames::refused("ShareGroupHeartbeat", error)),
        }
    }
}
