//! Markers and transactions while the follower of one partition does not fetch.

use std::sync::Arc;
use std::sync::mpsc::channel;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_config::Protocol;
use levada_coordination::group::Producer;
use levada_coordination::group::request::EndTxnRequest;
use levada_coordination::txn::records::{Record, Value};
use levada_coordination::txn::request::{self, ProducerIdentity};
use levada_coordination::txn::{TxnError, TxnState};
use levada_metadata::records::{PartitionChangeRecord, PartitionRecord, TopicRecord};
use levada_process::clock::now_ms;
use levada_security::Session;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{AddPartitionsToTxnRequest, WriteTxnMarkersRequest};
use levada_wire::{ApiKey, Uuid};
use tokio::time::Instant;

use super::coordinators::served;
use super::rig::{OTHER, Rig, change};
use super::{LONG, OK, begun};
use crate::api::{Context, k24_add_partitions_to_txn, k27_write_txn_markers};
use crate::peers::{Peer, Subject};
use crate::replica::{OFFSETS_TOPIC, Partition, TRANSACTIONS_TOPIC};
use crate::transaction::Membership;

const STATES: Uuid = Uuid::from_bytes([8; 16]);
const OFFSETS: Uuid = Uuid::from_bytes([9; 16]);
const ALONE: Uuid = Uuid::from_bytes([10; 16]);

/// Turns after which everything has been done that waits for no other broker.
const TURNS: usize = 20;

fn context(rig: &Rig, api: ApiKey, version: i16) -> Context {
    rig.context_of((api, version), (Protocol::Plaintext, Session::anonymous([127, 0, 0, 1].into())))
}

fn marker(producer_id: i64, topics: &[&str]) -> WritableTxnMarker {
    let topics = topics.iter().map(|name| {
        let mut topic = WritableTxnMarkerTopic::default();
        (topic.name, topic.partition_indexes) = ((*name).into(), vec![0]);
        topic
    });
    let mut marker = WritableTxnMarker::default();
    (marker.producer_id, marker.topics) = (producer_id, topics.collect());
    marker
}

#[test]
fn markers_of_one_request_are_written_concurrently() {
    let mut rig = Rig::start();
    rig.create_alone(ALONE, "alone");
    let alone = rig.broker.replicas().partition("alone", 0).unwrap();
    let mut request = WriteTxnMarkersRequest::default();
    request.markers = vec![marker(1, &["t", "alone"]), marker(2, &["alone", "missing"])];
    let context = context(&rig, ApiKey::WriteTxnMarkers, 1);
    rig.run(async {
        let mut answer = Box::pin(k27_write_txn_markers::answer(&context, request));
        for _ in 0..TURNS {
            assert!(begun(&mut answer).await.is_none(), "the follower of one partition has no marker");
            tokio::task::yield_now().await;
        }
        assert_eq!((rig.partition().log().log_end(), alone.log().log_end()), (1, 2));
        assert_eq!(rig.follow(1).await.error_code, OK);
        let answer = answer.await;
        let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
        let codes = topics.map(|topic| (topic.name.as_str(), topic.partitions[0].error_code));
        let codes: Vec<_> = codes.collect();
        assert_eq!(codes, [("t", OK), ("alone", OK), ("alone", OK), ("missing", 3)]);
    });
}

fn end(producer_id: i64) -> EndTxnRequest {
    EndTxnRequest {
        producer: Producer { id: producer_id, epoch: 0 },
        coordinator_epoch: 0,
        commit: true,
        transaction_version: 0,
    }
}

/// Such a marker could end the producer's next transaction.
#[test]
fn marker_delayed_past_timeout_is_not_written() {
    let rig = Rig::start();
    rig.run(async {
        let (partition, transactions) = (rig.partition(), rig.broker.transactions());
        let held = partition.transactions().read().await;
        let mut write = Box::pin(transactions.write_marker(&partition, end(1), Instant::now()));
        assert_eq!(begun(&mut write).await, None);
        drop(held);
        assert_eq!(write.await, Err(ErrorCode::RequestTimedOut));
        assert_eq!(partition.log().log_end(), 0);
    });
}

