//! Recorded frames decode, and encode to the same bytes again.

use super::*;
use crate::{by_request_type, golden};

fn check<R: RequestResponsePair>(header: &RequestHeader, request: Bytes, response: Bytes) {
    let RequestHeader { version, correlation_id, .. } = *header;
    let mut body = BytesMut::from(&request[..]);
    RequestHeader::decode(&mut body).unwrap();
    let message = decode::<R>(body.freeze(), version).unwrap();
    let client_id = header.client_id.as_deref();
    let again = encode_request(correlation_id, client_id, version, &message).unwrap();
    assert_eq!(again[4..], request, "{header:?}");

    let (received, message) = decode_response::<R::Response>(response.clone(), version).unwrap();
    assert_eq!(received, correlation_id);
    let again = encode_response(correlation_id, version, &message).unwrap();
    assert_eq!(again[4..], response, "{header:?}");
    assert_eq!(again[..4], (response.len() as u32).to_be_bytes());
}

#[test]
fn recorded_frames_round_trip() {
    let exchanges = golden::exchanges();
    assert!(exchanges.len() > 100);
    for (header, request, response) in exchanges {
        by_request_type!(header.api, check(&header, request, response));
    }
}
