//! Quotas of clients, requests of other brokers that count against none, and rates of clients
//! without a quota.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use levada_base::batch::Builder;
use levada_config::Protocol;
use levada_io::Piece;
use levada_metadata::records::ClientQuotaRecord;
use levada_process::clock::steady_ms;
use levada_security::Session;
use levada_wire::messages::WriteTxnMarkersRequest;
use levada_wire::{ApiKey, RequestHeader};

use super::rig::{OTHER, Rig};
use crate::api::{self, Context, Reply, k27_write_txn_markers};
use crate::quota::Used;
use crate::source::{BusiestClients, ByteRates};

const FETCH_VERSION: i16 = 17;
/// More than any client may take.
const LONG: Duration = Duration::from_secs(1000);
/// Number of topics of a request that is answered by another thread.
const LARGE_TOPICS: i32 = 20_000;

fn context(rig: &Rig, api: ApiKey, version: i16) -> Context {
    let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
    rig.context_of((api, version), (Protocol::Plaintext, session))
}

fn request_quota() -> ClientQuotaRecord {
    ClientQuotaRecord {
        entity: vec![("user".to_owned(), None)],
        key: "request_percentage".to_owned(),
        value: 1.0,
        remove: false,
    }
}

/// True if the client is muted after a fetch that took long.
fn is_muted(rig: &Rig, replica_id: i32) -> bool {
    let frame = rig.fetch_of(replica_id, 0).encode(1, "test", FETCH_VERSION).unwrap();
    let mut body = BytesMut::from(&frame[4..]);
    let header = RequestHeader::decode(&mut body).unwrap();
    let context = context(rig, header.api, header.version);
    assert!(rig.run(api::answer(&context, body)).is_ok());
    context.book(LONG);
    !context.meter.mute().is_zero()
}

#[test]
fn follower_and_coordinator_time_uses_no_quota() {
    let mut rig = Rig::start();
    rig.publish(&[request_quota().into()]);
    assert!(is_muted(&rig, -1));
    assert!(!is_muted(&rig, OTHER));
    let markers = context(&rig, ApiKey::WriteTxnMarkers, 1);
    rig.run(k27_write_txn_markers::answer(&markers, WriteTxnMarkersRequest::default()));
    markers.book(LONG);
    assert!(markers.meter.mute().is_zero());
}

/// Number of milliseconds that stands at the end of a response, or at this place after its size.
fn told(rig: &Rig, context: &Context, body: BytesMut, at: Option<usize>) -> i32 {
    let Ok(Reply::Send(pieces) | Reply::SendOld(pieces)) = rig.run(api::answer(context, body)) else {
        panic!("no answer")
    };
    let Some(Piece::Bytes(answer)) = pieces.into_iter().next() else { panic!("no bytes") };
    let at = at.map_or(answer.len() - 4, |at| 4 + at);
    (&answer[at..]).get_i32()
}

#[test]
fn response_throttle_time_matches_request_quota_mute() {
    let mut rig = Rig::start();
    rig.answer_large_requests_elsewhere();
    rig.publish(&[request_quota().into()]);
    let check = |api: ApiKey, version: i16, body: BytesMut, at: Option<usize>| {
        let context = context(&rig, api, version);
        let told = told(&rig, &context, body, at);
        assert_eq!(u128::try_from(told).unwrap(), context.meter.mute().as_millis(), "{api:?}");
        told
    };
    let fetch = |replica_id: i32| {
        let frame = rig.fetch_of(replica_id, 0).encode(1, "test", FETCH_VERSION).unwrap();
        let mut body = BytesMut::from(&frame[4..]);
        let header = RequestHeader::decode(&mut body).unwrap();
        check(header.api, header.version, body, Some(5))
    };
    // A group and a member without names, in generation 0.
    let heartbeat = || check(ApiKey::Heartbeat, 1, BytesMut::from(&[0; 8][..]), Some(4));
    let metadata = || {
        let mut body = BytesMut::new();
        body.put_i32(LARGE_TOPICS);
        (0..LARGE_TOPICS).for_each(|index| body.put_slice(format!("\0\x06{index:06}").as_bytes()));
        // No topic is created.
        body.put_u8(0);
        check(ApiKey::Metadata, 4, body, Some(4))
    };
    let produce = || check(ApiKey::Produce, 7, no_records(), None);
    assert_eq!([fetch(-1), heartbeat(), produce()], [0; 3], "within the quota");
    context(&rig, ApiKey::Heartbeat, 1).book(LONG);
    assert_eq!([fetch(-1), heartbeat(), produce(), metadata()], [1000; 4]);
    assert_eq!(fetch(OTHER), 0);
}

#[test]
fn unauthorized_follower_fetch_counts_against_quota() {
    let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let mut rig = Rig::start_with(&[authorizer]);
    rig.publish(&[request_quota().into()]);
    assert!(is_muted(&rig, OTHER));
}

/// The body of a produce request for no topic.
fn no_records() -> BytesMut {
    let mut body = BytesMut::new();
    // No transactional id, acknowledged by the leader, no time limit, no topic.
    body.put_i16(-1);
    body.put_i16(1);
    body.put_i32(0);
    body.put_i32(0);
    body
}

/// Time of the mute by the quota of bytes after a produce request, and true if the quota of time
/// mutes as well.
fn mutes_after_produce(rig: &Rig, acks: i16) -> (Duration, bool) {
    let mut batch = Builder::new();
    batch.push(0, None, Some(&[b'x'; 10_000]));
    let records = batch.build().unwrap();
    let mut body = BytesMut::new();
    // No transactional id, and no time limit.
    body.put_i16(-1);
    body.put_i16(acks);
    body.put_i32(0);
    // One topic with its name, one partition with its index.
    body.put_slice(b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0");
    body.put_i32(i32::try_from(records.len()).unwrap());
    body.put_slice(&records);
    let context = context(rig, ApiKey::Produce, 7);
    assert!(rig.run(api::answer(&context, body)).is_ok());
    context.book(LONG);
    let by_time = rig.broker.quotas().book(Used::Time, context.client(), 0.0);
    (context.meter.mute(), !by_time.is_zero())
}

#[test]
fn acks_0_produce_uses_only_byte_quota() {
    let mut rig = Rig::start();
    let bytes = ClientQuotaRecord { key: "producer_byte_rate".to_owned(), value: 10.0, ..request_quota() };
    rig.publish(&[request_quota().into(), bytes.into()]);
    let (by_bytes, by_time) = mutes_after_produce(&rig, 0);
    assert!(!by_bytes.is_zero() && !by_time, "{by_bytes:?}, by time: {by_time}");
    let (by_bytes, by_time) = mutes_after_produce(&rig, 1);
    assert!(!by_bytes.is_zero() && by_time, "{by_bytes:?}, by time: {by_time}");
}

#[test]
fn clients_without_quota_have_rates() {
    let rig = Rig::start();
    let records = rig.run(async {
        assert_eq!(rig.produce(1, 0).await, (0, 0));
        // The other broker has the record then, so that consumers may read it.
        rig.follow(0).await;
        rig.follow(1).await;
        rig.consume(0).await.records.unwrap()
    });
    // The rates of the first second are the sums.
    let bytes = records.len() as f64;
    let rates = |name: &str, produced, fetched| ByteRates { name: name.to_owned(), produced, fetched };
    let expected = BusiestClients {
        client_ids: vec![rates("", bytes, 0.0), rates("test", 0.0, bytes)],
        users: vec![rates(Session::ANONYMOUS, bytes, bytes)],
    };
    assert_eq!(rig.broker.stats().busiest(20, steady_ms()), expected);
}
