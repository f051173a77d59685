//! A member of a share group, and a broker that notes its requests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_wire::ApiKey;
use levada_wire::messages::share_fetch_response::{
    AcquiredRecords, PartitionData, ShareFetchableTopicResponse,
};
use levada_wire::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use levada_wire::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};

use super::*;
use crate::connection::ConnectionOptions;
use crate::fake_broker::{Asked, FakeBroker};
use crate::login::Login;
use crate::share_offsets;

const TOPIC: Uuid = Uuid::from_bytes(1_u128.to_be_bytes());

/// First and last offset, and types, of acknowledgements.
type Acknowledged = Vec<(i64, i64, Vec<i8>)>;

/// Requests of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Beat(i32),
    /// Session epoch, acquire mode, records at most, acknowledgements.
    Fetch(i32, i8, i32, Acknowledged),
    /// Session epoch, renewal, acknowledgements.
    Acknowledge(i32, bool, Acknowledged),
}

/// A topic `t` with one partition, whose records 10 to 13 are acquired by the next fetch; there is
/// no record 12.
#[derive(Default)]
struct Leader {
    seen: Vec<Seen>,
    has_delivered: bool,
    /// Error code of the next fetch.
    code: i16,
}

impl Leader {
    fn answer(&mut self, asked: &Asked) -> Option<Bytes> {
        match asked.header.api {
            ApiKey::Metadata => asked.metadata(&[("t", 1, &[1])]),
            ApiKey::FindCoordinator => asked.coordinator(),
            ApiKey::ShareGroupHeartbeat => asked.answer(&self.beat(&asked.decoded())),
            ApiKey::ShareFetch => asked.answer(&self.fetch(&asked.decoded())),
            ApiKey::ShareAcknowledge => {
                let request: ShareAcknowledgeRequest = asked.decoded();
                let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
                let batches = partitions.flat_map(|one| &one.acknowledgement_batches);
                let batches =
                    batches.map(|one| (one.first_offset, one.last_offset, one.acknowledge_types.clone()));
                let (epoch, renews) = (request.share_session_epoch, request.is_renew_ack);
                self.seen.push(Seen::Acknowledge(epoch, renews, batches.collect()));
                asked.answer(&ShareAcknowledgeResponse::default())
            }
            other => panic!("{other:?}"),
        }
    }