/// Commits of offsets, and markers of other transactions, waited until the marker was replicated.
#[test]
fn unreplicated_offsets_marker_blocks_no_other_write() {
    let mut rig = Rig::start();
    rig.create(OFFSETS, OFFSETS_TOPIC);
    rig.run(async {
        served(&rig).await;
        let partition = rig.broker.replicas().partition(OFFSETS_TOPIC, 0).unwrap();
        let until = Instant::now() + LONG;
        let mut first = Box::pin(rig.broker.transactions().write_marker(&partition, end(1), until));
        assert_eq!(begun(&mut first).await, None);
        assert!(partition.transactions().try_read().is_ok(), "commits of offsets do not wait");
        let mut second = Box::pin(rig.broker.transactions().write_marker(&partition, end(2), until));
        assert_eq!(begun(&mut second).await, None);
        assert_eq!(partition.log().log_end(), 2);
        assert_eq!(rig.follow_in(OFFSETS, 2).await.error_code, OK);
        assert_eq!((first.await, second.await), (Ok(()), Ok(())));
    });
}

/// Two partitions of `__transaction_state`, of which the first has a follower, and a transactional
/// id in each.
fn with_transactional_ids(rig: &mut Rig) -> ([String; 2], [Arc<Partition>; 2]) {
    let partition = |partition_id, replicas: &[i32]| PartitionRecord {
        topic_id: STATES,
        partition_id,
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader: replicas[0],
        ..PartitionRecord::default()
    };
    let topic = TopicRecord { name: TRANSACTIONS_TOPIC.to_owned(), topic_id: STATES };
    let (node, mut names) = (rig.node, (0..).map(|number| format!("id{number}")));
    rig.publish(&[topic.into(), partition(0, &[node, OTHER]).into(), partition(1, &[node]).into()]);
    let txns = rig.broker.coordinators().txns();
    let ids = [0, 1].map(|index| names.find(|id| txns.partition_of(id) == Some(index)).unwrap());
    let logs = [0, 1].map(|index| rig.broker.replicas().partition(TRANSACTIONS_TOPIC, index).unwrap());
    rig.run(async {
        for (producer_id, (id, log)) in (1..).zip(ids.iter().zip(&logs)) {
            let value = Value {
                producer_id,
                previous_producer_id: -1,
                next_producer_id: -1,
                producer_epoch: 0,
                timeout_ms: 60_000,
                state: TxnState::Empty,
                topics: None,
                last_update_ms: now_ms(),
                start_ms: -1,
                client_version: 0,
            };
            let record = Record::Transaction(id.clone(), Some(value)).encode().unwrap();
            let mut batch = Builder::new();
            batch.push(now_ms(), Some(&record.key), record.value.as_deref());
            log.append(Append::coordinator(batch.build().unwrap()), now_ms()).wait().await.unwrap();
        }
        assert_eq!(rig.follow_in(STATES, 1).await.error_code, OK);
    });
    // The coordinators load again.
    let elected =
        |partition_id| PartitionChangeRecord { partition_id, leader: node, ..change(STATES) }.into();
    rig.publish(&[elected(0), elected(1)]);
    rig.run(async {
        let txns = rig.broker.coordinators().txns();
        while !ids.iter().all(|id| txns.view(id, |one| one.describe(id).is_ok()).unwrap_or(false)) {
            assert_eq!(rig.follow_in(STATES, 1).await.error_code, OK);
            tokio::task::yield_now().await;
        }
    });
    (ids, logs)
}

