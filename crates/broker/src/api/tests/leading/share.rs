//! Members of share groups: ShareFetch and ShareAcknowledge, with the share coordinator in the same
//! broker.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch::{BatchView, Builder, EndMarker, Marker};
use levada_coordination::share_state::request::{InitializePart, ReadPart};
use levada_metadata::records::{ConfigRecord, FeatureLevelRecord, PartitionChangeRecord};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    KafkaRequest, KafkaResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
    ShareFetchResponse, share_acknowledge_request, share_fetch_request, share_fetch_response,
};

use super::rig::{OTHER, Rig, change};
use super::{LONG, LONG_MS, OK, begun};
use crate::api::connection_info::ConnectionInfo;
use crate::replica::SHARE_STATES_TOPIC;
use crate::share;

mod dead_letters;
mod hostile;

const SHARED: Uuid = Uuid::from_bytes([5; 16]);
const STATES: Uuid = Uuid::from_bytes([6; 16]);
const VERSION: i16 = 2;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// A broker that leads partition 0 of `shared`, with these settings of the group `g` besides a
/// start at the first record.
fn start(settings: &[(&str, &str)], flags: &[&str]) -> Rig {
    let mut rig = Rig::start_with(flags);
    rig.create_alone(SHARED, "shared");
    rig.create_alone(STATES, SHARE_STATES_TOPIC);
    for (name, value) in settings.iter().chain(&[("share.auto.offset.reset", "earliest")]) {
        let group = ConfigRecord {
            resource_type: GROUP,
            resource_name: "g".to_owned(),
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        rig.publish(&[group.into()]);
    }
    rig
}

/// Number of groups as resources of configurations.
const GROUP: i8 = 32;

impl Rig {
    /// As the group coordinator does when a member subscribes.
    async fn initialize(&self) {
        let part = InitializePart { topic_id: SHARED, partition: 0, state_epoch: 1, start_offset: -1 };
        assert_eq!(share::states::request(&self.broker, "g", vec![part]).await, [Ok(())]);
    }

    /// Produces a batch with these many records to `shared`.
    async fn produce_shared(&self, records: usize) {
        self.produce_values(records, b"value").await;
    }

    async fn produce_values(&self, records: usize, value: &[u8]) {
        let mut batch = Builder::new();
        for _ in 0..records {
            batch.push(0, None, Some(value));
        }
        let bytes = batch.build().unwrap();
        assert_eq!(self.produce_in(("shared", None), (1, 1_000), &bytes).await.error_code, OK);
    }

    pub(super) async fn exchange<R: KafkaRequest, A: KafkaResponse>(
        &self,
        connection: &Rc<ConnectionInfo>,
        version: i16,
        request: &R,
    ) -> A {
        let frame = levada_wire::encode_request(1, Some("test"), version, request).unwrap();
        let answer = self.ask_over(connection, BytesMut::from(&frame[4..])).await;
        levada_wire::decode_response(answer, version).unwrap().1
    }
}

/// A member with its connection.
struct Member<'a> {
    rig: &'a Rig,
    id: &'static str,
    connection: Rc<ConnectionInfo>,
    epoch: i32,
}

/// Acknowledgements: first offset, last offset, type.
type Acks<'a> = &'a [(i64, i64, i8)];

/// Acquired ranges: first offset, last offset, delivery count.
type Ranges = Vec<(i64, i64, i16)>;

impl<'a> Member<'a> {
    fn new(rig: &'a Rig, id: &'static str) -> Self {
        Self { rig, id, connection: rig.connection(), epoch: 0 }
    }

