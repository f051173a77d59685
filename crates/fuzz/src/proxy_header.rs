//! Any bytes at the front of a connection that begins with a header of the PROXY protocol: a header
//! has one length, and no byte after it changes its meaning.

use levada_files::proxy::{HEADER_BYTES_MAX, Header, parse};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Checks one input.
pub fn run(input: &[u8]) {
    // Unchanged, and after the first bytes of each version.
    for front in [&b""[..], b"PROXY ", SIGNATURE] {
        check(&[front, input].concat());
    }
}

fn check(bytes: &[u8]) {
    let whole = parse(bytes);
    let end = match whole {
        Header::Whole(client, len) => {
            assert!(len <= bytes.len() && len <= HEADER_BYTES_MAX);
            let is_first = bytes.starts_with(b"PROXY ");
            assert!(is_first || bytes.starts_with(SIGNATURE));
            assert!(!is_first || bytes[..len].ends_with(b"\r\n"));
            if let (Some((address, _)), true) = (client, is_first) {
                let family = if address.is_ipv4() { &b"TCP4"[..] } else { b"TCP6" };
                assert!(bytes[6..].starts_with(family));
            }
            assert_eq!(parse(&bytes[..len]), whole);
            len
        }
        Header::Partial => {
            // Received bytes never make a reader wait without end.
            assert!(bytes.len() < HEADER_BYTES_MAX);
            bytes.len()
        }
        // The bytes before may be the beginning of a header.
        Header::Malformed => return,
    };
    for len in 0..end {
        assert_eq!(parse(&bytes[..len]), Header::Partial, "of {len} bytes");
    }
}
