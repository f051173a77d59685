//! Markers and transactions while the follower of one partition does not fetch.

use levada_wire::messages::WriteTxnMarkersRequest;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::{ApiKey, Uuid};
use tokio::time::Instant;

use super::coordinators::served;
use super::rig::Rig;
use super::{LONG, OK, begun};
use crate::api::{Context, k27_write_txn_markers};
use crate::config::Protocol;
use crate::error_code::ErrorCode;
use crate::group::Producer;
use crate::group::request::EndTxnRequest;
use crate::replica::OFFSETS_TOPIC;
use crate::security::Session;

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
fn a_marker_waits_for_no_other_marker_of_its_request() {
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
fn a_marker_that_has_waited_for_its_turn_for_too_long_is_not_written() {
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
fn a_marker_of_offsets_keeps_others_out_only_until_it_is_in_the_lane() {
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
