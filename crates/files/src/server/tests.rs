//! A server in this process and rustls as its client. `cargo xtask vm` runs these where the kernel
//! can encrypt, and `LEVADA_VM` says that it then must.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path as FilePath;

use levada_io::Path;
use levada_io::ktls::{Cipher, Version};
use rcgen::generate_simple_self_signed;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedCipherSuite,
    SupportedProtocolVersion,
};

use super::*;

const LARGE_BYTES: usize = 3_000_001;

/// Versions and suites that the kernel may have.
const SUITES: [(&SupportedProtocolVersion, SupportedCipherSuite, Version, Cipher); 4] = [
    (&TLS13, cipher_suite::TLS13_AES_128_GCM_SHA256, Version::Tls13, Cipher::Aes128Gcm),
    (&TLS13, cipher_suite::TLS13_AES_256_GCM_SHA384, Version::Tls13, Cipher::Aes256Gcm),
    (&TLS13, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, Version::Tls13, Cipher::Chacha20Poly1305),
    (&TLS12, cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, Version::Tls12, Cipher::Aes256Gcm),
];

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at / 4096 * 31 + at) as u8).collect()
}

/// A server with one address behind TLS, and its certificate.
fn server(home: &FilePath) -> (Server, CertificateDer<'static>) {
    std::fs::create_dir(home.join("root")).unwrap();
    std::fs::write(home.join("root/large"), large()).unwrap();
    std::fs::write(home.join("root/small"), "a small file").unwrap();
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = home.join("server.pem");
    std::fs::write(&certificate, made.signing_key.serialize_pem() + &made.cert.pem()).unwrap();
    let server = Server::start(Config {
        listen: Vec::new(),
        listen_tls: vec![Address::Tcp("127.0.0.1".to_owned(), 0)],
        tls: Some(TlsOptions { certificate, key: None }),
        shards: Some(2),
        ..plain(home)
    });
    (server.unwrap(), made.cert.der().clone())
}

/// The settings of a server with one address in the clear.
fn plain(home: &FilePath) -> Config {
    Config {
        site: SiteOptions { directory: home.join("root"), ..SiteOptions::default() },
        listen: vec![Address::Tcp("127.0.0.1".to_owned(), 0)],
        listen_tls: Vec::new(),
        tls: None,
        proxy_protocol: false,
        metrics: None,
        access_log: None,
        shards: Some(1),
        connections_max: Some(100),
        connections_per_address_max: 100,
        send_time: SEND_TIME,
        grace: Duration::from_secs(1),
    }
}

fn connect(
    server: &Server,
    certificate: &CertificateDer<'static>,
    (version, suite): (&'static SupportedProtocolVersion, SupportedCipherSuite),
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut provider = default_provider();
    provider.cipher_suites = vec![suite];
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[version]).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(tls, TcpStream::connect(server.addresses()[0].to_string()).unwrap())
}

/// The body of the response to a request for a path.
fn get(stream: &mut impl Asked, path: &str, len: usize) -> Vec<u8> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut some = vec![0; 64 << 10];
    loop {
        let count = read(stream, &mut some);
        assert!(count > 0, "the connection has ended");
        answer.extend_from_slice(&some[..count]);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(end) = end.filter(|end| answer.len() - end >= len) {
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
            return answer.split_off(end);
        }
    }
}

/// Reads once; a profiler's signal may interrupt it.
fn read(stream: &mut impl Asked, into: &mut [u8]) -> usize {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome.unwrap(),
        }
    }
}

trait Asked: Read + Write {}
impl<S: Read + Write> Asked for S {}

