//! The bytes of both messages, as the classes of Kafka 4.4.0 write them.

use bytes::Bytes;

use super::*;

#[test]
fn a_request_has_kafkas_bytes() {
    let request = UnregisterControllerRequest { controller_id: 3000, ..Default::default() };
    let frame = crate::encode_request(7, Some("me"), 0, &request).unwrap();
    // Size, key and version, correlation id, client id, no tags; id, no tags.
    let expected = [0, 0, 0, 18, 0, 94, 0, 0, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 0, 0, 0x0b, 0xb8, 0];
    assert_eq!(frame[..], expected);
    let body = Bytes::copy_from_slice(&expected[17..]);
    assert_eq!(crate::decode::<UnregisterControllerRequest>(body.clone(), 0).unwrap(), request);
    assert!(crate::decode::<UnregisterControllerRequest>(body, 1).is_err());
}

#[test]
fn a_response_has_kafkas_bytes() {
    let mut response = UnregisterControllerResponse::default();
    let refusal = [0, 0, 0, 5, 0, 136, 3, b'n', b'o', 0];
    for (message, body) in [(None, &[0, 0, 0, 0, 0, 0, 0, 0][..]), (Some("no"), &refusal[..])] {
        if let Some(message) = message {
            response.throttle_time_ms = 5;
            response.error_code = 136;
            response.error_message = Some(message.into());
        }
        let frame = crate::encode_response(7, 0, &response).unwrap();
        assert_eq!(frame[4..9], [0, 0, 0, 7, 0]);
        assert_eq!(&frame[9..], body);
        let (id, decoded) =
            crate::decode_response::<UnregisterControllerResponse>(frame.slice(4..), 0).unwrap();
        assert_eq!((id, decoded), (7, response.clone()));
    }
    assert!(crate::response_bytes(1, &response).is_err());
}