    fn beat(&mut self, request: &ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse {
        self.seen.push(Seen::Beat(request.member_epoch));
        let mut topic = TopicPartitions::default();
        (topic.topic_id, topic.partitions) = (TOPIC, vec![0]);
        let mut assignment = Assignment::default();
        assignment.topic_partitions = vec![topic];
        let mut response = ShareGroupHeartbeatResponse::default();
        (response.member_epoch, response.heartbeat_interval_ms) = (3, 60_000);
        response.assignment = Some(assignment);
        response
    }

    fn fetch(&mut self, request: &ShareFetchRequest) -> ShareFetchResponse {
        let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
        let batches = partitions.flat_map(|one| &one.acknowledgement_batches);
        let batches = batches.map(|one| (one.first_offset, one.last_offset, one.acknowledge_types.clone()));
        let (epoch, mode) = (request.share_session_epoch, request.share_acquire_mode);
        self.seen.push(Seen::Fetch(epoch, mode, request.max_records, batches.collect()));
        let mut response = ShareFetchResponse::default();
        response.error_code = std::mem::take(&mut self.code);
        if self.has_delivered || response.error_code != 0 {
            return response;
        }
        self.has_delivered = true;
        let mut data = PartitionData::default();
        // Record 9 is in the batch, and of another member.
        let batch = |base, count| {
            let mut builder = Builder::new().base_offset(base);
            (0..count).for_each(|_| {
                builder.push(5, None, Some(b"value"));
            });
            builder.build().unwrap()
        };
        data.records = [batch(9, 3), batch(13, 1)].concat().into();
        let range = |first_offset, last_offset, delivery_count| {
            let mut range = AcquiredRecords::default();
            (range.first_offset, range.last_offset, range.delivery_count) =
                (first_offset, last_offset, delivery_count);
            range
        };
        data.acquired_records = vec![range(10, 10, 2), range(11, 13, 1)];
        let mut topic = ShareFetchableTopicResponse::default();
        (topic.topic_id, topic.partitions) = (TOPIC, vec![data]);
        response.acquisition_lock_timeout_ms = 30_000;
        response.responses = vec![topic];
        response
    }
}

/// A member that has joined, its cluster, and the broker.
fn joined() -> (ShareMember, Cluster, Arc<Mutex<Leader>>) {
    let leader = Arc::new(Mutex::new(Leader::default()));
    let own = leader.clone();
    let broker = FakeBroker::start(move |asked| own.lock().unwrap().answer(asked));
    let mut cluster =
        Cluster::connect(broker.address(), Login::default(), ConnectionOptions::default()).unwrap();
    let mut member = ShareMember::new("g", ["t"].into_iter());
    assert!(!member.has_partitions());
    member.beat(&mut cluster).unwrap();
    assert!(member.has_partitions());
    (member, cluster, leader)
}

fn seen(leader: &Arc<Mutex<Leader>>) -> Vec<Seen> {
    std::mem::take(&mut leader.lock().unwrap().seen)
}

#[test]
fn each_acquired_record_is_acknowledged_once() {
    let (mut member, mut cluster, leader) = joined();
    let records = member.fetch(&mut cluster, 500).unwrap();
    let offsets = records.iter().map(|record| (record.offset, record.deliveries));
    assert_eq!(offsets.collect::<Vec<_>>(), [(10, 2), (11, 1), (13, 1)]);
    assert_eq!(member.lock_duration(), Some(Duration::from_secs(30)));
    assert_eq!(seen(&leader), [Seen::Beat(0), Seen::Fetch(0, 0, 500, vec![])]);
    member.acknowledge(&records[0], Acknowledgement::Accept);
    member.acknowledge(&records[1], Acknowledgement::Reject);
    assert!(member.fetch(&mut cluster, 500).unwrap().is_empty());
    // Offset 12 has no record.
    assert_eq!(seen(&leader), [Seen::Fetch(1, 0, 500, vec![(10, 12, vec![1, 3, 0])])]);
    member.renew(&mut cluster, &records[2]).unwrap();
    member.acknowledge(&records[2], Acknowledgement::Release);
    member.flush(&mut cluster).unwrap();
    member.flush(&mut cluster).unwrap();
    member.leave(&mut cluster).unwrap();
    let expected = [
        Seen::Acknowledge(2, true, vec![(13, 13, vec![4])]),
        Seen::Acknowledge(3, false, vec![(13, 13, vec![2])]),
        Seen::Acknowledge(-1, false, vec![]),
        Seen::Beat(-1),
    ];
    assert_eq!(seen(&leader), expected);
    assert_eq!(member.take_lost(), []);
}

#[test]
fn limited_fetches_lock_single_records() {
    let (mut member, mut cluster, leader) = joined();
    member.fetch(&mut cluster, 2).unwrap();
    assert_eq!(seen(&leader)[1], Seen::Fetch(0, 1, 2, vec![]));
}

#[test]
fn ended_share_session_drops_its_acknowledgements() {
    let (mut member, mut cluster, leader) = joined();
    let records = member.fetch(&mut cluster, 500).unwrap();
    member.acknowledge(&records[0], Acknowledgement::Accept);
    leader.lock().unwrap().code = ErrorCode::ShareSessionNotFound.code();
    assert!(member.fetch(&mut cluster, 500).unwrap().is_empty());
    let lost =
        |code: ErrorCode| LostAcknowledgement { topic: "t".to_owned(), partition: 0, code: code.code() };
    assert_eq!(member.take_lost(), [lost(ErrorCode::ShareSessionNotFound)]);
    seen(&leader);
    member.fetch(&mut cluster, 500).unwrap();
    assert_eq!(seen(&leader), [Seen::Fetch(0, 0, 500, vec![])], "a new session");
    member.acknowledge(&records[1], Acknowledgement::Accept);
    assert_eq!(member.take_lost(), [lost(ErrorCode::InvalidRecordState)], "of the former session");
}

#[test]
fn removed_share_member_rejoins() {
    let (mut member, mut cluster, leader) = joined();
    leader.lock().unwrap().code = ErrorCode::UnknownMemberId.code();
    let error = member.fetch(&mut cluster, 500).unwrap_err();
    assert_eq!(error.cause().code(), Some(ErrorCode::UnknownMemberId));
    seen(&leader);
    member.beat(&mut cluster).unwrap();
    assert_eq!(seen(&leader), [Seen::Beat(0)]);
}

#[test]
fn impossible_acquired_ranges_take_no_memory() {
    let mut range = AcquiredRecords::default();
    for (first, last) in [(0, i64::MAX), (5, 4), (i64::MIN, i64::MAX), (0, 1 << 40)] {
        (range.first_offset, range.last_offset) = (first, last);
        let found = acquired(&("t".to_owned(), 0), (1, 1), Bytes::new(), &[range.clone()]);
        assert!(matches!(found, Err(ClientError::AcquiredRange { .. })), "{first} to {last}");
    }
}

#[test]
fn unknown_share_offsets_are_none() {
    use levada_wire::messages::describe_share_group_offsets_response::{
        DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
        DescribeShareGroupOffsetsResponseTopic,
    };
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::FindCoordinator => asked.coordinator(),
        _ => {
            let partition = |(index, start, lag, code)| {
                let mut one = DescribeShareGroupOffsetsResponsePartition::default();
                (one.partition_index, one.start_offset, one.lag, one.error_code) = (index, start, lag, code);
                one
            };
            let mut topic = DescribeShareGroupOffsetsResponseTopic::default();
            topic.topic_name = StrBytes::from("t");
            topic.partitions = [(0, 7, 2, 0), (1, -1, -1, 0), (2, 0, -1, 5)].map(partition).to_vec();
            let mut group = DescribeShareGroupOffsetsResponseGroup::default();
            group.topics = vec![topic];
            let mut response = levada_wire::messages::DescribeShareGroupOffsetsResponse::default();
            response.groups = vec![group];
            asked.answer(&response)
        }
    });
    let mut cluster =
        Cluster::connect(broker.address(), Login::default(), ConnectionOptions::default()).unwrap();
    let offsets = share_offsets::describe(&mut cluster, "g").unwrap();
    let shown = offsets.values().map(|one| (one.start, one.lag, one.error_code)).collect::<Vec<_>>();
    assert_eq!(shown, [(Some(7), Some(2), 0), (None, None, 0), (None, None, 5)]);
}
