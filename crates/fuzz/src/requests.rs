//! An arbitrary frame as a request: header, then body by API and version. A decoded request means
//! the same after encoding.

use bytes::{Bytes, BytesMut};
use levada_wire::messages::{ApiVersion, KafkaRequest};
use levada_wire::{RequestHeader, by_request_type, decode};

/// Checks one input.
pub fn run(frame: &[u8]) {
    let mut body = BytesMut::from(frame);
    let Ok(header) = RequestHeader::decode(&mut body) else { return };
    by_request_type!(header.api, check(&header, body.freeze()));
}

fn check<R: KafkaRequest + std::fmt::Debug>(header: &RequestHeader, body: Bytes) {
    assert_eq!(R::API_KEY.value(), header.api.wire(), "the list has another request for {}", header.api);
    let version = header.version;
    let Ok(message) = decode::<R>(body, version) else { return };
    let encode = |message: &R| message.encode_to_bytes(ApiVersion::new(version)).expect("a decoded message");
    let bytes = encode(&message);
    let again = decode::<R>(bytes.clone(), version).expect("an encoded message");
    // Bytes, because a float that is not a number differs from itself.
    assert_eq!(encode(&again), bytes, "{message:?}");
}
