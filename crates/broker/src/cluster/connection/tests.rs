//! Connections to listeners of this crate's own server, which answers DescribeCluster as a
//! controller does.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use levada_config::{BrokerConfig, Sources};
use levada_security::scram::ScramMechanism;
use levada_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use levada_wire::messages::{
    AlterUserScramCredentialsRequest, DescribeClusterRequest, DescribeClusterResponse,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::server::Server;

const USERS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required user_levada=\"pass\";";
const TIMEOUT: Duration = Duration::from_secs(20);

fn target(port: u16) -> Target {
    Target { node: None, address: Address { host: "localhost".into(), port } }
}

/// A server with a listener of each protocol, in the order of Kafka's numbers, and its authority.
fn serve(directory: &Path) -> Server {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let pem = params.signed_by(&key, &authority).unwrap().pem() + &key.serialize_pem();
    fs::write(directory.join("broker.pem"), pem).unwrap();
    fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
    let flags = [
        format!("log.dirs={}", directory.join("data").display()),
        format!("ssl.keystore.location={}", directory.join("broker.pem").display()),
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0"
            .to_owned(),
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
        format!("listener.name.sasl_ssl.plain.sasl.jaas.config={USERS}"),
        format!("listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}"),
        "listener.name.sasl_plaintext.connections.max.reauth.ms=3600000".to_owned(),
        "levada.http.listen=".to_owned(),
    ];
    let server = Server::start_without_http(BrokerConfig::load(&Sources::flags(flags)).unwrap()).unwrap();
    let address = server.kafka_addresses()[0].to_string();
    let mut client = levada_client::Connection::connect(&address, &ConnectionOptions::default()).unwrap();
    for mechanism in ScramMechanism::ALL {
        let mut user = ScramCredentialUpsertion::default();
        (user.name, user.mechanism) = ("levada".into(), mechanism.code());
        (user.iterations, user.salt) = (4096, Bytes::from_static(b"salt"));
        user.salted_password = mechanism.salted_password("pass", b"salt", 4096).into();
        let mut request = AlterUserScramCredentialsRequest::default();
        request.upsertions.push(user);
        let response = client.request(&request).unwrap();
        assert_eq!(response.results[0].error_code, 0, "{response:?}");
    }
    server
}

fn connection(flags: &[String], timeout: Duration) -> Connection {
    let member = [
        "process.roles=broker",
        "node.id=77",
        "controller.quorum.bootstrap.servers=localhost:1",
        "controller.listener.names=CONTROLLER",
    ];
    let flags = member.map(str::to_owned).into_iter().chain(flags.iter().cloned());
    let config = Arc::new(LiveConfig::new(BrokerConfig::load(&Sources::flags(flags)).unwrap()));
    Connection::new(config, Peers::Controllers, "test".to_owned(), (timeout, Cutoff::default()))
}

/// Flags for a controllers' listener of this protocol, with these credentials.
fn security(protocol: &str, mechanism: &str, password: &str) -> Vec<String> {
    let module = if mechanism == "PLAIN" { "plain.Plain" } else { "scram.Scram" };
    let jaas = format!(
        "org.apache.kafka.common.security.{module}LoginModule required username=levada password={password};"
    );
    vec![
        format!("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}"),
        format!("sasl.mechanism.controller.protocol={mechanism}"),
        format!("listener.name.controller.{}.sasl.jaas.config={jaas}", mechanism.to_lowercase()),
    ]
}

fn trust(directory: &Path) -> String {
    format!("listener.name.controller.ssl.truststore.location={}", directory.join("ca.pem").display())
}

fn describe(connection: &mut Connection, to: &Target) -> Option<DescribeClusterResponse> {
    connection.request(to, controller::DESCRIBE_CLUSTER, &DescribeClusterRequest::default())
}

#[test]
fn controller_responds_over_each_protocol_and_mechanism() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let [plain, tls, sasl, both] = [0, 1, 2, 3].map(|at| target(server.kafka_addresses()[at].port()));
    let ask = |mut flags: Vec<String>, to: &Target| {
        flags.push(trust(directory.path()));
        describe(&mut connection(&flags, TIMEOUT), to).map(|answer| answer.error_code)
    };
    assert_eq!(ask(Vec::new(), &plain), Some(0));
    assert_eq!(ask(security("SSL", "PLAIN", "pass"), &tls), Some(0));
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        assert_eq!(ask(security("SASL_PLAINTEXT", mechanism, "pass"), &sasl), Some(0), "{mechanism}");
        assert_eq!(ask(security("SASL_SSL", mechanism, "pass"), &both), Some(0), "{mechanism}");
        assert_eq!(ask(security("SASL_SSL", mechanism, "other"), &both), None, "{mechanism}");
    }
    assert_eq!(ask(security("SASL_SSL", "PLAIN", "pass"), &sasl), None, "the listener has no TLS");
    server.stop();
}

