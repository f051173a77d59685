//! The end of sessions while the wall clock is set, and clients that authenticate again.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use levada_client::{Connection, ConnectionOptions};
use levada_config::{BrokerConfig, Sources};
use levada_process::clock::skew;
use levada_security::oauth::OauthConfig;
use levada_security::sasl::Mechanism;
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::{IncrementalAlterConfigsRequest, SaslAuthenticateRequest, SaslHandshakeRequest};

use super::*;
use crate::server::Server;

const DAY_MS: i64 = 86_400_000;

/// Key and value that let alice in with a password.
const PASSWORDS: &str = "listener.name.client.plain.sasl.jaas.config";

fn passwords(password: &str) -> String {
    format!("org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"{password}\";")
}

/// Error code of an authentication as alice.
fn authenticate(client: &mut Connection, password: &str) -> i16 {
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = "PLAIN".into();
    assert_eq!(client.request_at(1, &handshake).unwrap().error_code, 0);
    let mut token = SaslAuthenticateRequest::default();
    token.auth_bytes = format!("\0alice\0{password}").into_bytes().into();
    client.request_at(2, &token).unwrap().error_code
}

/// A broker with a second listener, `CLIENT`, on which clients authenticate.
fn start(directory: &Path, further: &[&str]) -> Server {
    let log_dirs = format!("log.dirs={}", directory.display());
    let flags = [
        log_dirs.as_str(),
        "listeners=PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "levada.http.listen=",
    ];
    let flags = flags.iter().chain(further);
    Server::start_without_http(BrokerConfig::load(&Sources::flags(flags.copied())).unwrap()).unwrap()
}

#[test]
fn sasl_reauthentication_uses_current_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let old = format!("{PASSWORDS}={}", passwords("old"));
    let server = start(
        directory.path(),
        &["sasl.enabled.mechanisms=PLAIN", "connections.max.reauth.ms=3600000", old.as_str()],
    );
    let address = |listener: usize| server.kafka_addresses()[listener].to_string();
    let mut clients = [(); 2].map(|()| {
        let mut client =
            Connection::connect_unnegotiated(&address(1), &ConnectionOptions::default()).unwrap();
        assert_eq!(authenticate(&mut client, "old"), 0);
        client
    });
    let mut config = AlterableConfig::default();
    (config.name, config.value) = (PASSWORDS.into(), Some(passwords("new").into()));
    let mut resource = AlterConfigsResource::default();
    (resource.resource_type, resource.resource_name, resource.configs) = (4, "1".into(), vec![config]);
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = vec![resource];
    let mut admin = Connection::connect(&address(0), &ConnectionOptions::default()).unwrap();
    let answer = admin.request(&request).unwrap();
    assert_eq!((answer.responses[0].error_code, &answer.responses[0].error_message), (0, &None));
    let refused = levada_wire::error_code::ErrorCode::SaslAuthenticationFailed.code();
    assert_eq!(authenticate(&mut clients[0], "old"), refused);
    assert_eq!(authenticate(&mut clients[1], "new"), 0);
    drop((admin, clients));
    server.stop();
}

/// A challenge of SCRAM repeats the client's nonce, and the broker keeps both until the proof.
#[test]
fn unfinished_authentication_messages_count_against_memory() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["sasl.enabled.mechanisms=SCRAM-SHA-256"]);
    let address = server.kafka_addresses()[1].to_string();
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = "SCRAM-SHA-256".into();
    let mut first = SaslAuthenticateRequest::default();
    first.auth_bytes = format!("n,,n=ann,r={}", "x".repeat(400_000)).into_bytes().into();
    let mut clients: Vec<Connection> = (0..8)
        .map(|_| Connection::connect_unnegotiated(&address, &ConnectionOptions::default()).unwrap())
        .collect();
    let has_challenge = |client: &mut Connection| {
        assert_eq!(client.request_at(1, &handshake).unwrap().error_code, 0);
        client.request_at(2, &first).is_ok()
    };
    let challenges = clients.iter_mut().map(has_challenge).filter(|has| *has).count();
    assert_eq!(challenges, 5, "2 MiB from one address");
    drop(clients);
    let begun = Instant::now();
    while server.broker.request_memory().held_bytes() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the connections have ended");
        std::thread::yield_now();
    }
    server.stop();
}

#[test]
fn reauthenticating_client_counts_as_authenticated() {
    let config = || {
        let (offers, passwords, tokens) = (Vec::new(), BTreeMap::new(), OauthConfig::default());
        Arc::new(SaslConfig { offers, passwords, tokens })
    };
    let gate = |exchange| AuthGate {
        session: Rc::new(Session::anonymous(Ipv4Addr::LOCALHOST.into())),
        state: State::Talking(Box::new(exchange)),
        talking: Instant::now(),
    };
    let ann = AuthenticatedUser { user: "ann".to_owned(), mechanism: Mechanism::Plain, by_token: false };
    assert!(!gate(Exchange::new(config(), nonce())).has_entered());
    assert!(gate(Exchange::again(config(), nonce(), ann)).has_entered());
}

#[test]
fn clock_change_neither_ends_nor_extends_sessions() {
    let identity =
        || AuthenticatedUser { user: "ann".to_owned(), mechanism: Mechanism::Plain, by_token: false };
    let hour_ms = 3_600_000;
    let session = Authenticated::new(identity(), Some(now_ms() + hour_ms), false);
    for skew_ms in [-DAY_MS, DAY_MS] {
        skew::by(skew_ms, || assert!(!session.is_over(levada_process::clock::now().steady_ms)));
        skew::by(skew_ms, || {
            assert!(session.is_over(levada_process::clock::now().steady_ms + hour_ms + 1000))
        });
    }
    let of_token = skew::by(DAY_MS, || Authenticated::new(identity(), Some(now_ms() + hour_ms), false));
    assert!(!of_token.is_over(steady_ms()) && of_token.is_over(steady_ms() + hour_ms + 1000));
}