    fn request(&self, acks: Acks<'_>, max_wait_ms: i32) -> ShareFetchRequest {
        let batch = |(first, last, kind): &(i64, i64, i8)| {
            let mut batch = share_fetch_request::AcknowledgementBatch::default();
            (batch.first_offset, batch.last_offset, batch.acknowledge_types) = (*first, *last, vec![*kind]);
            batch
        };
        let mut partition = share_fetch_request::FetchPartition::default();
        partition.acknowledgement_batches = acks.iter().map(batch).collect();
        let mut topic = share_fetch_request::FetchTopic::default();
        (topic.topic_id, topic.partitions) = (SHARED, vec![partition]);
        let mut request = ShareFetchRequest::default();
        (request.group_id, request.member_id) = (Some("g".into()), Some(self.id.into()));
        (request.share_session_epoch, request.topics) = (self.epoch, vec![topic]);
        (request.max_wait_ms, request.min_bytes, request.max_bytes) = (max_wait_ms, 1, 1 << 20);
        (request.max_records, request.batch_size) = (500, 500);
        request
    }

    async fn ask(&mut self, request: ShareFetchRequest) -> ShareFetchResponse {
        self.epoch += 1;
        self.rig.exchange(&self.connection, VERSION, &request).await
    }

    /// Fetches with these acknowledgements, and waits up to this time.
    async fn fetch(&mut self, acks: Acks<'_>, max_wait_ms: i32) -> (Ranges, i16) {
        let request = self.request(acks, max_wait_ms);
        let response = self.ask(request).await;
        assert_eq!(response.error_code, OK);
        partition(&response).map_or((Vec::new(), OK), |found| {
            assert_eq!(found.error_code, OK);
            (ranges(found), found.acknowledge_error_code)
        })
    }

    async fn acknowledge(&mut self, epoch: i32, acks: Acks<'_>) -> (i16, i16) {
        let batch = |(first, last, kind): &(i64, i64, i8)| {
            let mut batch = share_acknowledge_request::AcknowledgementBatch::default();
            (batch.first_offset, batch.last_offset, batch.acknowledge_types) = (*first, *last, vec![*kind]);
            batch
        };
        let mut partition = share_acknowledge_request::AcknowledgePartition::default();
        partition.acknowledgement_batches = acks.iter().map(batch).collect();
        let mut topic = share_acknowledge_request::AcknowledgeTopic::default();
        (topic.topic_id, topic.partitions) = (SHARED, vec![partition]);
        let mut request = ShareAcknowledgeRequest::default();
        (request.group_id, request.member_id) = (Some("g".into()), Some(self.id.into()));
        (request.share_session_epoch, request.topics) = (epoch, vec![topic]);
        request.is_renew_ack = acks.iter().any(|(_, _, kind)| *kind == RENEW);
        self.epoch += 1;
        let response: ShareAcknowledgeResponse = self.rig.exchange(&self.connection, VERSION, &request).await;
        let partition = response.responses.first().map_or(OK, |topic| topic.partitions[0].error_code);
        (response.error_code, partition)
    }
}

fn partition(response: &ShareFetchResponse) -> Option<&share_fetch_response::PartitionData> {
    response.responses.first().map(|topic| &topic.partitions[0])
}

/// The acquired ranges, which are in the batches.
fn ranges(partition: &share_fetch_response::PartitionData) -> Ranges {
    let (mut offsets, mut rest) = (BTreeMap::new(), &partition.records[..]);
    while !rest.is_empty() {
        let batch = BatchView::parse(rest).unwrap();
        offsets.insert(batch.base_offset(), batch.last_offset());
        rest = &rest[batch.size_bytes()..];
    }
    let ranges = partition.acquired_records.iter().map(|range| {
        let batch = offsets.range(..=range.first_offset).next_back();
        assert!(batch.is_some_and(|(_, last)| *last >= range.first_offset), "{range:?} in {offsets:?}");
        (range.first_offset, range.last_offset, range.delivery_count)
    });
    ranges.collect()
}

