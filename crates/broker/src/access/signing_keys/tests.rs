//! Key servers on this machine, with and without TLS, good and bad.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use levada_config::{BrokerConfig, Sources};
use levada_process::clock::skew;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// Answers each connection with the same bytes, by TLS if it has a certificate.
fn serve(answer: &str, identity: Option<&(rcgen::Certificate, KeyPair)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = answer.to_owned();
    let config = identity.map(|(certificate, key)| {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    });
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            match &config {
                None => exchange(socket, &answer),
                Some(config) => {
                    let tls = ServerConnection::new(config.clone()).unwrap();
                    exchange(StreamOwned::new(tls, socket), &answer);
                }
            }
        }
    });
    address
}

/// A client that does not trust us breaks off anywhere.
fn exchange(mut stream: impl Read + Write, answer: &str) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => asked.push(byte[0]),
            _ => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
}

fn identity(host: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (CertificateParams::new([host.to_owned()]).unwrap().self_signed(&key).unwrap(), key)
}

fn trusting(certificate: &rcgen::Certificate) -> Jaas {
    let inline = certificate.pem().replace('\n', " ");
    Jaas::parse(&format!("OAuthBearerLoginModule required ssl.truststore.certificates=\"{inline}\";"))
        .unwrap()
}

const KEYS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"keys\":[]}";

#[test]
fn signing_key_fetch_uses_login_module_truststore() {
    let (good, other) = (identity("localhost"), identity("elsewhere.test"));
    let check =
        |server: &(rcgen::Certificate, KeyPair), login: Option<&Jaas>, expected: Result<&str, &str>| {
            let url = format!("https://localhost:{}/keys", serve(KEYS, Some(server)).port());
            match (fetch(&url, login), expected) {
                (Ok(had), Ok(expected)) => assert_eq!(had, expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (had, expected) => panic!("{had:?} instead of {expected:?}"),
            }
        };
    check(&good, Some(&trusting(&good.0)), Ok("{\"keys\":[]}"));
    check(&good, Some(&trusting(&other.0)), Err("invalid peer certificate"));
    check(&other, Some(&trusting(&other.0)), Err("not valid for name"));
    let missing = Jaas::parse("x required ssl.truststore.location=\"/nowhere\";").unwrap();
    check(&good, Some(&missing), Err("cannot read /nowhere"));
}

#[test]
fn invalid_signing_keys_are_errors() {
    let check = |answer: &str, expected: &str| {
        let error = fetch(&format!("http://{}/keys", serve(answer, None)), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "404");
    check("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302");
    check("no HTTP at all\r\n\r\n", "");
    let long = "x".repeat(2 << 20);
    check(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{long}", long.len()), "limit");
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"key\r\n6\r\ns\":[]}\r\n0\r\n\r\n";
    let had = fetch(&format!("http://{}/", serve(chunked, None)), None).unwrap();
    assert_eq!(had, "{\"keys\":[]}");
}

const KEY: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

#[test]
fn listeners_sharing_jwks_url_keep_separate_truststores() {
    let directory = tempfile::tempdir().unwrap();
    let server = identity("localhost");
    let document =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{KEY}", KEY.len());
    let url = format!("https://localhost:{}/keys", serve(&document, Some(&server)).port());
    let mut settings = vec![
        format!("log.dirs={}", directory.path().join("data").display()),
        "listeners=ONE://127.0.0.1:0,TWO://127.0.0.1:0,SAME://127.0.0.1:0".to_owned(),
        "listener.security.protocol.map=ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT,SAME:SASL_PLAINTEXT".to_owned(),
        "sasl.enabled.mechanisms=OAUTHBEARER".to_owned(),
        format!("sasl.oauthbearer.jwks.endpoint.url={url}"),
    ];
    let stranger = identity("localhost");
    for (listener, trusted) in [("one", &stranger), ("two", &server), ("same", &server)] {
        let path = directory.path().join(format!("{listener}.pem"));
        std::fs::write(&path, trusted.0.pem()).unwrap();
        // The same place for those who trust the same.
        let path = if listener == "same" { directory.path().join("two.pem") } else { path };
        settings.push(format!(
            "listener.name.{listener}.oauthbearer.sasl.jaas.config=OAuthBearerLoginModule required ssl.truststore.location=\"{}\";",
            path.display()
        ));
    }
    let config = BrokerConfig::load(&Sources::flags(settings)).unwrap();
    let source = |listener: &str| config.security.sasl[listener].tokens.keys.clone();
    let [one, two, same] = ["ONE", "TWO", "SAME"].map(source);
    let keys = SigningKeys::new(Arc::new(LiveConfig::new(config)));
    let (due, _) = keys.due(steady_ms());
    assert_eq!(due.len(), 2, "{due:?}");
    for source in &due {
        keys.renew(source);
    }
    let hour_ms = 3_600_000;
    skew::by(24 * hour_ms, || keys.renew(&two));
    assert!(keys.due(steady_ms() + hour_ms).0.contains(&two), "the wall clock was a day ahead meanwhile");
    assert!(keys.keys(&one).is_empty());
    assert!(!keys.keys(&two).is_empty());
    assert!(!keys.keys(&same).is_empty());
}
