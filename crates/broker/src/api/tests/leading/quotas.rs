//! Quotas of clients, and requests of other brokers that count against none.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::BytesMut;
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
    let everybody = ClientQuotaRecord {
        entity: vec![("user".to_owned(), None)],
        key: "request_percentage".to_owned(),
        value: 1.0,
        remove: false,
    };
    rig.publish(&[everybody.into()]);
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
    let everybody = ClientQuotaRecord {
        entity: vec![("user".to_owned(), None)],
        key: "request_percentage".to_owned(),
        value: 1.0,
        remove: false,
    };
    rig.publish(&[everybody.into()]);
    assert!(is_muted(&rig, OTHER));
}
