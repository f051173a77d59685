//! Brokers of Levada that reach a real Kafka controller by a listener of each security protocol.
//! The controller has an authorizer, and lets one user act for the cluster.
//!
//! Suite: long; 14 s; needs java

use std::net::SocketAddr;
use std::thread;

use bytes::Bytes;
use levada_client::{Connection, ConnectionOptions};
use levada_tests::await_some;
use levada_tests::cluster::{CONTROLLER, Cluster, Discovery, LEVADA, LIMIT, Shape};
use levada_tests::node::free_port;
use levada_tests::pki::{Authority, Flaw};
use levada_wire::messages::AlterUserScramCredentialsRequest;
use levada_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;

const PROTOCOLS: &str =
    "CONTROLLER:PLAINTEXT,SECURE:SSL,OPEN:SASL_PLAINTEXT,BOTH:SASL_SSL,PLAINTEXT:PLAINTEXT";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required";

/// The password `pass`, hashed by SCRAM-SHA-512 with the salt `salt` and 4096 iterations.
const SALTED: &str = concat!(
    "eca8c8130ae104fe75f74354b33173f16de35f71bd5fd0aa26a22116af291b88",
    "fb02b22d01d6e7837005bdaacd8a804cb45daeafc872de52d69e129b46069cdf"
);

/// The members and the listener by which each reaches the controller.
const MEMBERS: [(i32, &str, &str); 3] =
    [(LEVADA, "SECURE", "PLAIN"), (LEVADA + 1, "OPEN", "SCRAM-SHA-512"), (LEVADA + 2, "BOTH", "PLAIN")];

/// A member whose user may not act for the cluster.
const STRANGER: i32 = LEVADA + 3;

fn cluster(authority: &Authority, ports: &[SocketAddr; 3]) -> Cluster {
    let shape = Shape { controllers: 1, kafka: 0, levada: 4, discovery: Discovery::BootstrapServers };
    let cluster = Cluster::new(shape);
    let own = cluster.node(CONTROLLER).controller_address();
    let [secure, open, both] = ports;
    let listeners = format!("CONTROLLER://{own},SECURE://{secure},OPEN://{open},BOTH://{both}");
    let store = authority.issue("controller", Flaw::None).display().to_string();
    let users = format!("{PLAIN} user_levada=\"pass\" user_stranger=\"pass\";");
    let controller = [
        ("listeners", listeners.as_str()),
        ("controller.listener.names", "CONTROLLER,SECURE,OPEN,BOTH"),
        ("listener.security.protocol.map", PROTOCOLS),
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", &store),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512"),
        ("listener.name.open.plain.sasl.jaas.config", &users),
        ("listener.name.open.scram-sha-512.sasl.jaas.config", &format!("{SCRAM};")),
        ("listener.name.both.plain.sasl.jaas.config", &users),
        ("listener.name.both.scram-sha-512.sasl.jaas.config", &format!("{SCRAM};")),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:ANONYMOUS;User:levada"),
    ];
    let cluster =
        controller.into_iter().fold(cluster, |all, (key, value)| all.option(CONTROLLER, key, value));
    let trusted = authority.certificate().display().to_string();
    let members = MEMBERS.into_iter().chain([(STRANGER, "BOTH", "PLAIN")]);
    members.fold(
        cluster.option(LEVADA, "listener.security.protocol.map", PROTOCOLS),
        |cluster, (id, listener, mechanism)| {
            let port = match listener {
                "SECURE" => secure,
                "OPEN" => open,
                _ => both,
            };
            let user = if id == STRANGER { "stranger" } else { "levada" };
            let module = if mechanism == "PLAIN" { PLAIN } else { SCRAM };
            let prefix = format!("listener.name.{}", listener.to_lowercase());
            let options = [
                ("controller.listener.names".to_owned(), listener.to_owned()),
                ("controller.quorum.bootstrap.servers".to_owned(), port.to_string()),
                ("sasl.mechanism.controller.protocol".to_owned(), mechanism.to_owned()),
                (
                    format!("{prefix}.{}.sasl.jaas.config", mechanism.to_lowercase()),
                    format!("{module} username=\"{user}\" password=\"pass\";"),
                ),
                (format!("{prefix}.ssl.truststore.location"), trusted.clone()),
            ];
            options.into_iter().fold(cluster, |all, (key, value)| all.member_option(id, &key, &value))
        },
    )
}

/// Creates the user `levada` for SCRAM as soon as the controller answers. It has no user before.
fn create_user(controller: SocketAddr) {
    let mut user = ScramCredentialUpsertion::default();
    (user.name, user.mechanism, user.iterations) = ("levada".into(), 2, 4096);
    user.salt = Bytes::from_static(b"salt");
    let salted = (0..SALTED.len()).step_by(2).map(|at| u8::from_str_radix(&SALTED[at..at + 2], 16));
    user.salted_password = salted.collect::<Result<Vec<u8>, _>>().expect("hexadecimal digits").into();
    let mut request = AlterUserScramCredentialsRequest::default();
    request.upsertions.push(user);
    await_some("a user for SCRAM", LIMIT, || {
        let mut client = Connection::connect(&controller.to_string(), &ConnectionOptions::default()).ok()?;
        let answer = client.request(&request).ok()?;
        answer.results.iter().all(|result| result.error_code == 0).then_some(())
    });
}

#[test]
fn each_controller_listener_protocol_admits_a_member() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path());
    let ports = [free_port(), free_port(), free_port()];
    let mut cluster = cluster(&authority, &ports);
    let controller = cluster.node(CONTROLLER).controller_address();
    thread::scope(|scope| {
        scope.spawn(|| create_user(controller));
        cluster.start_except(&[STRANGER]);
    });
    let ids = MEMBERS.map(|(id, ..)| id);
    cluster.await_brokers(&ids);
    // Requests of clients travel by the same listeners.
    for id in ids {
        let said = cluster.tools(id).run(&format!("TopicCommand --create --topic by-{id}"));
        assert!(said.contains("Created topic"), "{said}");
    }
    // All members log in again at a controller that was killed.
    cluster.node_mut(CONTROLLER).kill();
    cluster.node_mut(CONTROLLER).start();
    let said = cluster.tools(LEVADA).run("TopicCommand --create --topic again");
    assert!(said.contains("Created topic"), "{said}");
    cluster.await_brokers(&ids);
    // The controller logs the refusal of the user that follows as an error.
    cluster.assert_no_errors();
    let stranger = cluster.node_mut(STRANGER);
    stranger.launch();
    let status = stranger.wait();
    let talk = stranger.history();
    assert!(!status.success(), "{talk}");
    assert!(talk.contains("grant it CLUSTER_ACTION"), "{talk}");
}