#[test]
fn records_are_acquired_once_and_their_results_stored() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(3).await;
        rig.produce_shared(2).await;
        let (mut one, mut other) = (Member::new(&rig, "one"), Member::new(&rig, "other"));
        assert_eq!(one.fetch(&[], LONG_MS).await, (vec![(0, 4, 1)], OK));
        assert_eq!(other.fetch(&[], 0).await, (vec![], OK));
        assert_eq!(
            one.fetch(&[(0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, REJECT)], LONG_MS).await,
            (vec![(2, 2, 2)], OK)
        );
        assert_eq!(one.acknowledge(2, &[(2, 2, ACCEPT)]).await, (OK, OK));
        let read = ReadPart { topic_id: SHARED, partition: 0, leader_epoch: -1 };
        let stored = share::states::request(&rig.broker, "g", vec![read]).await.remove(0).unwrap();
        assert_eq!((stored.state_epoch, stored.start_offset), (1, 2), "the start of the last write");
        assert_eq!(one.acknowledge(3, &[(4, 4, RELEASE)]).await, (OK, OK));
        assert_eq!(other.fetch(&[], 0).await, (vec![(4, 4, 2)], OK));
    });
}

#[test]
fn foreign_or_invalid_acknowledgements_are_refused() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(4).await;
        let (mut one, mut other) = (Member::new(&rig, "one"), Member::new(&rig, "other"));
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 3, 1)]);
        other.fetch(&[], 0).await;
        let state = ErrorCode::InvalidRecordState.code();
        let invalid = ErrorCode::InvalidRequest.code();
        assert_eq!(other.acknowledge(1, &[(0, 3, ACCEPT)]).await, (OK, state), "of another member");
        for (acks, code) in [
            (&[(0, 9, ACCEPT)][..], invalid),
            (&[(3, 0, ACCEPT)], invalid),
            (&[(0, 0, 5)], invalid),
            (&[(2, 2, ACCEPT), (0, 1, ACCEPT)], invalid),
            (&[(0, 1, ACCEPT), (1, 2, ACCEPT)], state),
            (&[(0, 0, RENEW)], OK),
            (&[(0, 3, ACCEPT)], OK),
            (&[(0, 3, ACCEPT)], OK),
        ] {
            assert_eq!(one.acknowledge(one.epoch, acks).await, (OK, code), "{acks:?}");
        }
    });
}

#[test]
fn share_fetches_wait_for_records_and_releases() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        let (mut one, mut other) = (Member::new(&rig, "one"), Member::new(&rig, "other"));
        let mut fetch = Box::pin(one.fetch(&[], LONG_MS));
        assert_eq!(begun(&mut fetch).await, None);
        let produced = rig.produce_shared(1);
        let ((), fetched) = tokio::join!(produced, fetch);
        assert_eq!(fetched.0, [(0, 0, 1)]);
        let mut fetch = Box::pin(other.fetch(&[], LONG_MS));
        assert_eq!(begun(&mut fetch).await, None);
        let (fetched, released) = tokio::join!(fetch, one.acknowledge(1, &[(0, 0, RELEASE)]));
        assert_eq!((fetched.0, released), (vec![(0, 0, 2)], (OK, OK)));
    });
}

#[test]
fn ended_sessions_release_their_acquired_records() {
    let rig = start(&[], &[]);
    rig.run(async {
        let clock = tokio::task::spawn_local(share::partitions::run_clock(rig.broker.clone()));
        rig.initialize().await;
        rig.produce_shared(1).await;
        let (mut one, mut other) = (Member::new(&rig, "one"), Member::new(&rig, "other"));
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
        assert_eq!(one.acknowledge(-1, &[]).await, (OK, OK));
        assert_eq!(other.fetch(&[], LONG_MS).await.0, [(0, 0, 2)]);
        let gone = ErrorCode::ShareSessionNotFound.code();
        assert_eq!(one.acknowledge(2, &[]).await.0, gone);
        one.epoch = 0;
        let mut fetch = Box::pin(one.fetch(&[], LONG_MS));
        assert_eq!(begun(&mut fetch).await, None);
        drop(other);
        assert_eq!(fetch.await.0, [(0, 0, 3)]);
        clock.abort();
    });
}