#[test]
fn transactions_of_one_request_are_added_concurrently() {
    let mut rig = Rig::start();
    let (ids, logs) = with_transactional_ids(&mut rig);
    let transactions = (1..).zip(&ids).map(|(producer_id, id)| {
        let mut topic = AddPartitionsToTxnTopic::default();
        (topic.name, topic.partitions) = ("t".into(), vec![0]);
        let mut transaction = AddPartitionsToTxnTransaction::default();
        (transaction.transactional_id, transaction.producer_id) = (id.as_str().into(), producer_id);
        transaction.topics = vec![topic];
        transaction
    });
    let mut request = AddPartitionsToTxnRequest::default();
    request.transactions = transactions.collect();
    let context = context(&rig, ApiKey::AddPartitionsToTxn, 4);
    rig.run(async {
        let mut answer = Box::pin(k24_add_partitions_to_txn::answer(&context, request));
        for _ in 0..TURNS {
            assert!(begun(&mut answer).await.is_none(), "the follower of one partition has no record");
            tokio::task::yield_now().await;
        }
        assert_eq!([logs[0].log().log_end(), logs[1].log().log_end()], [2, 2]);
        assert_eq!(rig.follow_in(STATES, 2).await.error_code, OK);
        let answer = answer.await;
        let code = |at: usize| {
            let result = &answer.results_by_transaction[at];
            let partition = &result.topic_results[0].results_by_partition[0];
            (result.transactional_id.as_str(), partition.partition_error_code)
        };
        assert_eq!([code(0), code(1)], [(ids[0].as_str(), OK), (ids[1].as_str(), OK)]);
    });
}

/// A log that has no records of a producer accepts any first sequence number.
#[test]
fn batch_does_not_overtake_unverified_earlier_batch() {
    const PRODUCER: i64 = 2;
    let mut rig = Rig::start();
    rig.create_alone(ALONE, "alone");
    let batch = |sequence| {
        let mut batch = Builder::new().producer(PRODUCER, 0, sequence).transactional();
        batch.push(now_ms(), None, Some(b"value"));
        batch.build().unwrap()
    };
    let produce = |rig: &Rig, id: &str, sequence| {
        let produced = rig.run(rig.produce_in(("alone", Some(id)), (1, 0), &batch(sequence)));
        (produced.error_code, produced.base_offset)
    };
    let unverified = (ErrorCode::NotEnoughReplicas.code(), -1);
    assert_eq!(produce(&rig, "id", 0), unverified, "there is no coordinator yet");
    let (ids, _) = with_transactional_ids(&mut rig);
    let mut topic = AddPartitionsToTxnTopic::default();
    (topic.name, topic.partitions) = ("alone".into(), vec![0]);
    let mut request = AddPartitionsToTxnRequest::default();
    request.v3_and_below_transactional_id = ids[1].as_str().into();
    (request.v3_and_below_producer_id, request.v3_and_below_topics) = (PRODUCER, vec![topic]);
    let context = context(&rig, ApiKey::AddPartitionsToTxn, 3);
    let added = rig.run(k24_add_partitions_to_txn::answer(&context, request));
    let added = &added.results_by_topic_v3_and_below[0].results_by_partition[0];
    assert_eq!(added.partition_error_code, OK);
    assert_eq!(produce(&rig, &ids[1], 1), unverified, "the first batch comes again");
    assert_eq!(produce(&rig, &ids[1], 0), (OK, 0));
    assert_eq!(produce(&rig, &ids[1], 1), (OK, 1));
}

/// A coordinator on another broker answers as late as a network does.
#[test]
fn marker_is_written_during_remote_verification() {
    let mut rig = Rig::start();
    let partition = PartitionRecord {
        topic_id: STATES,
        replicas: vec![OTHER],
        isr: vec![OTHER],
        leader: OTHER,
        ..PartitionRecord::default()
    };
    let topic = TopicRecord { name: TRANSACTIONS_TOPIC.to_owned(), topic_id: STATES };
    rig.publish(&[topic.into(), partition.into()]);
    let (release, released) = channel::<()>();
    // The thread that sends the question is busy until the release.
    let busy = move |_: Option<Peer<'_>>| {
        let _ = released.recv();
    };
    rig.broker.transactions().peers().call(OTHER, Subject::Verification, Box::new(busy));
    let claim = Membership {
        transactional_id: "id",
        producer: ProducerIdentity { producer_id: 1, producer_epoch: 0 },
        protocol: request::Protocol::Classic,
    };
    rig.run(async {
        let partition = rig.partition();
        let mut hold = Box::pin(rig.broker.transactions().hold(&partition, claim));
        assert!(begun(&mut hold).await.is_none());
        assert!(partition.transactions().try_write().is_ok(), "a marker does not wait for the answer");
        drop(release);
        assert_eq!(hold.await.err(), Some(TxnError::CoordinatorNotAvailable), "the node has no address");
    });
}
