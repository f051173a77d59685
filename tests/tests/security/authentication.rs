//! Four families of clients, and the command line, at every kind of listener: by TLS, by every
//! mechanism, with right and wrong credentials. Each family is one process that goes through the
//! whole table and reports for every case the error that its library's users would see.
//!
//! Suite: long; 92 s; needs java, python; uses go

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::pki::{Authority, Flaw};
use levada_tests::{Node, Tool};
use serde_json::json;

/// Expected outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kin {
    /// All is well.
    Good,
    /// The broker is not who it should be.
    Server,
    /// The client's certificate is not good, or missing.
    Client,
    /// The client cannot prove who it is.
    Proof,
    /// The listener does not offer the mechanism.
    Mechanism,
}

struct Case {
    name: String,
    address: SocketAddr,
    protocol: &'static str,
    certificate: Option<PathBuf>,
    sasl: Option<Sasl>,
    kin: Kin,
}

#[derive(Clone)]
struct Sasl {
    mechanism: &'static str,
    user: &'static str,
    secret: String,
}

/// A node with a listener of every kind, and the table of cases.
struct Deployment {
    node: Node,
    authority: Authority,
    cases: Vec<Case>,
}

const SERVERS: [(&str, Flaw); 5] = [
    ("GOOD", Flaw::None),
    ("EXPIRED", Flaw::Expired),
    ("EARLY", Flaw::NotYetValid),
    ("SELF", Flaw::SelfSigned),
    ("OTHER", Flaw::OtherName),
];

const CLIENTS: [(&str, Flaw); 4] = [
    ("good", Flaw::None),
    ("expired", Flaw::Expired),
    ("early", Flaw::NotYetValid),
    ("self", Flaw::SelfSigned),
];

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const OAUTH: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
const LOGIN: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler";

fn module(mechanism: &str) -> &'static str {
    match mechanism {
        "PLAIN" => PLAIN,
        "OAUTHBEARER" => OAUTH,
        _ => SCRAM,
    }
}

/// Kafka accepts tokens only if its virtual machine is configured to trust the address of their
/// keys.
fn mechanisms() -> &'static [&'static str] {
    const ALL: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
    if Kind::under_test() == Kind::Kafka { &ALL[..3] } else { &ALL }
}

impl Deployment {
    fn new() -> Self {
        let mut node = Node::new().option("inter.broker.listener.name", "PLAINTEXT");
        let authority = Authority::new(&node.scratch().join("pki"));
        let mut cases =
            vec![Case { protocol: "PLAINTEXT", ..Case::new("plaintext".into(), node.address(), Kin::Good) }];
        for (name, flaw) in SERVERS {
            let address;
            (node, address) = sealed(node, &authority, (name, "SSL"), flaw);
            let kin = if flaw == Flaw::None { Kin::Good } else { Kin::Server };
            cases.push(Case::new(format!("server-{name}"), address, kin));
        }
        let mutual;
        (node, mutual) = sealed(node, &authority, ("MUTUAL", "SSL"), Flaw::None);
        let trusted = authority.certificate().display().to_string();
        node = node
            .option("listener.name.mutual.ssl.client.auth", "required")
            .option("listener.name.mutual.ssl.truststore.type", "PEM")
            .option("listener.name.mutual.ssl.truststore.location", &trusted);
        cases.push(Case::new("client-none".into(), mutual, Kin::Client));
        for (name, flaw) in CLIENTS {
            let kin = if flaw == Flaw::None { Kin::Good } else { Kin::Client };
            let certificate = Some(authority.issue(name, flaw));
            cases.push(Case { certificate, ..Case::new(format!("client-{name}"), mutual, kin) });
        }
        let mut deployment = Self { node, authority, cases };
        deployment.add_sasl();
        deployment.node.start();
        Tool::python("users.py").args([&deployment.node.bootstrap(), "bob", "right"]).run();
        Tool::python("topics.py").args([&deployment.node.bootstrap(), "secure", "1"]).run();
        deployment
    }