#[test]
fn expired_record_locks_release_records() {
    let flags = ["group.share.min.record.lock.duration.ms=1000"];
    let settings = [("share.record.lock.duration.ms", "1000"), ("share.delivery.count.limit", "2")];
    let rig = start(&settings, &flags);
    rig.run(async {
        let clock = tokio::task::spawn_local(share::partitions::run_clock(rig.broker.clone()));
        rig.initialize().await;
        rig.produce_shared(1).await;
        let (mut one, mut other) = (Member::new(&rig, "one"), Member::new(&rig, "other"));
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
        assert_eq!(other.fetch(&[], LONG_MS).await.0, [(0, 0, 2)]);
        let state = ErrorCode::InvalidRecordState.code();
        assert_eq!(one.acknowledge(1, &[(0, 0, ACCEPT)]).await, (OK, state));
        let produced = async {
            // The second lock was the last one: the record is archived, and the next one comes.
            rig.produce_shared(1).await;
        };
        let (fetched, ()) = tokio::join!(one.fetch(&[], LONG_MS), produced);
        assert_eq!(fetched.0, [(1, 1, 1)]);
        clock.abort();
    });
}

#[test]
fn share_sessions_refuse_the_same_requests_as_kafka() {
    let rig = start(&[], &["group.share.max.share.sessions=1"]);
    rig.run(async {
        rig.initialize().await;
        let mut one = Member::new(&rig, "one");
        let request = one.request(&[(0, 0, ACCEPT)], 0);
        let code = |response: ShareFetchResponse| ErrorCode::of_code(response.error_code).unwrap();
        assert_eq!(code(one.ask(request).await), ErrorCode::InvalidRequest, "acks before a session");
        one.epoch = 1;
        let request = one.request(&[], 0);
        assert_eq!(code(one.ask(request).await), ErrorCode::ShareSessionNotFound);
        one.epoch = 0;
        one.fetch(&[], 0).await;
        one.epoch = 5;
        let request = one.request(&[], 0);
        assert_eq!(code(one.ask(request).await), ErrorCode::InvalidShareSessionEpoch);
        let mut other = Member::new(&rig, "other");
        let request = other.request(&[], 0);
        assert_eq!(code(other.ask(request).await), ErrorCode::ShareSessionLimitReached);
        for (member, group) in
            [("", Some("g")), ("0123456789012345678901234567890123456", Some("g")), ("m", None)]
        {
            let mut request = other.request(&[], 0);
            (request.member_id, request.group_id) = (Some(member.into()), group.map(Into::into));
            assert_eq!(code(other.ask(request).await), ErrorCode::InvalidRequest, "{member} {group:?}");
        }
        one.epoch = 1;
        let mut request = one.request(&[], 0);
        request.is_renew_ack = true;
        assert_eq!(code(one.ask(request).await), ErrorCode::InvalidRequest, "a renewal fetches nothing");
        one.epoch = 0;
        assert_eq!(one.acknowledge(0, &[]).await.0, ErrorCode::InvalidShareSessionEpoch.code());
    });
}

#[test]
fn unfetchable_share_partitions_have_error_codes() {
    let rig = start(&[], &[]);
    rig.run(async {
        let mut one = Member::new(&rig, "one");
        let mut request = one.request(&[], 0);
        let mut unknown = request.topics[0].clone();
        unknown.topic_id = Uuid::from_bytes([9; 16]);
        request.topics[0].partitions[0].partition_index = 7;
        request.topics.push(unknown);
        let response = one.ask(request).await;
        let codes: Vec<_> = response.responses.iter().map(|topic| topic.partitions[0].error_code).collect();
        let expected = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId].map(ErrorCode::code);
        assert_eq!(codes, expected);
        // The state is not initialized: no member of the group has subscribed.
        let mut other = Member::new(&rig, "other");
        let request = other.request(&[], 1);
        let response = other.ask(request).await;
        let found = partition(&response).unwrap();
        assert_eq!(found.error_code, ErrorCode::UnknownServerError.code());
        assert_eq!(
            rig.broker.share_partitions().entry((SHARED, 0), "g").map(drop),
            None,
            "another fetch loads again"
        );
    });
}

