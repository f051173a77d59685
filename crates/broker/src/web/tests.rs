//! Tests of the HTTP address over real sockets.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, UNIX_EPOCH},
};

use levada_wire::{ApiKey, api::APIS};

use super::*;

struct Fake {
    stats: Stats,
    sick: AtomicBool,
}

impl Source for Fake {
    fn transfers(&self) -> levada_io::Snapshot {
        levada_io::Counters::default().snapshot()
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn partitions(&self) -> u64 {
        7
    }

    fn recovery(&self) -> RecoveryProgress {
        RecoveryProgress { total: 9, left: 7, checked_bytes: 1234 }
    }

    fn cleaner(&self) -> CleanerStats {
        CleanerStats { runs: 3, read_bytes: 500, written_bytes: 90, dirtiest_percent: 41, uncleanable: 1 }
    }

    fn replays(&self) -> ReplayStats {
        ReplayStats {
            admitted_bytes: 11,
            refused_bytes: 12,
            around_bytes: 10,
            remembered_bytes: 13,
            memory: [("free", false), ("full", true), ("stalled", false)],
        }
    }

    fn request_bytes_held(&self) -> u64 {
        8
    }

    fn durability(&self) -> std::collections::BTreeMap<(String, String), u64> {
        [(("clicks".to_owned(), "fdatasync".to_owned()), 3)].into()
    }

    fn longest_lane_turn(&self, _: Work) -> Duration {
        Duration::from_micros(1_500)
    }

    fn unhealthy(&self) -> Option<String> {
        self.sick.load(Ordering::Relaxed).then(|| "data directory is full".to_owned())
    }
}

fn start() -> (Arc<Fake>, WebServer) {
    let stats = Stats::new(UNIX_EPOCH + Duration::from_secs(5));
    let fake = Arc::new(Fake { stats, sick: AtomicBool::new(false) });
    let listen = HostPort { host: "127.0.0.1".to_owned(), port: 0 };
    let server = WebServer::start(&listen, None, fake.clone()).unwrap();
    (fake, server)
}

/// Status line, headers in small letters, and body.
fn ask(server: &WebServer, method: &str, path: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_owned(), headers.to_lowercase(), body.to_owned())
}

#[test]
fn health_follows_the_broker() {
    let (fake, server) = start();
    let (status, _, body) = ask(&server, "GET", "/healthz");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ok\n"));
    fake.sick.store(true, Ordering::Relaxed);
    let (status, _, body) = ask(&server, "GET", "/healthz");
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 503 Service Unavailable", "data directory is full\n")
    );
}

#[test]
fn methods_and_paths_are_answered_as_http_wants() {
    let (_fake, server) = start();
    for path in ["/healthz", "/metrics"] {
        let (status, headers, body) = ask(&server, "HEAD", path);
        assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""), "{path}");
        assert!(!headers.contains("content-length: 0"), "{headers}");
        let (status, headers, _) = ask(&server, "POST", path);
        assert_eq!(status, "HTTP/1.1 405 Method Not Allowed", "{path}");
        assert!(headers.contains("allow: get,head"), "{headers}");
    }
    assert_eq!(ask(&server, "GET", "/").0, "HTTP/1.1 404 Not Found");
    assert_eq!(ask(&server, "GET", "/metrics/").0, "HTTP/1.1 404 Not Found");
}

#[test]
fn metrics_show_what_was_counted() {
    let (fake, server) = start();
    fake.stats.request(ApiKey::Produce);
    fake.stats.request(ApiKey::Produce);
    let open = fake.stats.connection();
    drop(fake.stats.connection());
    fake.stats.produced(100);
    fake.stats.fetched(40);
    let (status, headers, body) = ask(&server, "GET", "/metrics");
    drop(open);
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains("content-type: application/openmetrics-text; version=1.0.0"), "{headers}");
    for line in [
        "levada_requests_total{api=\"Produce\"} 2",
        "levada_connections_opened_total 2",
        "levada_connections 1",
        "levada_http_connections 1",
        "levada_produced_bytes_total 100",
        "levada_fetched_bytes_total 40",
        "levada_partitions 7",
        "levada_request_bytes_held 8",
        "levada_acks_durability_partitions{topic=\"clicks\",durability=\"fdatasync\"} 3",
        "levada_lane_longest_turn_seconds{work=\"append\"} 0.0015",
        "levada_recovery_partitions 7",
        "levada_recovery_checked_bytes_total 1234",
        "levada_cleaner_runs_total 3",
        "levada_cleaner_read_bytes_total 500",
        "levada_cleaner_written_bytes_total 90",
        "levada_cleaner_dirtiest_percent 41",
        "levada_cleaner_uncleanable_partitions 1",
        "levada_transfer_bytes_total{path=\"splice\"} 0",
        "levada_transfer_calls_total{path=\"sendfile\"} 0",
        "levada_transfer_stalls_total{path=\"read_write\"} 0",
        "levada_transfer_fallbacks_total{cause=\"cold_read\"} 0",
        "levada_transfer_copied_bytes_total 0",
        "process_start_time_seconds 5.0",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} is not in\n{body}");
    }
    let resident = body.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
    assert!(resident.parse::<u64>().unwrap() > 100_000, "{resident}");
    assert!(body.ends_with("# EOF\n"));
    assert!(!body.contains("api=\"Fetch\""), "an API nobody asked for has no series");
}

