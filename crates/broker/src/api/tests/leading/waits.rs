//! Requests that wait for replicas: their memory, and the longest wait.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use levada_base::batch::Builder;
use levada_config::Protocol;
use levada_security::Session;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::FetchRequest;

use super::rig::Rig;
use super::{LONG_MS, OK, begun};
use crate::api;

/// Time within which a request that does not wait is answered on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The body of a Produce request of version 7 with acks=all.
fn produce_all(record_bytes: usize) -> BytesMut {
    let mut batch = Builder::new();
    batch.push(0, None, Some(&vec![b'x'; record_bytes]));
    let records = batch.build().unwrap();
    let mut body = BytesMut::new();
    // No transactional id, and acks=all.
    [-1, -1].into_iter().for_each(|field| body.put_i16(field));
    body.put_i32(LONG_MS);
    // One topic with its name, one partition with its index.
    body.put_slice(b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0");
    body.put_i32(i32::try_from(records.len()).unwrap());
    body.put_slice(&records);
    body
}

/// The followers' fetches may need the memory that the request would hold.
#[test]
fn appended_batch_releases_request_memory_before_replication() {
    let rig = Rig::start();
    let body = produce_all(100_000);
    let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
    let mut held = rig.broker.request_memory().share();
    held.grow_to(body.len());
    let context = rig.context_of((ApiKey::Produce, 7), (Protocol::Plaintext, session)).holding(Some(held));
    rig.run(async {
        let mut produce = Box::pin(api::answer(&context, body));
        // The append may be on another thread.
        while rig.broker.request_memory().held_bytes() > 0 {
            assert!(begun(&mut produce).await.is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(rig.partition().log().log_end(), 1);
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert!(produce.await.is_ok());
    });
}

/// The client may be gone without a sign of it.
#[test]
fn request_waits_no_longer_than_idle_timeout() {
    let rig = Rig::start_with(&["connections.max.idle.ms=100"]);
    let late = ErrorCode::RequestTimedOut.code();
    let work = async {
        let fetch = FetchRequest { max_wait_ms: i32::MAX, ..rig.fetch_of(-1, 0) };
        assert_eq!(rig.fetch(fetch).await.error_code, OK);
        assert_eq!(rig.produce(-1, i32::MAX).await.0, late);
        // The other replica has the record, and never deletes it.
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(rig.delete(1, i32::MAX).await.0, late);
    };
    let ended = rig.run(async { tokio::time::timeout(PATIENCE, work).await });
    assert!(ended.is_ok(), "a request waits");
}