#[test]
fn former_leader_names_the_new_leader() {
    let mut rig = start(&[], &[]);
    let mut epoch = 0;
    let connection = rig.run(async {
        rig.initialize().await;
        rig.produce_shared(1).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
        epoch += one.epoch;
        one.connection
    });
    let moved = PartitionChangeRecord {
        replicas: Some(vec![rig.node, OTHER]),
        isr: Some(vec![OTHER]),
        leader: OTHER,
        ..change(SHARED)
    };
    rig.publish(&[moved.into()]);
    rig.run(async {
        let mut one = Member { rig: &rig, id: "one", connection, epoch };
        let request = one.request(&[(0, 0, ACCEPT)], LONG_MS);
        let response = tokio::time::timeout(LONG, one.ask(request)).await.unwrap();
        let found = partition(&response).unwrap();
        let code = ErrorCode::NotLeaderOrFollower.code();
        assert_eq!((found.error_code, found.acknowledge_error_code), (code, code));
        assert_eq!(found.current_leader.leader_id, OTHER);
        assert_eq!(rig.broker.share_partitions().entry((SHARED, 0), "g").map(drop), None);
    });
}

#[test]
fn aborted_records_are_not_delivered() {
    let rig = start(&[("share.isolation.level", "read_committed")], &[]);
    rig.run(async {
        rig.initialize().await;
        let partition = rig.broker.replicas().partition("shared", 0).unwrap();
        let append = |append: Append| {
            partition.lane().with_writer(|writer| writer.append(&mut [append], 0).remove(0).unwrap());
        };
        let mut batch = Builder::new().producer(9, 0, 0).transactional();
        batch.push(0, None, Some(b"aborted")).push(0, None, Some(b"too"));
        append(Append::client(batch.build().unwrap()));
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], 1).await.0, [], "the transaction is open");
        let (producer_epoch, coordinator_epoch, marker) = (0, 0, Marker::Abort);
        let end = EndMarker { marker, producer_id: 9, producer_epoch, coordinator_epoch, timestamp_ms: 0 };
        append(Append::coordinator(end.build().unwrap()));
        rig.produce_shared(1).await;
        // The marker comes along, and the client acknowledges it as a gap.
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(2, 3, 1)]);
        assert_eq!(one.acknowledge(2, &[(2, 2, 0), (3, 3, ACCEPT)]).await, (OK, OK));
        let read = ReadPart { topic_id: SHARED, partition: 0, leader_epoch: -1 };
        let stored = share::states::request(&rig.broker, "g", vec![read]).await.remove(0).unwrap();
        assert_eq!(stored.start_offset, 2, "the aborted records are archived");
    });
}

#[test]
fn share_requests_need_the_share_version_feature() {
    let mut rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        Member::new(&rig, "one").fetch(&[], 0).await;
    });
    rig.publish(&[FeatureLevelRecord { name: "share.version".to_owned(), feature_level: 0 }.into()]);
    rig.run(async {
        let mut one = Member::new(&rig, "one");
        let request = one.request(&[], 0);
        let response = one.ask(request).await;
        assert_eq!(response.error_code, ErrorCode::UnsupportedVersion.code());
        assert_eq!(one.acknowledge(1, &[]).await.0, ErrorCode::UnsupportedVersion.code());
        let room = rig.broker.share_partitions();
        assert!(room.entry((SHARED, 0), "g").is_none() && !room.sessions().has_group("g"));
    });
}

#[test]
fn strict_acquire_mode_obeys_max_records() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(10).await;
        let mut one = Member::new(&rig, "one");
        for (mode, expected) in [(1, vec![(0, 2, 1)]), (0, vec![(3, 9, 1)])] {
            let mut request = one.request(&[], 0);
            (request.share_acquire_mode, request.max_records, request.max_wait_ms) = (mode, 3, LONG_MS);
            let response = one.ask(request).await;
            assert_eq!(ranges(partition(&response).unwrap()), expected, "mode {mode}");
        }
    });
}

