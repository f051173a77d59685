//! Quotas of clients, and requests of other brokers that count against none.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use levada_log::batch::Builder;
use levada_wire::messages::WriteTxnMarkersRequest;
use levada_wire::{ApiKey, RequestHeader};

use super::rig::{OTHER, Rig};
use crate::api::{self, Context, k27_write_txn_markers};
use crate::config::Protocol;
use crate::metadata::records::ClientQuotaRecord;
use crate::security::Session;

const FETCH_VERSION: i16 = 17;
/// More than any client may take.
const LONG: Duration = Duration::from_secs(1000);

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
    !context.book_time(LONG).is_zero()
}

#[test]
fn the_time_of_a_follower_and_of_a_coordinator_counts_against_no_quota() {
    let mut rig = Rig::start();
    rig.publish(&[request_quota().into()]);
    assert!(is_muted(&rig, -1));
    assert!(!is_muted(&rig, OTHER));
    let markers = context(&rig, ApiKey::WriteTxnMarkers, 1);
    rig.run(k27_write_txn_markers::answer(&markers, WriteTxnMarkersRequest::default()));
    assert!(markers.book_time(LONG).is_zero());
}

#[test]
fn who_may_not_fetch_as_a_follower_has_its_quota() {
    let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let mut rig = Rig::start_with(&[authorizer]);
    rig.publish(&[request_quota().into()]);
    assert!(is_muted(&rig, OTHER));
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
    (context.mute(), !context.book_time(LONG).is_zero())
}

#[test]
fn a_produce_request_without_an_answer_counts_against_the_quota_of_bytes_only() {
    let mut rig = Rig::start();
    let bytes = ClientQuotaRecord { key: "producer_byte_rate".to_owned(), value: 10.0, ..request_quota() };
    rig.publish(&[request_quota().into(), bytes.into()]);
    let (by_bytes, by_time) = mutes_after_produce(&rig, 0);
    assert!(!by_bytes.is_zero() && !by_time, "{by_bytes:?}, by time: {by_time}");
    let (by_bytes, by_time) = mutes_after_produce(&rig, 1);
    assert!(!by_bytes.is_zero() && by_time, "{by_bytes:?}, by time: {by_time}");
}