    /// SASL in the clear, under TLS, under TLS of another authority, and with one mechanism only.
    fn add_sasl(&mut self) {
        let [keys, other] = ["keys", "other"].map(|name| directory(&self.node, name));
        for folder in [&keys, &other] {
            Tool::python("oauth.py").args(["keys", &folder.display().to_string()]).run();
        }
        let open = self.node.listen("OPEN", "SASL_PLAINTEXT");
        let few = self.node.listen("FEW", "SASL_PLAINTEXT");
        let mut node = std::mem::take(&mut self.node);
        let [tight, fake];
        (node, tight) = sealed(node, &self.authority, ("TIGHT", "SASL_SSL"), Flaw::None);
        (node, fake) = sealed(node, &self.authority, ("FAKE", "SASL_SSL"), Flaw::OtherName);
        for listener in ["open", "tight", "fake"] {
            node = offering(node, listener, mechanisms());
        }
        node = offering(node, "few", &["SCRAM-SHA-512"]);
        let address = format!("file:{}/jwks.json", keys.display());
        self.node = node
            .option("sasl.oauthbearer.jwks.endpoint.url", &address)
            .option("sasl.oauthbearer.expected.audience", "kafka")
            .option("sasl.oauthbearer.clock.skew.seconds", "0");
        let proofs = proofs(&keys, &other);
        let right = proofs[0].1.clone();
        for (what, sasl, kin) in proofs {
            let listeners = [("SASL_PLAINTEXT", open), ("SASL_SSL", tight)];
            for (protocol, address) in listeners {
                let name = format!("{protocol}-{}-{what}", sasl.mechanism);
                let sasl = Some(sasl.clone());
                self.cases.push(Case { protocol, sasl, ..Case::new(name, address, kin) });
            }
        }
        let sasl = Some(right);
        let fake = Case::new("fake".into(), fake, Kin::Server);
        self.cases.push(Case { protocol: "SASL_SSL", sasl: sasl.clone(), ..fake });
        let few = Case::new("few".into(), few, Kin::Mechanism);
        self.cases.push(Case { protocol: "SASL_PLAINTEXT", sasl, ..few });
    }

    /// The table as a file of JSON.
    fn table(&self) -> String {
        let cases = self.cases.iter().map(|case| {
            let mut row = json!({
                "name": case.name,
                "bootstrap": format!("localhost:{}", case.address.port()),
                "protocol": case.protocol,
                "tls": case.protocol.ends_with("SSL"),
                "ca": self.authority.certificate(),
            });
            if let Some(path) = &case.certificate {
                row["certificate"] = path.display().to_string().into();
            }
            if let Some(Sasl { mechanism, user, secret }) = &case.sasl {
                row["mechanism"] = (*mechanism).into();
                row["user"] = (*user).into();
                row["secret"] = secret.as_str().into();
            }
            row
        });
        let path = self.node.scratch().join("cases.json");
        fs::write(&path, serde_json::Value::from_iter(cases).to_string()).expect("room for a file");
        path.display().to_string()
    }

    /// Compares the reports of a family with the expected errors.
    fn check(mut self, said: &str, expected: impl Fn(&Case) -> &'static str) {
        let said: Vec<(&str, &str)> = said.lines().filter_map(|line| line.split_once(' ')).collect();
        let wrong = self.cases.iter().filter_map(|case| {
            let found = said.iter().find(|(name, _)| *name == case.name).map(|(_, outcome)| *outcome);
            (found != Some(expected(case)))
                .then(|| format!("{}: {found:?} instead of {}", case.name, expected(case)))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), self.cases.len(), wrong.join("\n"));
        self.node.assert_running("after all have come");
        self.node.stop();
    }
}

impl Case {
    /// A case with TLS and without SASL.
    fn new(name: String, address: SocketAddr, kin: Kin) -> Self {
        Self { name, address, protocol: "SSL", certificate: None, sasl: None, kin }
    }

