//! A broker with a TLS listener in this process, and rustls as its client. `cargo xtask vm` runs
//! these where the kernel can encrypt, and `LEVADA_VM` says that it then must.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_base::compress::Compression;
use levada_client::{Connection, ConnectionOptions};
use levada_config::{BrokerConfig, Sources};
use levada_io::Path;
use levada_testing::{scale, scaled};
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{
    CreateTopicsRequest, FetchRequest, FetchResponse, IncrementalAlterConfigsRequest, KafkaRequest,
    ProduceRequest,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::Server;
use crate::tls::Tls;

mod forger;
mod hostile;
mod rekeying;
mod revocation;
mod scattered;

/// An authority, and a broker that trusts it.
struct Rig {
    authority: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
    server: Option<Server>,
}

impl Rig {
    fn new(settings: &[&str]) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let named = |setting: &str| setting.replace("{dir}", &directory.path().display().to_string());
        let settings: Vec<String> = settings.iter().map(|one| named(one)).collect();
        let mut rig = Self { authority, directory, server: None };
        rig.write_identity("first");
        fs::write(rig.path("ca.pem"), rig.authority.pem()).unwrap();
        rig.revoke(&[], 2090);
        let paths = [
            format!("log.dirs={}", rig.path("data").display()),
            format!("ssl.keystore.location={}", rig.path("broker.pem").display()),
            format!("ssl.truststore.location={}", rig.path("ca.pem").display()),
        ];
        let mut flags: Vec<String> = paths.into();
        flags.push("listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0".to_owned());
        flags.push("levada.http.listen=".to_owned());
        flags.push("auto.create.topics.enable=false".to_owned());
        flags.extend(settings);
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        rig.server = Some(Server::start_without_http(config).unwrap());
        rig
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn address(&self, listener: usize) -> SocketAddr {
        self.server().kafka_addresses()[listener]
    }

    /// A certificate and its key, signed by the authority.
    fn issue(&self, name: &str) -> (CertificateDer<'static>, KeyPair, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate.der().clone(), key, certificate.pem())
    }

    fn write_identity(&self, name: &str) {
        let (_, key, pem) = self.issue(name);
        let path = self.path("broker.pem");
        fs::write(path.with_extension("new"), pem + &key.serialize_pem()).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// A client's configuration; `suite` is the only one it speaks.
    fn client(&self, suite: Option<CipherSuite>, certificate: Option<&str>) -> ClientConfig {
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.retain(|one| suite.is_none_or(|suite| one.suite() == suite));
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let (certificate, key, _) = self.issue(name);
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        }
    }

    fn connect(&self, config: ClientConfig) -> Secure {
        let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let socket = TcpStream::connect(self.address(1)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        StreamOwned::new(tls, socket)
    }

    /// A topic with records that cannot be compressed; returns what a fetch of it answers.
    fn filled(&self, topic: &str, batches: usize) -> Bytes {
        let mut client =
            Connection::connect(&self.address(0).to_string(), &ConnectionOptions::default()).unwrap();
        let mut wanted = CreatableTopic::default();
        wanted.name = topic.into();
        wanted.num_partitions = 1;
        wanted.replication_factor = 1;
        let mut request = CreateTopicsRequest::default();
        request.topics = vec![wanted];
        request.timeout_ms = 10_000;
        assert_eq!(client.request(&request).unwrap().topics[0].error_code, 0);
        let mut value = vec![0_u8; 500_000];
        let mut seed = 88_172_645_463_325_252_u64;
        for _ in 0..batches {
            for chunk in value.chunks_mut(8) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                chunk.copy_from_slice(&seed.to_ne_bytes()[..chunk.len()]);
            }
            let mut builder = Builder::new().compression(Compression::None);
            builder.push(levada_process::clock::now_ms(), None, Some(&value));
            let mut partition = PartitionProduceData::default();
            partition.records = Some(builder.build().unwrap().freeze());
            let mut topic_data = TopicProduceData::default();
            topic_data.name = topic.into();
            topic_data.partition_data = vec![partition];
            let mut request = ProduceRequest::default();
            request.acks = -1;
            request.timeout_ms = 10_000;
            request.topic_data = vec![topic_data];
            let answer = client.request_at(PRODUCE, &request).unwrap();
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        let expected = records(client.request_at(FETCH, &fetch(topic)).unwrap());
        self.await_count(|now| now.bytes(Path::Splice) + now.bytes(Path::ReadWrite) >= expected.len() as u64);
        expected
    }

    /// Sets a key of the broker while it runs.
    fn alter(&self, key: &str, value: &str) {
        let mut config = AlterableConfig::default();
        config.name = key.into();
        config.value = Some(value.into());
        let mut resource = AlterConfigsResource::default();
        resource.resource_type = 4;
        resource.resource_name = "1".into();
        resource.configs = vec![config];
        let mut request = IncrementalAlterConfigsRequest::default();
        request.resources = vec![resource];
        let mut client =
            Connection::connect(&self.address(0).to_string(), &ConnectionOptions::default()).unwrap();
        let answer = client.request(&request).unwrap();
        assert_eq!((answer.responses[0].error_code, &answer.responses[0].error_message), (0, &None));
    }

    /// Waits until the counters say so: a peer may have bytes before they are counted.
    fn await_count(&self, holds: impl Fn(&levada_io::Snapshot) -> bool) -> levada_io::Snapshot {
        let started = std::time::Instant::now();
        loop {
            let now = self.server().broker.transfers().counters().snapshot();
            if holds(&now) {
                return now;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{now:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

const PRODUCE: i16 = 9;
const FETCH: i16 = 11;

fn fetch(topic: &str) -> FetchRequest {
    let mut partition = FetchPartition::default();
    partition.partition_max_bytes = 100 << 20;
    partition.current_leader_epoch = -1;
    let mut wanted = FetchTopic::default();
    wanted.topic = topic.into();
    wanted.partitions = vec![partition];
    let mut request = FetchRequest::default();
    request.max_bytes = 100 << 20;
    request.session_epoch = -1;
    request.topics = vec![wanted];
    request
}

fn records(answer: FetchResponse) -> Bytes {
    let partition = answer.responses.into_iter().flat_map(|topic| topic.partitions).next().unwrap();
    assert_eq!(partition.error_code, 0);
    partition.records.unwrap_or_default()
}

fn ask<R: KafkaRequest>(stream: &mut Secure, version: i16, request: &R) -> std::io::Result<Bytes> {
    let frame = levada_wire::encode_request(1, Some("test"), version, request).unwrap();
    stream.write_all(&frame)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut answer = BytesMut::zeroed(u32::from_be_bytes(size) as usize);
    stream.read_exact(&mut answer)?;
    Ok(answer.freeze())
}

fn fetched(stream: &mut Secure, topic: &str) -> Bytes {
    let answer = ask(stream, FETCH, &fetch(topic)).unwrap();
    records(levada_wire::decode_response::<FetchResponse>(answer, FETCH).unwrap().1)
}

const SUITES: [CipherSuite; 6] = [
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

#[test]
fn every_tls_suite_uses_path_kernel_allows() {
    let rig = Rig::new(&[]);
    let expected = rig.filled("t", 8);
    let caps = rig.server().broker.transfers().caps().clone();
    assert!(caps.kernel_tls.works() || std::env::var_os("LEVADA_VM").is_none(), "{caps:?}");
    for suite in SUITES {
        let is_13 = format!("{suite:?}").starts_with("TLS13");
        let counters = rig.server().broker.transfers().counters();
        let before = counters.snapshot();
        let mut stream = rig.connect(rig.client(Some(suite), None));
        for _ in 0..3 {
            assert!(fetched(&mut stream, "t") == expected, "{suite:?}");
        }
        let sent = 3 * expected.len() as u64;
        let by = |now: &levada_io::Snapshot, path| now.bytes(path) - before.bytes(path);
        let (path, other) = if caps.kernel_tls.works() && (!is_13 || caps.tls_suites.rekeys) {
            (Path::Splice, Path::UserTls)
        } else {
            (Path::UserTls, Path::Splice)
        };
        let after = rig.await_count(|now| by(now, path) >= sent);
        assert_eq!(by(&after, other), 0, "{suite:?}");
    }
}

#[test]
fn tls_key_update_continues_the_connection() {
    let rig = Rig::new(&["ssl.enabled.protocols=TLSv1.3"]);
    let expected = rig.filled("t", 2);
    let mut stream = rig.connect(rig.client(None, None));
    for _ in 0..3 {
        assert!(fetched(&mut stream, "t") == expected);
        stream.conn.refresh_traffic_keys().unwrap();
    }
}

#[test]
fn kernel_tls_needs_support_and_configuration() {
    let rig = Rig::new(&["levada.ssl.kernel.offload=never"]);
    let expected = rig.filled("t", 2);
    let before = rig.server().broker.transfers().counters().snapshot();
    for suite in SUITES {
        assert!(fetched(&mut rig.connect(rig.client(Some(suite), None)), "t") == expected);
    }
    let after = rig.await_count(|now| now.bytes(Path::UserTls) > 6 * expected.len() as u64);
    assert_eq!(after.bytes(Path::Splice), before.bytes(Path::Splice));
}

#[test]
fn close_notify_ends_the_connection_cleanly() {
    let rig = Rig::new(&[]);
    rig.filled("t", 1);
    for suite in SUITES {
        let mut stream = rig.connect(rig.client(Some(suite), None));
        fetched(&mut stream, "t");
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let mut rest = Vec::new();
        // An end without a goodbye would be an error here.
        assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0, "{suite:?}");
    }
}

#[test]
fn client_without_mapped_certificate_is_refused() {
    let rig = Rig::new(&["ssl.client.auth=required", "ssl.principal.mapping.rules=RULE:^CN=(duke)$/$1/U"]);
    rig.filled("t", 1);
    fetched(&mut rig.connect(rig.client(None, Some("duke"))), "t");
    let refused = ask(&mut rig.connect(rig.client(None, None)), FETCH, &fetch("t")).unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    // No rule fits, as good as no certificate.
    assert!(ask(&mut rig.connect(rig.client(None, Some("jester"))), FETCH, &fetch("t")).is_err());
}

#[test]
fn live_tls_settings_apply_to_new_connections() {
    let rig = Rig::new(&[]);
    rig.filled("t", 1);
    fetched(&mut rig.connect(rig.client(None, None)), "t");
    rig.alter("listener.name.ssl.ssl.client.auth", "required");
    let refused = ask(&mut rig.connect(rig.client(None, None)), FETCH, &fetch("t")).unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    fetched(&mut rig.connect(rig.client(None, Some("duke"))), "t");
    rig.alter("listener.name.ssl.ssl.client.auth", "none");
    rig.alter("ssl.enabled.protocols", "TLSv1.2");
    let mut stream = rig.connect(rig.client(None, None));
    fetched(&mut stream, "t");
    assert_eq!(stream.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn plaintext_on_a_tls_port_is_closed() {
    let rig = Rig::new(&[]);
    for first in [&[0, 0, 0, 20, 0, 18, 0, 3][..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = TcpStream::connect(rig.address(1)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.write_all(first).unwrap();
        let mut said = Vec::new();
        match socket.read_to_end(&mut said) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn replaced_key_store_is_loaded_unless_broken() {
    let rig = Rig::new(&[]);
    let shown = || {
        let mut stream = rig.connect(rig.client(None, None));
        ask(&mut stream, FETCH, &fetch("none")).unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone()
    };
    let first = shown();
    let refresh = || rig.server().broker.tls().refresh(&rig.server().broker.config());
    rig.write_identity("first");
    refresh();
    let second = shown();
    assert_ne!(first, second);
    fs::write(rig.path("broker.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
    refresh();
    assert_eq!(shown(), second);
    rig.write_identity("somebody else");
    refresh();
    assert_eq!(shown(), second, "it is for another subject");
}

#[test]
fn reset_during_fetch_disturbs_no_other_client() {
    let rig = Rig::new(&[]);
    let expected = rig.filled("t", 8);
    // At least each suite with each kind of round.
    let rounds = scaled(12).max(12);
    for round in 0..rounds {
        let mut stream = rig.connect(rig.client(Some(SUITES[round % 6]), None));
        if round % 4 == 3 {
            assert!(fetched(&mut stream, "t") == expected, "{round}");
            continue;
        }
        let frame = levada_wire::encode_request(1, Some("test"), FETCH, &fetch("t")).unwrap();
        stream.write_all(&frame).unwrap();
        let mut some = vec![0; 1 + round * 7919 % expected.len()];
        stream.read_exact(&mut some).unwrap();
        socket2::SockRef::from(&stream.sock.as_fd()).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

#[test]
fn unusable_key_stores_report_a_reason() {
    let rig = Rig::new(&[]);
    let at = |name: &str| rig.path(name).display().to_string();
    let (_, key, pem) = rig.issue("other");
    fs::write(rig.path("jks"), [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]).unwrap();
    fs::write(rig.path("chain.pem"), &pem).unwrap();
    fs::write(rig.path("mixed.pem"), pem + &rig.issue("third").1.serialize_pem()).unwrap();
    fs::write(rig.path("key.pem"), key.serialize_pem()).unwrap();
    let check = |settings: &[String], expected: &str| {
        let all = [&["listeners=SSL://127.0.0.1:0".to_owned()], settings].concat();
        let config = BrokerConfig::load(&Sources::flags(all)).unwrap();
        let message = Tls::load(&config, None).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.starts_with("listener SSL: ") && message.contains(expected), "{message}");
    };
    let store = |name: &str| vec![format!("ssl.keystore.location={}", at(name))];
    check(&[], "a TLS listener needs a key store");
    check(&store("absent"), "cannot read");
    let own = vec!["listener.name.SSL.ssl.keystore.location=/absent".to_owned()];
    check(&own, "listener SSL: listener.name.SSL.ssl.keystore.location: cannot read");
    check(&store("jks"), "keytool -importkeystore");
    check(&store("chain.pem"), "there is no private key in it");
    check(&store("key.pem"), "there is no certificate in it");
    check(&store("mixed.pem"), "the key and the certificate do not match");
    let with = |more: &[&str]| {
        let more = more.iter().map(|one| (*one).to_owned());
        store("broker.pem").into_iter().chain(more).collect::<Vec<_>>()
    };
    check(&with(&["ssl.keystore.type=PKCS12"]), "set the type to PEM");
    check(&with(&["ssl.client.auth=required"]), "no trust store is set to verify them");
    check(
        &with(&["ssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA"]),
        "none of these cipher suites is supported",
    );
    check(&with(&["ssl.principal.mapping.rules=RULE:x"]), "is not a rule");
    check(&with(&["ssl.keystore.key=x"]), "set either");
    assert!(FilePath::new(&at("ca.pem")).exists());
}