#[test]
fn acquired_records_end_at_batch_bounds() {
    let rig = start(&[("share.partition.max.record.locks", "100")], &[]);
    rig.run(async {
        rig.initialize().await;
        // Each batch but the first has an index entry.
        for _ in 0..40 {
            rig.produce_values(5, &[7; 1500]).await;
        }
        let mut one = Member::new(&rig, "one");
        let cases = [
            // Mode, most records, batch size; acquired ranges, batches that are sent.
            ((0, 17, 17), vec![(0, 19, 1)], (0, 19)),
            ((0, 22, 7), vec![(20, 29, 1), (30, 39, 1), (40, 44, 1)], (20, 44)),
            ((1, 13, 1), vec![(45, 57, 1)], (45, 59)),
            ((1, 2, 1), vec![(58, 59, 1)], (55, 59)),
            // The group may have 100 records in flight.
            ((0, 500, 500), vec![(60, 99, 1)], (60, 99)),
        ];
        for ((mode, max_records, batch_size), expected, sent) in cases {
            let mut request = one.request(&[], LONG_MS);
            (request.share_acquire_mode, request.max_records, request.batch_size) =
                (mode, max_records, batch_size);
            let response = one.ask(request).await;
            let found = partition(&response).unwrap();
            assert_eq!(ranges(found), expected, "{max_records} records");
            let (mut records, mut bounds) = (&found.records[..], Vec::new());
            while let Ok(batch) = BatchView::parse(records) {
                bounds.push((batch.base_offset(), batch.last_offset()));
                records = &records[batch.size_bytes()..];
            }
            assert_eq!((bounds[0].0, bounds.last().unwrap().1), sent, "{bounds:?}");
            assert!(bounds.iter().all(|(first, last)| last - first == 4) && records.is_empty());
        }
    });
}

#[test]
fn zero_min_bytes_share_fetch_does_not_wait() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        let mut one = Member::new(&rig, "one");
        for _ in 0..2 {
            let mut request = one.request(&[], LONG_MS);
            request.min_bytes = 0;
            let asked = tokio::time::timeout(Duration::from_secs(60), one.ask(request)).await;
            assert_eq!(asked.unwrap().error_code, OK);
        }
    });
}

#[test]
fn share_fetch_with_zero_limits_returns_nothing() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(1).await;
        let mut one = Member::new(&rig, "one");
        for (bytes, records) in [(0, 500), (1 << 20, 0), (-1, -1)] {
            let mut request = one.request(&[], LONG_MS);
            (request.max_bytes, request.max_records) = (bytes, records);
            let asked = tokio::time::timeout(Duration::from_secs(60), one.ask(request)).await;
            assert!(partition(&asked.unwrap()).is_none());
        }
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
    });
}

#[test]
fn share_entries_end_with_the_last_session() {
    let rig = start(&[], &[]);
    rig.run(async {
        let clock = tokio::task::spawn_local(share::partitions::run_clock(rig.broker.clone()));
        rig.initialize().await;
        rig.produce_shared(2).await;
        let entry = || rig.broker.share_partitions().entry((SHARED, 0), "g");
        for closes in [true, false] {
            let mut one = Member::new(&rig, "one");
            assert_eq!(one.fetch(&[], LONG_MS).await.0.len(), 1);
            assert!(entry().is_some());
            if closes {
                assert_eq!(one.acknowledge(-1, &[(0, 0, RELEASE)]).await, (OK, OK));
            }
            drop(one);
            // The release of the other record is to be stored first.
            while entry().is_some() {
                tokio::task::yield_now().await;
            }
        }
        let mut other = Member::new(&rig, "other");
        assert_eq!(other.fetch(&[], LONG_MS).await.0, [(0, 1, 3)], "the counts are stored");
        clock.abort();
    });
}

#[test]
fn newer_state_epoch_fences_share_partition() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(2).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 1, 1)]);
        let part = InitializePart { topic_id: SHARED, partition: 0, state_epoch: 2, start_offset: 1 };
        assert_eq!(share::states::request(&rig.broker, "g", vec![part]).await, [Ok(())]);
        let code = ErrorCode::NotLeaderOrFollower.code();
        assert_eq!(one.acknowledge(1, &[(0, 1, ACCEPT)]).await, (OK, code), "of the former state");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(1, 1, 1)]);
    });
}

