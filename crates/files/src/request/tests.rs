//! Heads as they should be, and every form of them that two servers could read in two ways.

use http::StatusCode;
use proptest::prelude::*;

use super::{FIELDS_MAX, HEAD_BYTES_MAX, Head, Method, Parsed, Refusal, TARGET_BYTES_MAX, parse, room};

/// Hands a whole head to `look`.
fn with<T>(text: &str, look: impl FnOnce(&Head<'_, '_>) -> T) -> T {
    let mut room = room();
    match parse(text.as_bytes(), &mut room) {
        Ok(Parsed::Whole(head, used)) => {
            assert_eq!(used, text.len());
            look(&head)
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refusal(bytes: &[u8]) -> Refusal {
    let mut room = room();
    match parse(bytes, &mut room) {
        Err(refusal) => refusal,
        Ok(other) => panic!("{:?}: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

#[test]
fn request_head_fields_are_parsed() {
    let text = "GET /a?b HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\naccept-encoding: gzip\r\nAccept-Encoding:br\r\n\r\n";
    with(text, |head| {
        assert_eq!((head.method, head.target, head.is_1_1), (Method::Get, &b"/a?b"[..], true));
        assert_eq!((head.host(), head.range()), (Some(&b"x"[..]), Some(&b"bytes=0-1"[..])));
        assert_eq!(head.all("accept-encoding").collect::<Vec<_>>(), [&b"gzip"[..], b"br"]);
        assert!(head.keep_alive && head.body_bytes == 0);
    });
}

#[test]
fn connection_persistence_follows_the_http_version() {
    let kept = |text: &str| with(text, |head| head.keep_alive);
    assert!(kept("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(!kept("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, Close\r\n\r\n"));
    assert!(!kept("GET / HTTP/1.0\r\n\r\n"));
    assert!(kept("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(!kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"));
}

#[test]
fn request_head_may_arrive_in_pieces() {
    let text = b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nGET";
    for end in 0..text.len() - 3 {
        let mut room = room();
        assert!(matches!(parse(&text[..end], &mut room), Ok(Parsed::Partial)), "{end}");
    }
    let mut room = room();
    assert!(matches!(parse(text, &mut room), Ok(Parsed::Whole(_, used)) if used == text.len() - 3));
}

#[test]
fn request_smuggling_attempts_are_refused() {
    let cases: [(&str, StatusCode); 24] = [
        ("GET / HTTP/1.1\nHost: x\n\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\n Host: x\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", StatusCode::HTTP_VERSION_NOT_SUPPORTED),
        ("GET / HTTP/1.1\r\nHost: x\r\nA\x00B: c\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n", StatusCode::BAD_REQUEST),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            StatusCode::BAD_REQUEST,
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            StatusCode::BAD_REQUEST,
        ),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", StatusCode::BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", StatusCode::LENGTH_REQUIRED),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x, chunked\r\n\r\n", StatusCode::NOT_IMPLEMENTED),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", StatusCode::HTTP_VERSION_NOT_SUPPORTED),
        ("GET / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", StatusCode::EXPECTATION_FAILED),
    ];
    for (text, status) in cases {
        assert_eq!(refusal(text.as_bytes()).status, status, "{text:?}");
    }
}

#[test]
fn request_head_has_limits() {
    let many = "A: b\r\n".repeat(FIELDS_MAX);
    let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    assert_eq!(refusal(text.as_bytes()).status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
    assert_eq!(refusal(long.as_bytes()).status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let target = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(TARGET_BYTES_MAX));
    assert_eq!(refusal(target.as_bytes()).status, StatusCode::URI_TOO_LONG);
    let endless = format!("GET /{}", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(refusal(endless.as_bytes()).status, StatusCode::URI_TOO_LONG);
    assert_eq!(refusal(&b"\r\n".repeat(6)).status, StatusCode::BAD_REQUEST);
}

proptest! {
    /// The rest of a connection is the same whatever came in which piece: a head is whole at one
    /// length only.
    #[test]
    fn request_head_is_complete_at_one_length_only(text in "(GET|POST|X) /[a-z%?#. ]{0,8} HTTP/1.[01]\r\n((Host|A|Content-Length|Range) ?: ?[a-z0-9 ,-]{0,6}\r?\n){0,4}\r\n") {
        let bytes = text.as_bytes();
        let mut whole = None;
        for end in 0..=bytes.len() {
            let mut room = room();
            match parse(&bytes[..end], &mut room) {
                Ok(Parsed::Partial) => prop_assert!(whole.is_none()),
                Ok(Parsed::Whole(_, used)) => {
                    prop_assert!(used <= end);
                    prop_assert_eq!(*whole.get_or_insert(used), used);
                }
                Err(_) => break,
            }
        }
    }
}