#[test]
fn files_leave_by_reference_only_with_kernel_tls() {
    let home = tempfile::TempDir::new().unwrap();
    let (server, certificate) = server(home.path());
    let suites = server.shared.caps.tls_suites;
    for (version, suite, kernel_version, cipher) in SUITES {
        let is_offloaded =
            suites.has(kernel_version, cipher) && (kernel_version == Version::Tls12 || suites.rekeys);
        if std::env::var_os("LEVADA_VM").is_some() && kernel_version == Version::Tls12 {
            assert!(is_offloaded, "{suite:?}: this kernel has TLS");
        }
        let before = server.shared.counters.snapshot();
        let mut stream = connect(&server, &certificate, (version, suite));
        for _ in 0..3 {
            assert_eq!(get(&mut stream, "/small", 12), b"a small file");
            assert!(get(&mut stream, "/large", LARGE_BYTES) == large(), "{suite:?}");
        }
        // An unwanted body comes in records of the kernel as well.
        let refused = "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\n";
        stream.write_all(&[refused.as_bytes(), &[b'x'; 40_000]].concat()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 405");
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let end = std::io::copy(&mut stream, &mut std::io::sink());
        assert!(end.is_ok_and(|rest| rest > 0), "{suite:?}: the end of the answer, and a close_notify");
        let after = server.shared.counters.snapshot();
        let by_reference =
            |counted: &levada_io::Snapshot| counted.bytes(Path::Splice) + counted.bytes(Path::Sendfile);
        let referred = by_reference(&after) - by_reference(&before);
        let most = 3 * LARGE_BYTES as u64;
        if is_offloaded {
            assert!((most - (1 << 20)..=most).contains(&referred), "{suite:?}: {referred} bytes");
        } else {
            assert_eq!(referred, 0, "{suite:?}: this process encrypts");
        }
    }
    server.stop();
}

#[test]
fn unfinished_handshake_delays_no_other_client() {
    let home = tempfile::TempDir::new().unwrap();
    let (server, certificate) = server(home.path());
    let address = server.addresses()[0].to_string();
    let silent: Vec<TcpStream> = (0..50)
        .map(|number| {
            let mut stream = TcpStream::connect(&address).unwrap();
            // A part of the header of a record, or of the record.
            stream.write_all(&[22, 3, 1, 0, 200, 1, 0][..number % 8]).unwrap();
            stream
        })
        .collect();
    let (version, suite, ..) = SUITES[0];
    let mut stream = connect(&server, &certificate, (version, suite));
    assert_eq!(get(&mut stream, "/small", 12), b"a small file");
    drop(silent);
    server.stop();
}

#[test]
fn aborted_tls_handshake_gets_an_alert() {
    let home = tempfile::TempDir::new().unwrap();
    let (server, _) = server(home.path());
    let mut stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    // A handshake record that contains no known message.
    stream.write_all(&[22, 3, 1, 0, 4, 99, 0, 0, 0]).unwrap();
    let mut said = Vec::new();
    let end = stream.read_to_end(&mut said);
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert_eq!(said.first(), Some(&21), "an alert: {said:?}");
    server.stop();
}

#[test]
fn partial_proxy_header_ends_with_its_connection() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    std::fs::write(home.path().join("root/small"), "a small file").unwrap();
    let server = Server::start(Config { proxy_protocol: true, ..plain(home.path()) }).unwrap();
    let open = || {
        let stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    };
    let mut stream = open();
    stream.write_all(b"PROXY TCP4 1.2.").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream, &mut [0; 1]), 0, "the server closes the connection immediately");
    let mut stream = open();
    for part in ["PROXY TCP4 ", "192.0.2.1 192.0.2.2 ", "1 2\r", "\n"] {
        stream.write_all(part.as_bytes()).unwrap();
    }
    assert_eq!(get(&mut stream, "/small", 12), b"a small file");
    server.stop();
}

/// All that a server in the clear says to what is sent, up to its end.
fn said(sent: &str) -> String {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    let server = Server::start(plain(home.path())).unwrap();
    let mut stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    server.stop();
    said
}

#[test]
fn refused_head_request_has_no_body() {
    // Refused for its path, and for a line that is not whole.
    for rest in ["/../ HTTP/1.1\r\nHost: x\r\n\r\n", "/ HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"] {
        let said = said(&format!("\r\nHEAD {rest}"));
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n") && said.ends_with("\r\n\r\n"), "{said}");
    }
}

#[test]
fn a_connection_ends_after_a_mebibyte_of_bodies() {
    let request =
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", 64 << 10, "x".repeat(64 << 10));
    let said = said(&request.repeat(17));
    assert_eq!(said.matches("HTTP/1.1 405").count(), 17);
    assert_eq!(said.matches("Connection: close").count(), 1);
}

#[test]
fn stopping_server_announces_connection_close() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    std::fs::write(home.path().join("root/small"), "a small file").unwrap();
    let server = Server::start(Config { grace: Duration::from_secs(60), ..plain(home.path()) }).unwrap();
    let open = || TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    let (mut idle, mut busy) = (open(), open());
    assert_eq!(get(&mut idle, "/small", 12), b"a small file");
    // Answered, and the next request begun: both have come when the first response has.
    busy.write_all(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\nGET /sm").unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"a small file") {
        let mut some = [0; 1024];
        let count = read(&mut busy, &mut some);
        assert!(count > 0);
        first.extend_from_slice(&some[..count]);
    }
    server.shared.stop.raise();
    assert_eq!(read(&mut idle, &mut [0; 1]), 0, "an idle connection ends");
    busy.write_all(b"all HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut last = String::new();
    busy.read_to_string(&mut last).unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("Connection:"));
    assert!(last.contains("\r\nConnection: close\r\n") && last.ends_with("a small file"), "{last}");
    server.stop();
}

#[test]
fn metrics_address_serves_when_connections_are_full() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    let metrics = Some(Address::Tcp("127.0.0.1".to_owned(), 0));
    let server = Server::start(Config { metrics, connections_max: Some(1), ..plain(home.path()) }).unwrap();
    let mut only = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    only.write_all(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read(&mut only, &mut [0; 1]) == 1, "it has its place");
    let mut operator = TcpStream::connect(server.metrics_address().unwrap().to_string()).unwrap();
    operator.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(get(&mut operator, "/healthz", 3), b"ok\n");
    server.stop();
}