#[test]
fn negative_start_offsets_are_before_all_records() {
    let rig = start(&[], &[]);
    rig.run(async {
        let part = InitializePart { topic_id: SHARED, partition: 0, state_epoch: 1, start_offset: -9 };
        assert_eq!(share::states::request(&rig.broker, "g", vec![part]).await, [Ok(())]);
        rig.produce_shared(2).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 1, 1)]);
        assert_eq!(one.acknowledge(1, &[(0, 1, ACCEPT)]).await, (OK, OK));
    });
}

#[test]
fn newer_leader_epoch_reloads_the_share_state() {
    let mut rig = start(&[], &[]);
    let connection = rig.run(async {
        rig.initialize().await;
        rig.produce_shared(2).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 1, 1)]);
        assert_eq!(one.acknowledge(1, &[(0, 0, ACCEPT)]).await, (OK, OK));
        one.connection
    });
    rig.publish(&[PartitionChangeRecord { leader: rig.node, ..change(SHARED) }.into()]);
    rig.run(async {
        let mut one = Member { rig: &rig, id: "one", connection, epoch: 2 };
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert_eq!(one.acknowledge(2, &[(1, 1, ACCEPT)]).await, (OK, unknown), "locks end with the epoch");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(1, 1, 1)]);
    });
}

#[test]
fn one_record_completes_one_waiting_share_fetch() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        let mut members: Vec<Member<'_>> = ["a", "b", "c"].map(|id| Member::new(&rig, id)).into();
        let mut waiting: Vec<_> = members.iter_mut().map(|one| Box::pin(one.fetch(&[], LONG_MS))).collect();
        for fetch in &mut waiting {
            assert_eq!(begun(fetch).await, None);
        }
        rig.produce_shared(1).await;
        let (fetched, _, rest) = futures_of(waiting).await;
        assert_eq!(fetched.0, [(0, 0, 1)]);
        for mut fetch in rest {
            assert_eq!(begun(&mut fetch).await, None, "others wait on");
        }
    });
}

/// The first of these requests that is answered, its place, and the others.
async fn futures_of<T, F: Future<Output = T> + Unpin>(mut all: Vec<F>) -> (T, usize, Vec<F>) {
    let (done, at) = std::future::poll_fn(|context| {
        let polled =
            all.iter_mut().enumerate().find_map(|(at, one)| match std::pin::Pin::new(one).poll(context) {
                std::task::Poll::Ready(done) => Some((done, at)),
                std::task::Poll::Pending => None,
            });
        polled.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await;
    drop(all.remove(at));
    (done, at, all)
}

#[test]
fn share_fetch_returns_few_bytes_at_timeout() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_shared(1).await;
        let mut one = Member::new(&rig, "one");
        let mut request = one.request(&[], 50);
        request.min_bytes = 1 << 19;
        let response = one.ask(request).await;
        assert_eq!(ranges(partition(&response).unwrap()), [(0, 0, 1)]);
    });
}

#[test]
fn share_fetch_skips_deleted_records() {
    let rig = start(&[], &[]);
    rig.run(async {
        rig.initialize().await;
        for _ in 0..3 {
            rig.produce_shared(1).await;
        }
        let log = rig.broker.replicas().partition("shared", 0).unwrap();
        let mut one = Member::new(&rig, "one");
        let mut request = one.request(&[], LONG_MS);
        request.max_records = 1;
        let response = one.ask(request).await;
        assert_eq!(ranges(partition(&response).unwrap()), [(0, 0, 1)]);
        log.lane().with_writer(|writer| drop(writer.advance_log_start(2).unwrap()));
        assert_eq!(one.fetch(&[(0, 0, RELEASE)], LONG_MS).await, (vec![(2, 2, 1)], OK));
    });
}
