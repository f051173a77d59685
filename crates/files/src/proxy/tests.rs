//! Headers of both versions, whole, in pieces and broken.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{HEADER_BYTES_MAX, Header, SIGNATURE, parse};

fn second(version: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[version, family], &len, body].concat()
}

#[test]
fn proxy_header_names_the_client() {
    let four = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 56324);
    let six = (IpAddr::V6(Ipv6Addr::LOCALHOST), 56324);
    let body_four = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 1, 187];
    let body_six = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[0xdc, 0x04, 1, 187]].concat();
    for (bytes, client) in [
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(), Some(four)),
        (b"PROXY TCP6 ::1 ::2 56324 443\r\n".to_vec(), Some(six)),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
        (second(0x21, 0x11, &body_four), Some(four)),
        (second(0x21, 0x11, &[&body_four[..], &[4, 0, 1, 0]].concat()), Some(four)),
        (second(0x21, 0x21, &body_six), Some(six)),
        (second(0x21, 0x31, &[0; 216]), None),
        (second(0x20, 0x00, &[]), None),
        (second(0x20, 0x11, &[]), None),
    ] {
        let more = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&more), Header::Whole(client, bytes.len()), "{bytes:?}");
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Header::Partial, "{bytes:?} up to {end}");
        }
    }
}

#[test]
fn malformed_proxy_headers_are_refused() {
    let large = vec![0; HEADER_BYTES_MAX];
    for bytes in [
        b"GET / HTTP/1.1\r\n".to_vec(),
        b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 1\r\n".to_vec(),
        b"PROXY  TCP4 192.0.2.1 192.0.2.2 1 1\r\n".to_vec(),
        [&b"PROXY UNKNOWN "[..], &[b'x'; 120]].concat(),
        second(0x11, 0x11, &[0; 12]),
        second(0x22, 0x11, &[0; 12]),
        second(0x21, 0x11, &[0; 11]),
        second(0x21, 0x21, &[0; 35]),
        second(0x21, 0x11, &large),
    ] {
        assert_eq!(parse(&bytes), Header::Malformed, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

proptest! {
    #[test]
    fn proxy_header_has_one_length(bytes in proptest::collection::vec(any::<u8>(), 0..64), version in 0_u8..4) {
        let bytes = match version {
            0 => bytes,
            1 => [b"PROXY ", &bytes[..]].concat(),
            _ => [&SIGNATURE[..], &bytes].concat(),
        };
        if let Header::Whole(client, len) = parse(&bytes) {
            prop_assert!(len <= bytes.len());
            prop_assert_eq!(parse(&bytes[..len]), Header::Whole(client, len));
            prop_assert_eq!(parse(&bytes[..len - 1]), Header::Partial);
        }
    }
}