#[test]
fn every_api_has_a_slot() {
    let stats = Stats::new(UNIX_EPOCH);
    for api in APIS {
        stats.request(api.key);
    }
    assert_eq!(stats.requests().count(), APIS.len());
}

#[test]
fn stopping_does_not_wait_for_idle_connections() {
    let (_fake, server) = start();
    let mut idle = TcpStream::connect(server.address()).unwrap();
    drop(server);
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn a_taken_port_is_named() {
    let (fake, server) = start();
    let listen = HostPort { host: "127.0.0.1".to_owned(), port: server.address().port() };
    let message = WebServer::start(&listen, None, fake).unwrap_err().to_string();
    assert!(message.starts_with(&format!("cannot listen on {listen} (levada.http.listen): ")), "{message}");
}

#[test]
fn whoever_asks_shows_the_token() {
    let fake = Fake { stats: Stats::new(UNIX_EPOCH), sick: AtomicBool::new(false) };
    let listen = HostPort { host: "127.0.0.1".to_owned(), port: 0 };
    let server = WebServer::start(&listen, Some(Secret::from("s3cret")), Arc::new(fake)).unwrap();
    let check = |authorization: &str, expected: &str| {
        for path in ["/metrics", "/healthz", "/"] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
            write!(stream, "{head}{authorization}\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let found = answer.split(' ').nth(1).unwrap();
            let expected = if path == "/" && expected == "200" { "404" } else { expected };
            assert_eq!(found, expected, "{path} {authorization}");
            assert!(!answer.contains("s3cret"));
        }
    };
    check("", "401");
    check("authorization: Bearer s3cret\r\n", "200");
    check("authorization: bearer  s3cret\r\n", "200");
    check("authorization: Bearer s3cre\r\n", "401");
    check("authorization: Bearer\r\n", "401");
    // prometheus:s3cret and prometheus:other
    check("authorization: Basic cHJvbWV0aGV1czpzM2NyZXQ=\r\n", "200");
    check("authorization: Basic cHJvbWV0aGV1czpvdGhlcg==\r\n", "401");
    check("authorization: Basic ???\r\n", "401");
}

#[test]
fn a_page_that_calls_this_machine_by_its_own_name_is_not_answered() {
    let (_fake, server) = start();
    let port = server.address().port();
    let status = |head: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET {head}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9644", &format!("127.0.0.1:{port}")] {
        assert_eq!(status(&format!("/metrics HTTP/1.1\r\nhost: {host}")), "200", "{host}");
    }
    assert_eq!(status("/metrics HTTP/1.0\r\nx: y"), "200");
    for host in ["evil.test", "evil.test:9644", "localhost.evil.test", "127.0.0.1.evil.test", "", "?"] {
        let found = status(&format!("/metrics HTTP/1.1\r\nhost: {host}"));
        assert!(["421", "400"].contains(&&*found), "{host}: {found}");
    }
    assert_eq!(status("http://evil.test/metrics HTTP/1.1\r\nhost: localhost"), "421");
}

#[test]
fn half_requests_neither_last_nor_keep_others_out() {
    let (_fake, server) = start();
    // More than there may be: the rest waits, and gets its turn when those before have had their time.
    let mut halves: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut half = TcpStream::connect(server.address()).unwrap();
            write!(half, "GET /metrics HTTP/1.1\r\nhost: loc").unwrap();
            half
        })
        .collect();
    assert_eq!(ask(&server, "GET", "/healthz").0, "HTTP/1.1 200 OK");
    for half in &mut halves[..64] {
        half.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        half.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    }
}