    fn java_properties(&self, authority: &Authority, folder: &Path) -> String {
        let mut lines = format!(
            "bootstrap.servers=localhost:{}\nsecurity.protocol={}\n",
            self.address.port(),
            self.protocol
        );
        if self.protocol.ends_with("SSL") {
            let trusted = authority.certificate();
            lines += &format!("ssl.truststore.type=PEM\nssl.truststore.location={}\n", trusted.display());
        }
        if let Some(path) = &self.certificate {
            lines += &format!("ssl.keystore.type=PEM\nssl.keystore.location={}\n", path.display());
        }
        let Some(Sasl { mechanism, user, secret }) = &self.sasl else { return lines };
        lines += &format!("sasl.mechanism={mechanism}\nsasl.jaas.config={} required", module(mechanism));
        if *mechanism == "OAUTHBEARER" {
            let token = folder.join(format!("{}.token", self.name));
            fs::write(&token, secret).expect("room for a file");
            lines += ";\nsasl.login.callback.handler.class=";
            lines += &format!("{LOGIN}\nsasl.oauthbearer.token.endpoint.url=file:{}\n", token.display());
        } else {
            lines += &format!(" username=\"{user}\" password=\"{secret}\";\n");
        }
        lines
    }
}

fn directory(node: &Node, name: &str) -> PathBuf {
    let path = node.scratch().join(name);
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// With another listener, whose certificate has this flaw.
fn sealed(
    mut node: Node,
    authority: &Authority,
    (name, protocol): (&str, &str),
    flaw: Flaw,
) -> (Node, SocketAddr) {
    let address = node.listen(name, protocol);
    let prefix = format!("listener.name.{}.ssl.keystore", name.to_lowercase());
    let store = authority.issue(name, flaw).display().to_string();
    node = node.option(&format!("{prefix}.type"), "PEM").option(&format!("{prefix}.location"), &store);
    (node, address)
}

/// Configures a listener to offer these SASL mechanisms.
fn offering(mut node: Node, listener: &str, mechanisms: &[&str]) -> Node {
    let prefix = format!("listener.name.{listener}");
    node = node.option(&format!("{prefix}.sasl.enabled.mechanisms"), &mechanisms.join(","));
    for mechanism in mechanisms.iter().filter(|mechanism| **mechanism != "OAUTHBEARER") {
        let users = if *mechanism == "PLAIN" { " user_alice=\"right\"" } else { "" };
        let jaas = format!("{} required{users};", module(mechanism));
        node = node.option(&format!("{prefix}.{}.sasl.jaas.config", mechanism.to_lowercase()), &jaas);
    }
    node
}

/// Clients' credentials, right and wrong, by every mechanism. The right ones come first.
fn proofs(keys: &Path, other: &Path) -> Vec<(&'static str, Sasl, Kin)> {
    let token = |folder: &Path, seconds: &str| {
        let said = Tool::python("oauth.py").args(["token", &folder.display().to_string(), seconds]).run();
        said.stdout.trim().to_string()
    };
    let mut all = Vec::new();
    for mechanism in mechanisms() {
        let known = if *mechanism == "PLAIN" { "alice" } else { "bob" };
        let proofs = match *mechanism {
            "OAUTHBEARER" => [
                ("right", "olga", token(keys, "3600"), Kin::Good),
                ("wrong", "olga", token(other, "3600"), Kin::Proof),
                ("expired", "olga", token(keys, "-60"), Kin::Proof),
            ],
            _ => [
                ("right", known, "right".to_string(), Kin::Good),
                ("wrong", known, "wrong".to_string(), Kin::Proof),
                ("nobody", "nobody", "right".to_string(), Kin::Proof),
            ],
        };
        all.extend(proofs.map(|(what, user, secret, kin)| (what, Sasl { mechanism, user, secret }, kin)));
    }
    all
}

#[test]
fn java_clients_connect_or_report_the_reason() {
    let mut deployment = Deployment::new();
    // By an old version of TLS as well.
    let folder = directory(&deployment.node, "java");
    for case in &deployment.cases {
        let lines = case.java_properties(&deployment.authority, &folder);
        let write = |name: &str, lines: &str| {
            fs::write(folder.join(format!("{name}.properties")), lines).expect("room for a file");
        };
        write(&case.name, &lines);
        if case.protocol == "SSL" {
            write(&format!("old-{}", case.name), &format!("{lines}ssl.enabled.protocols=TLSv1.2\n"));
        }
    }
    let old = deployment.cases.iter().filter(|case| case.protocol == "SSL");
    let old: Vec<Case> =
        old.map(|case| Case::new(format!("old-{}", case.name), case.address, case.kin)).collect();
    deployment.cases.extend(old);
    let said = Tool::own_java("Secure").arg(folder.display().to_string()).run().stdout;
    deployment.check(&said, |case| match case.kin {
        Kin::Good => "ok",
        Kin::Server | Kin::Client => "SslAuthenticationException",
        Kin::Proof => "SaslAuthenticationException",
        Kin::Mechanism => "UnsupportedSaslMechanismException",
    });
}

#[test]
fn librdkafka_connects_or_reports_the_reason() {
    let deployment = Deployment::new();
    let said = Tool::python("connect_matrix.py").args(["confluent", &deployment.table()]).run().stdout;
    deployment.check(&said, |case| match case.kin {
        Kin::Good => "ok",
        Kin::Server | Kin::Client => "_SSL",
        Kin::Proof | Kin::Mechanism => "_AUTHENTICATION",
    });
}

#[test]
fn kafka_python_connects_or_reports_the_reason() {
    let deployment = Deployment::new();
    let said = Tool::python("connect_matrix.py").args(["kafka_python", &deployment.table()]).run().stdout;
    deployment.check(&said, |case| match case.kin {
        Kin::Good => "ok",
        Kin::Server => "CERTIFICATE_VERIFY_FAILED",
        Kin::Client => "ALERT",
        Kin::Proof | Kin::Mechanism => "refused",
    });
}

#[test]
fn franz_go_connects_or_reports_the_reason() {
    let Some(mut tool) = Tool::go("connect_matrix") else {
        eprintln!("skipped: franz-go, because there is no Go to build it with");
        return;
    };
    let deployment = Deployment::new();
    let said = tool.arg(deployment.table()).run().stdout;
    deployment.check(&said, |case| match case.kin {
        Kin::Good => "ok",
        Kin::Server => "untrusted",
        Kin::Client => "alert",
        // The client does not ask the broker for the reason of its token's refusal.
        Kin::Proof if case.name.contains("OAUTHBEARER") => "unexpected data in oauth response",
        Kin::Proof => "SASL_AUTHENTICATION_FAILED",
        Kin::Mechanism => "UNSUPPORTED_SASL_MECHANISM",
    });
}

/// The words by which users recognise the cause of a failure of `levada`.
const FAILURES: [&str; 4] = [
    "invalid peer certificate",
    "received fatal alert",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
];

#[test]
fn command_line_connects_or_reports_the_reason() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: nothing of this is asked of Kafka");
        return;
    }
    let mut deployment = Deployment::new();
    let other =
        deployment.cases.iter().find(|case| case.name == "server-OTHER").expect("such a case").address;
    deployment.cases.push(Case::new("any-name".into(), other, Kin::Good));
    let folder = directory(&deployment.node, "levada");
    let mut said = String::new();
    for case in &deployment.cases {
        let mut lines = case.java_properties(&deployment.authority, &folder);
        if case.name == "any-name" {
            lines += "ssl.endpoint.identification.algorithm=\n";
        }
        let path = folder.join(format!("{}.properties", case.name)).display().to_string();
        fs::write(&path, lines).expect("room for a file");
        let mut tool = Tool::levada();
        let broker = format!("localhost:{}", case.address.port());
        let (code, told) =
            tool.args(["topic", "list", "--brokers", &broker, "--command-config", &path]).outcome();
        let failure = FAILURES.iter().find(|words| told.stderr.contains(**words)).copied();
        let outcome = match code {
            Some(0) if told.stdout.contains("secure") => "ok",
            Some(1) => failure.unwrap_or(told.stderr.lines().next().unwrap_or_default()),
            _ => &told.stderr,
        };
        said += &format!("{} {outcome}\n", case.name);
    }
    deployment.check(&said, |case| match case.kin {
        Kin::Good => "ok",
        Kin::Server => FAILURES[0],
        Kin::Client => FAILURES[1],
        Kin::Proof => FAILURES[2],
        Kin::Mechanism => FAILURES[3],
    });
}
