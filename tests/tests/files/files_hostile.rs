//! `levada files` and clients that mean harm: paths that lead out of the directory, and requests
//! that two parsers understand differently.
//!
//! Suite: short; 25 s
//! Soak: scale 2, repeated

use std::fs;

use levada_testing::{scaled, seed};
use levada_tests::files::{Client, FileServer};

/// Numbers that look random, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Number of attempts in each test.
const ATTEMPTS: usize = 50_000;

const PARTS: [&str; 16] = [
    "..",
    "%2e%2e",
    ".%2E",
    "%252e%252e",
    "..%2f",
    "..%5c",
    "a",
    "b",
    ".",
    "",
    "secret",
    "%00",
    "..;",
    "%c0%ae%c0%ae",
    "~",
    "file",
];

#[test]
fn hostile_paths_never_leave_the_directory() {
    let server = FileServer::start(&["--listing", "--hidden"], |root| {
        fs::create_dir_all(root.join("a/b")).expect("a directory");
        fs::write(root.join("a/b/file"), "inside").expect("a file");
        fs::write(root.parent().expect("a home").join("secret"), "the secret of the outside")
            .expect("a file");
    });
    let mut numbers = Numbers(seed());
    let mut client = server.connect();
    for _ in 0..scaled(ATTEMPTS) {
        let path: String = (0..=numbers.below(6)).map(|_| format!("/{}", numbers.one(&PARTS))).collect();
        let last = if numbers.below(2) == 0 { "/secret" } else { "" };
        client.say(format!("GET {path}{last} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let answer = client.answer(true);
        assert!(!answer.text().contains("outside"), "{path}{last}");
        if answer.field("connection") == Some("close") {
            assert_eq!(client.rest(), b"", "{path}{last}");
            client = server.connect();
        }
    }
    server.stop();
}

/// Fields about the length of a body, which a recipient may interpret in different ways. `N` is the
/// length of the bytes after the head.
const FRAMINGS: [&str; 31] = [
    "Content-Length: N",
    "Content-Length:N",
    "Content-Length: \t N \t",
    "Content-Length: 0N",
    "Content-Length: +N",
    "Content-Length: -N",
    "Content-Length: 0xN",
    "Content-Length: N,N",
    "Content-Length: N, 0",
    "Content-Length: N N",
    "Content-Length: N;",
    "Content-Length: N\r\nContent-Length: N",
    "Content-Length: 0\r\nContent-Length: N",
    "Content-Length: N\r\nContent-Length: 0",
    "Content-Length : N",
    "Content-Length\t: N",
    "Content-Length:\r\n N",
    "Content-Length: N\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: N",
    "Content-Length: 0\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: CHUNKED",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\x0bchunked",
    "Transfer-Encoding:\r\n chunked",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rContent-Length: N",
];

const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "OPTIONS", "PUT"];
const OTHERS: [&str; 5] =
    ["", "Accept: */*\r\n", "Connection: keep-alive\r\n", "X-Length: 0\r\n", "Expect: 100-continue\r\n"];
const BODIES: [&str; 3] = ["", "0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"];

#[test]
fn request_inside_a_body_gets_no_response() {
    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let server = FileServer::start(&[], |root| {
        fs::write(root.join("a"), "asked for").expect("a file");
        fs::write(root.join("smuggled"), "not asked for").expect("a file");
    });
    let mut numbers = Numbers(seed());
    for _ in 0..scaled(ATTEMPTS) {
        let body = format!("{}{SMUGGLED}", numbers.one(&BODIES));
        let mut framing = numbers.one(&FRAMINGS).replace('N', &body.len().to_string());
        if numbers.below(3) == 0 {
            framing = framing.to_ascii_lowercase();
        }
        let request = format!(
            "{} /a HTTP/1.1\r\nHost: x\r\n{}{framing}\r\n{}\r\n{body}",
            numbers.one(&METHODS),
            numbers.one(&OTHERS),
            numbers.one(&OTHERS)
        );
        let mut client = Client::open(server.address());
        client.leave_no_trace();
        client.say(request.as_bytes());
        client.end();
        let said = String::from_utf8_lossy(&client.rest()).into_owned();
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{request:?}: {said}");
        assert!(!said.contains("not asked for"), "{request:?}: {said}");
    }
    server.stop();
}
