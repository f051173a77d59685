//! `levada files` behind TLS, with curl as the client.
//!
//! Suite: short; 3 s; needs curl

use std::fs;
use std::path::Path;
use std::process::Command;

use levada_tests::files::{Client, FileServer};
use levada_tests::pki::{Authority, Flaw};
use levada_tests::process;
use rustix::process::Signal;
use tempfile::TempDir;

/// A server with one address behind TLS and one in the clear, and the directory of its
/// certificates.
fn server() -> (FileServer, TempDir, Authority) {
    let certificates = TempDir::new().expect("a directory");
    let authority = Authority::new(certificates.path());
    let identity = authority.issue("site", Flaw::None);
    let identity = identity.to_str().expect("a path");
    let server = FileServer::start(&["--listen-tls", "127.0.0.1:0", "--tls-cert", identity], |root| {
        fs::write(root.join("small.txt"), "a small file").expect("a file");
        fs::write(root.join("large"), vec![7; 5_000_001]).expect("a file");
    });
    (server, certificates, authority)
}

fn port(server: &FileServer) -> &str {
    server.addresses()[1].rsplit(':').next().expect("a port")
}

fn curl(server: &FileServer, authority: &Path, args: &[&str], paths: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail", "--cacert"]).arg(authority).args(args);
    command.args(paths.iter().map(|path| format!("https://localhost:{}{path}", port(server))));
    let output = command.output().expect("curl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn files_over_tls_arrive_unchanged() {
    let (server, _certificates, authority) = server();
    let ask = |args: &[&str], paths: &[&str]| curl(&server, &authority.certificate(), args, paths);
    for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        assert_eq!(ask(version, &["/small.txt"]), b"a small file");
        assert!(ask(version, &["/large"]) == vec![7; 5_000_001]);
        assert_eq!(ask(&[version, &["-r", "4999999-"]].concat(), &["/large"]), [7, 7]);
        // One connection for all.
        assert_eq!(ask(version, &["/small.txt"; 20]), b"a small file".repeat(20));
    }
    let head = ask(&["-I", "--http2"], &["/large"]);
    assert!(String::from_utf8_lossy(&head).contains("Content-Length: 5000001\r\n"));
    server.stop();
}

#[test]
fn request_body_over_tls_is_skipped() {
    let (server, _certificates, authority) = server();
    let body = "x".repeat(60_000);
    let mut command = Command::new("curl");
    command.args(["-sS", "--cacert"]).arg(authority.certificate()).args([
        "-w",
        "%{http_code} ",
        "-H",
        "Expect:",
        "-d",
        &body,
    ]);
    command.arg(format!("https://localhost:{}/small.txt", port(&server)));
    command.args(["--next", "-sS", "--cacert"]).arg(authority.certificate());
    command.arg(format!("https://localhost:{}/small.txt", port(&server)));
    let output = command.output().expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "405 Method Not Allowed\n405 a small file");
    server.stop();
}

#[test]
fn sighup_reloads_the_tls_certificate() {
    let (server, certificates, authority) = server();
    let ask = |authority: &Path| curl(&server, authority, &[], &["/small.txt"]);
    ask(&authority.certificate());
    let place = certificates.path().join("other");
    let other = Authority::new(&place);
    fs::copy(other.issue("site", Flaw::None), certificates.path().join("site.pem")).expect("a file");
    process::signal(server.pid(), Signal::HUP);
    server.await_line("directory reopened");
    levada_tests::await_some("the new certificate", std::time::Duration::from_secs(30), || {
        let url = format!("https://localhost:{}/small.txt", port(&server));
        let mut command = Command::new("curl");
        command.args(["-sS", "--cacert"]).arg(other.certificate()).arg(url);
        let output = command.output().expect("curl runs");
        (output.stdout == b"a small file").then_some(())
    });
    // An unreadable one changes nothing.
    fs::write(certificates.path().join("site.pem"), "no certificate").expect("a file");
    process::signal(server.pid(), Signal::HUP);
    server.await_line("cannot reload the certificate; the previous one stays in use");
    assert_eq!(ask(&other.certificate()), b"a small file");
    server.stop();
}

#[test]
fn plaintext_client_gets_an_explanation() {
    let (server, _certificates, _authority) = server();
    let address = server.addresses()[1].parse().expect("an address");
    let mut plain = Client::open(address);
    plain.say(b"GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = plain.answer(true);
    assert_eq!(
        (answer.status, answer.text()),
        (400, "400 Bad Request: this port requires HTTPS\n".to_owned())
    );
    assert_eq!(plain.rest(), b"");
    // Bytes that are not TLS end only their own connection.
    let mut broken = Client::open(address);
    broken.say(b"\x16\x03\x01\x00\x05hello, this is not a handshake");
    broken.rest();
    assert_eq!(server.get("/small.txt").status, 200);
    server.stop();
}
