//! Large requests that wait for another broker.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::BytesMut;
use levada_config::Protocol;
use levada_security::Session;
use levada_wire::messages::DeleteRecordsRequest;
use levada_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use levada_wire::{ApiKey, RequestHeader};

use super::rig::Rig;
use super::{LONG_MS, OK};
use crate::api::{self, RequestError};

const VERSION: i16 = 2;
/// More than the thread answers at a time.
const REQUESTS: usize = 6;

/// Deletes the first record of partition 0, and records of many partitions that do not exist.
fn large_request(timeout_ms: i32) -> BytesMut {
    let partition = |index: i32| message!(DeleteRecordsPartition { partition_index: index, offset: 1 });
    let topic =
        message!(DeleteRecordsTopic { name: "t".into(), partitions: (0..12_000).map(partition).collect() });
    let request = message!(DeleteRecordsRequest { topics: vec![topic], timeout_ms: timeout_ms });
    let frame = levada_wire::encode_request(1, Some("test"), VERSION, &request).unwrap();
    let mut body = BytesMut::from(&frame[4..]);
    RequestHeader::decode(&mut body).unwrap();
    assert!(body.len() > 128 << 10, "{} bytes", body.len());
    body
}

#[test]
fn waiting_large_requests_do_not_block_others() {
    let mut rig = Rig::start();
    rig.answer_large_requests_elsewhere();
    let send = |timeout_ms: i32| {
        let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
        let context = rig.context_of((ApiKey::DeleteRecords, VERSION), (Protocol::Plaintext, session));
        let body = large_request(timeout_ms);
        let mut held = rig.broker.request_memory().share();
        held.grow_to(body.len());
        let context = context.holding(Some(held));
        tokio::task::spawn_local(async move {
            let answered: Result<_, RequestError> = api::answer(&context, body).await;
            answered.is_ok()
        })
    };
    rig.run(async {
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 1));
        assert_eq!(rig.follow(2).await.error_code, OK);
        // The other replica never deletes the record.
        let waiting: Vec<_> = (0..REQUESTS).map(|_| send(LONG_MS)).collect();
        let impatient = tokio::time::timeout(Duration::from_secs(20), send(1)).await;
        assert!(impatient.expect("a turn of the others").unwrap());
        assert!(waiting.iter().all(|request| !request.is_finished()));
        let bytes = REQUESTS * large_request(LONG_MS).len();
        // The share of the answered request is released just after its response.
        let held_by_others = async {
            while rig.broker.request_memory().held_bytes() > bytes as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), held_by_others).await.expect("the share comes back");
        assert_eq!(rig.broker.request_memory().held_bytes(), bytes as u64, "of those that wait");
    });
}
