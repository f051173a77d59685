//! Frames that real clients and a real Kafka 4.3.1 exchanged; `testdata/README.md` describes the
//! recording.

use bytes::{Bytes, BytesMut};

use crate::RequestHeader;

/// Every recorded exchange: the request's header, the whole request frame, the response frame,
/// without sizes.
pub(crate) fn exchanges() -> Vec<(RequestHeader, Bytes, Bytes)> {
    let mut lines = include_str!("../testdata/frames.hex").lines();
    let mut exchanges = Vec::new();
    while let Some(request) = lines.next() {
        let (request, response) =
            (bytes(request), bytes(lines.next().expect("requests and responses alternate")));
        let header = RequestHeader::decode(&mut BytesMut::from(&request[..])).expect("a recorded header");
        exchanges.push((header, request, response));
    }
    exchanges
}

fn bytes(hex: &str) -> Bytes {
    assert_eq!(hex.len() % 2, 0);
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
}