#[test]
fn each_metric_of_clients_is_in_the_documentation() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    let metrics = Some(Address::Tcp("127.0.0.1".to_owned(), 0));
    let server = Server::start(Config { metrics, ..plain(home.path()) }).unwrap();
    let mut stream = TcpStream::connect(server.metrics_address().unwrap().to_string()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    server.stop();
    let sample = |line: &str| line.split([' ', '{']).next().map(str::to_owned);
    let mut names: Vec<String> =
        said.lines().filter(|line| line.starts_with("levada_files_")).filter_map(sample).collect();
    names.dedup();
    assert_eq!(names.len(), 7, "{names:?}");
    let page = include_str!("../../../../docs/operating/files.md");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/operating/files.md");
    }
}

#[test]
fn connection_over_limit_waits_for_a_place() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    std::fs::write(home.path().join("root/small"), "a small file").unwrap();
    let server = Server::start(Config { connections_max: Some(1), ..plain(home.path()) }).unwrap();
    let open = || TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    let (mut first, mut second) = (open(), open());
    second.write_all(b"GET /small HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(get(&mut first, "/small", 12), b"a small file");
    assert_eq!(server.stats().connections(), (1, 0), "the second one waits");
    drop(first);
    let mut said = String::new();
    second.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("a small file"), "{said}");
    server.stop();
}

#[test]
fn files_and_connections_share_available_descriptors() {
    assert_eq!(Places::of(1_048_576, 2, false), Places { files: 2048, connections: 1_044_320 });
    for descriptors in [0, 100, 256, 1024, 4096, 1 << 20, u64::MAX] {
        for (shards, precompressed, forms) in [(1, false, 1), (2, true, 4), (64, true, 4)] {
            let places = Places::of(descriptors, shards, precompressed);
            assert!(places.files >= 4 && places.connections >= 1, "{descriptors}: {places:?}");
            let open = (places.files * forms * shards) as u128 + places.connections as u128;
            assert!(places.connections == 1 || open < u128::from(descriptors), "{descriptors}: {places:?}");
        }
    }
}

#[test]
fn stop_removes_only_the_socket_it_bound() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    let path = home.path().join("socket");
    let start =
        || Server::start(Config { listen: vec![Address::Unix(path.clone())], ..plain(home.path()) }).unwrap();
    let first = start();
    std::fs::rename(&path, home.path().join("moved")).unwrap();
    let second = start();
    first.stop();
    assert!(path.exists(), "the socket of the second server");
    second.stop();
    assert!(!path.exists());
}

#[test]
fn stalled_client_loses_its_connection_to_another() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    // More than the buffers of both sockets hold.
    const FILE_BYTES: u64 = 64 << 20;
    let file = std::fs::File::create(home.path().join("root/large")).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    std::fs::write(home.path().join("root/small"), "a small file").unwrap();
    let send_time = Duration::from_millis(300);
    let server = Server::start(Config { send_time, connections_max: Some(1), ..plain(home.path()) }).unwrap();
    let connect = || TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    let begun = std::time::Instant::now();
    let mut slow = connect();
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = [0; 15];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    // The other client waits for the only place.
    assert_eq!(get(&mut connect(), "/small", 12), b"a small file");
    assert!(begun.elapsed() >= send_time, "the place was free after {:?}", begun.elapsed());
    // The first client gets what the sockets held, and then the end of the connection.
    let mut taken = 0;
    let mut some = vec![0; 64 << 10];
    loop {
        match slow.read(&mut some) {
            Ok(0) => break,
            Ok(count) => taken += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break;
            }
        }
    }
    assert!(taken < FILE_BYTES, "{taken} bytes");
    server.stop();
}

#[test]
fn changing_file_loses_no_earlier_response() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    std::fs::write(home.path().join("root/small"), "a small file").unwrap();
    let changing = std::fs::File::create(home.path().join("root/changing")).unwrap();
    changing.set_len(10).unwrap();
    let server = Server::start(plain(home.path())).unwrap();
    let address = server.addresses()[0].to_string();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for len in [10, 20].into_iter().cycle() {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                changing.set_len(len).unwrap();
            }
        });
        // The parts of the second answer are read from the file after its head is written.
        let requests = "GET /small HTTP/1.1\r\nHost: x\r\n\r\n\
             GET /changing HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0,2-2\r\n\r\n\
             GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut lost = None;
        while lost.is_none() && server.stats().responses_truncated() == 0 {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(requests.as_bytes()).unwrap();
            let mut said = Vec::new();
            // The end may be that of a cut answer, but no reset.
            let end = stream.read_to_end(&mut said);
            let text = String::from_utf8_lossy(&said).into_owned();
            let is_whole = text.split("\r\n\r\n").nth(1).is_some_and(|body| body.starts_with("a small file"));
            lost = (!is_whole || end.is_err()).then_some((text, end));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(lost.is_none(), "{lost:?}");
    });
    assert!(server.stats().responses_truncated() > 0);
    server.stop();
}
