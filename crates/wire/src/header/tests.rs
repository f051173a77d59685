//! Tests of `header`.

use super::*;

/// API, version, correlation id, client id, and the body left over.
type Expected<'a> = (ApiKey, i16, i32, Option<&'a str>, &'a [u8]);

#[track_caller]
fn check(bytes: &[u8], expected: Result<Expected<'_>, DecodeError>) {
    let mut frame = BytesMut::from(bytes);
    let found = RequestHeader::decode(&mut frame);
    match (&found, expected) {
        (Ok(header), Ok((api, version, correlation_id, client_id, body))) => {
            let client_id = client_id.map(StrBytes::from);
            assert_eq!(*header, RequestHeader { api, version, correlation_id, client_id });
            assert_eq!(frame, body);
        }
        (Err(error), Err(expected)) => {
            assert_eq!(*error, expected);
            assert_eq!(frame, bytes);
        }
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[test]
fn version_follows_the_api() {
    // Not flexible: no tagged fields.
    check(b"\0\x03\0\x08\0\0\0\x07\0\x02abXY", Ok((ApiKey::Metadata, 8, 7, Some("ab"), b"XY")));
    check(b"\0\x03\0\x08\0\0\0\x07\xff\xff", Ok((ApiKey::Metadata, 8, 7, None, b"")));
    check(b"\0\x03\0\x08\0\0\0\x07\0\0", Ok((ApiKey::Metadata, 8, 7, Some(""), b"")));
    // Flexible: the client id keeps its plain length, tagged fields follow.
    check(b"\0\x03\0\x09\xff\xff\xff\xff\0\x02ab\0XY", Ok((ApiKey::Metadata, 9, -1, Some("ab"), b"XY")));
    check(b"\0\x03\0\x09\0\0\0\x07\xff\xff\x02\0\x01z\x09\0XY", Ok((ApiKey::Metadata, 9, 7, None, b"XY")));
    // Never flexible.
    check(b"\0\x11\0\x01\0\0\0\x07\xff\xff\0", Ok((ApiKey::SaslHandshake, 1, 7, None, b"\0")));
}

#[test]
fn only_api_versions_may_be_newer_than_known() {
    check(b"\0\x12\x00\x63\0\0\0\x07\xff\xff\0\x01", Ok((ApiKey::ApiVersions, 99, 7, None, b"\x01")));
    let refused = |api, version| Err(DecodeError::UnsupportedVersion { api, version });
    check(b"\0\x12\xff\xff\0\0\0\x07\xff\xff\0", refused(ApiKey::ApiVersions, -1));
    check(b"\0\x03\0\x63\0\0\0\x07\xff\xff\0", refused(ApiKey::Metadata, 99));
    check(b"\0\x00\0\x02\0\0\0\x07\xff\xff", refused(ApiKey::Produce, 2));
    check(b"\0\x07\0\0\0\0\0\x07", Err(DecodeError::UnknownApi { key: 7, version: 0 }));
    check(b"\xff\xff\0\0\0\0\0\x07", Err(DecodeError::UnknownApi { key: -1, version: 0 }));
}

#[test]
fn malformed_headers_are_refused() {
    use kafka_wire_core::DecodeError as Malformed;
    let malformed = |error| Err(DecodeError::Malformed(error));
    let end = |offset, needed, remaining| malformed(Malformed::UnexpectedEnd { offset, needed, remaining });
    check(b"", end(0, 2, 0));
    check(b"\0\x03\0\x08\0\0", end(4, 4, 2));
    check(b"\0\x03\0\x08\0\0\0\x07\x7f\xffab", end(10, 32767, 2));
    let negative = Malformed::NegativeLength { kind: "string", length: -2, offset: 8 };
    check(b"\0\x03\0\x08\0\0\0\x07\xff\xfe", malformed(negative));
    let utf8 = Malformed::InvalidUtf8 { offset: 10, valid_up_to: 1 };
    check(b"\0\x03\0\x08\0\0\0\x07\0\x02a\xff", malformed(utf8));
    let order = Malformed::TaggedFieldOrder { previous: 1, current: 1, offset: 13 };
    check(b"\0\x03\0\x09\0\0\0\x07\xff\xff\x02\x01\0\x01\0", malformed(order));
}

#[test]
fn encoded_request_header_round_trips_unchanged() {
    for bytes in [
        &b"\0\x03\0\x08\0\0\0\x07\0\x02abXY"[..],
        b"\0\x03\0\x08\0\0\0\x07\xff\xff",
        b"\0\x03\0\x08\0\0\0\x07\0\0",
        b"\0\x03\0\x09\xff\xff\xff\xff\0\x02ab\0XY",
        b"\0\x03\0\x09\0\0\0\x07\xff\xff\0XY",
        b"\0\x11\0\x01\0\0\0\x07\xff\xff\0",
    ] {
        let mut frame = BytesMut::from(bytes);
        let header = RequestHeader::decode(&mut frame).unwrap();
        assert_eq!(header.in_front_of(&frame).unwrap(), bytes);
    }
}