#[test]
fn controller_certificate_needs_trusted_authority_and_name() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut to = target(server.kafka_addresses()[1].port());
    let tls = || security("SSL", "PLAIN", "pass");
    let ask = |flags: Vec<String>, to: &Target| describe(&mut connection(&flags, TIMEOUT), to).is_some();
    assert!(!ask(tls(), &to), "this machine does not trust the authority");
    let trusting = [tls(), vec![trust(directory.path())]].concat();
    assert!(ask(trusting.clone(), &to));
    to.address.host = "127.0.0.1".into();
    assert!(!ask(trusting.clone(), &to), "the certificate has another name");
    let any_name = "listener.name.controller.ssl.endpoint.identification.algorithm=".to_owned();
    assert!(ask([trusting, vec![any_name]].concat(), &to));
    server.stop();
}

#[test]
fn a_session_is_renewed_before_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let to = target(server.kafka_addresses()[2].port());
    let mut connection = connection(&security("SASL_PLAINTEXT", "PLAIN", "pass"), TIMEOUT);
    let before = Instant::now();
    assert!(describe(&mut connection, &to).is_some());
    let open = connection.open.as_ref().unwrap();
    let renew_in = open.renew_at.unwrap() - before;
    let hour = Duration::from_secs(3600);
    assert!(renew_in > hour / 2 && renew_in < hour * 9 / 10, "{renew_in:?}");
    server.stop();
}

#[test]
fn response_wait_is_interrupted_by_another_thread() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target(mute.local_addr().unwrap().port());
    for close in [false, true] {
        let mut connection = connection(&[], Duration::from_secs(3600));
        let cutoff = connection.cutoff.clone();
        let asked = to.clone();
        let waiting = thread::spawn(move || (describe(&mut connection, &asked), connection));
        let (mut peer, _) = mute.accept().unwrap();
        // The request is sent, and the thread waits for its response.
        peer.read_exact(&mut [0; 4]).unwrap();
        cutoff.keep_only(&to.address);
        if close {
            cutoff.close();
        } else {
            cutoff.keep_only(&target(1).address);
        }
        let (answer, connection) = waiting.join().unwrap();
        assert!(answer.is_none());
        assert_eq!(connection.cutoff.permits(&target(1).address), !close);
    }
}

#[test]
fn closed_controller_connection_is_not_reopened() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target(listener.local_addr().unwrap().port());
    let mut connection = connection(&[], TIMEOUT);
    connection.cutoff.close();
    assert!(describe(&mut connection, &to).is_none());
}

#[test]
fn queued_request_never_connects_to_former_controller() {
    let former = TcpListener::bind("127.0.0.1:0").unwrap();
    former.set_nonblocking(true).unwrap();
    let to = target(former.local_addr().unwrap().port());
    let mut connection = connection(&[], Duration::from_millis(100));
    connection.cutoff.keep_only(&target(1).address);
    assert!(describe(&mut connection, &to).is_none());
    assert_eq!(former.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// Otherwise the kernel may deliver the request after its repetition: a change of the replicas in
/// sync that the controller refused when it was repeated would then be made.
#[test]
fn request_without_response_is_reset_before_retry() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target(silent.local_addr().unwrap().port());
    let mut connection = connection(&[], Duration::from_millis(100));
    assert!(describe(&mut connection, &to).is_none());
    assert!(describe(&mut connection, &to).is_none());
    let (mut first, _) = silent.accept().unwrap();
    let ended = first.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn closed_idle_connection_is_not_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let to = target(server.kafka_addresses()[0].port());
    let mut connection = connection(&[], TIMEOUT);
    assert!(describe(&mut connection, &to).is_some());
    connection.cutoff.0.lock().socket.as_ref().unwrap().0.shutdown(Shutdown::Both).unwrap();
    assert!(describe(&mut connection, &to).is_none());
    assert!(connection.told.is_empty(), "{:?}", connection.told);
    assert!(describe(&mut connection, &to).is_some(), "the next request makes a new connection");
    server.stop();
}

#[test]
fn repeated_controller_fault_is_logged_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target(listener.local_addr().unwrap().port());
    drop(listener);
    let mut connection = connection(&[], TIMEOUT);
    for _ in 0..3 {
        assert!(describe(&mut connection, &to).is_none());
        assert_eq!(connection.told.len(), 1, "{:?}", connection.told);
    }
}

#[test]
fn logged_controller_faults_are_bounded() {
    let mut connection = connection(&[], TIMEOUT);
    for port in 1..100 {
        connection.tell(&target(port), &ConnectionFault::Superseded("no".to_owned()));
    }
    assert_eq!(connection.told.len(), FAULTS_MAX);
}
