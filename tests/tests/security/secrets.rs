//! Secrets of every kind are planted at every place, and searched in all output of a broker and its
//! command line.
//!
//! Suite: short; 7 s; needs java, python

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use levada_tests::node::Kind;
use levada_tests::pki::{Authority, Flaw, java_store, java_trust};
use levada_tests::{Node, Tool};

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const OAUTH: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";

/// Collected output, with its origin.
#[derive(Default)]
struct Said(Vec<(String, String)>);

impl Said {
    fn hear(&mut self, place: &str, tool: &mut Tool) -> Option<i32> {
        let (code, said) = tool.outcome();
        self.0.push((place.to_owned(), said.stdout + &said.stderr));
        code
    }

    fn last(&self) -> &str {
        &self.0.last().expect("something was said").1
    }

    /// All secrets that are not in clear text here contain this word.
    fn check(&self, others: &[String]) {
        for (place, text) in &self.0 {
            let secret =
                |line: &&str| line.contains("planted") || others.iter().any(|one| line.contains(one));
            assert_eq!(text.lines().find(secret), None, "{place}");
        }
    }
}

struct Deployment {
    node: Node,
    client: SocketAddr,
    secure: SocketAddr,
    /// Tokens that are good and bad, and a line of a private key.
    others: Vec<String>,
    /// Keys and values that hold secrets.
    settings: Vec<(String, String)>,
    trusted: PathBuf,
}

/// A broker with a secret in every key that may hold one.
fn deployment() -> Deployment {
    let mut node = Node::new();
    let [client, secure] =
        [("CLIENT", "SASL_PLAINTEXT"), ("SECURE", "SSL")].map(|(name, protocol)| node.listen(name, protocol));
    node.listen("INLINE", "SSL");
    let at = |name: &str| node.scratch().join(name);
    let [store, trusted] = ["store.p12", "trusted.p12"].map(at);
    java_store(&store, "planted-store");
    java_trust(&trusted, "planted-trust", &store.with_extension("pem"));
    let authority = Authority::new(&at("pki"));
    let identity = fs::read_to_string(authority.issue("inline", Flaw::None)).expect("key and certificate");
    let (key, chain) = identity.split_at(identity.find("-----BEGIN CERTIFICATE").expect("a certificate"));
    let mut others = vec![key.lines().nth(1).expect("a line of the key").to_owned()];
    for folder in ["keys", "other-keys"] {
        fs::create_dir_all(at(folder)).expect("a directory");
        let folder = at(folder).display().to_string();
        Tool::python("oauth.py").args(["keys", &folder]).run();
        others.push(Tool::python("oauth.py").args(["token", &folder, "3600"]).run().stdout.trim().to_owned());
    }
    let oauth = format!("{OAUTH} required ssl.truststore.password=\"planted-login\";");
    let settings = [
        ("levada.http.token", "planted-http".to_owned()),
        (
            "listener.name.client.plain.sasl.jaas.config",
            format!("{PLAIN} required user_alice=\"planted-plain\";"),
        ),
        ("listener.name.client.oauthbearer.sasl.jaas.config", oauth),
        ("listener.name.secure.ssl.keystore.password", "planted-store".to_owned()),
        ("listener.name.secure.ssl.key.password", "planted-store".to_owned()),
        ("listener.name.secure.ssl.truststore.password", "planted-trust".to_owned()),
        ("listener.name.inline.ssl.keystore.key", key.to_owned()),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let plain = [
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512,OAUTHBEARER".to_owned()),
        ("sasl.oauthbearer.jwks.endpoint.url", format!("file:{}", at("keys/jwks.json").display())),
        ("sasl.oauthbearer.expected.audience", "kafka".to_owned()),
        ("connection.failed.authentication.delay.ms", "0".to_owned()),
        ("listener.name.secure.ssl.keystore.location", store.display().to_string()),
        ("listener.name.secure.ssl.truststore.location", trusted.display().to_string()),
        ("listener.name.secure.ssl.client.auth", "requested".to_owned()),
        ("listener.name.inline.ssl.keystore.certificate.chain", chain.to_owned()),
    ];
    for (key, value) in &settings {
        node = node.option(key, value);
    }
    for (key, value) in plain {
        node = node.option(key, &value);
    }
    // Everything that there is to be said is said.
    node.wrap(&["env", "LEVADA_LOG=trace,levada::audit=trace"]);
    node.start();
    Deployment { node, client, secure, others, settings, trusted }
}

impl Deployment {
    /// Asks for all settings of the broker with a file of client properties.
    fn ask(&self, said: &mut Said, (place, address): (&str, SocketAddr), lines: &str) -> Option<i32> {
        let path = self.node.scratch().join("client.properties");
        fs::write(&path, lines).expect("room for a file");
        let mut tool = Tool::levada();
        let broker = format!("localhost:{}", address.port());
        tool.args(["config", "get", "broker", "--all", "--brokers", &broker]);
        said.hear(place, tool.args(["--command-config", &path.display().to_string()]))
    }

    /// Right and wrong clients by every mechanism, and by TLS.
    fn come_in(&self, said: &mut Said) {
        let secret = self.node.scratch().join("secret");
        fs::write(&secret, "planted-scram").expect("room for a file");
        let mut user = self.node.levada(&format!("user set bob --password-file {}", secret.display()));
        assert_eq!(said.hear("user set", &mut user), Some(0), "{}", said.last());
        for (mechanism, module, proof, code) in [
            ("PLAIN", PLAIN, "username=\"alice\" password=\"planted-plain\"", 0),
            ("PLAIN", PLAIN, "username=\"alice\" password=\"planted-wrong\"", 1),
            ("PLAIN", PLAIN, "username=\"alice\" password=\"planted-wrong", 2),
            ("SCRAM-SHA-512", SCRAM, "username=\"bob\" password=\"planted-scram\"", 0),
            ("SCRAM-SHA-512", SCRAM, "username=\"bob\" password=\"planted-wrong\"", 1),
        ] {
            let lines = format!(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} required {proof};\n"
            );
            assert_eq!(self.ask(said, (mechanism, self.client), &lines), Some(code), "{}", said.last());
            assert!(code != 0 || said.last().contains("ssl.keystore.password"), "{}", said.last());
        }
        for (token, code) in self.others[1..].iter().zip([0, 1]) {
            let path = self.node.scratch().join("token");
            fs::write(&path, token).expect("room for a file");
            let lines = format!(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:{}\n",
                path.display()
            );
            assert_eq!(self.ask(said, ("OAUTHBEARER", self.client), &lines), Some(code), "{}", said.last());
        }
        for (password, code) in [("planted-trust", 0), ("planted-wrong", 2)] {
            let trusted = self.trusted.display();
            let lines = format!(
                "security.protocol=SSL\nssl.truststore.location={trusted}\nssl.truststore.password={password}\n"
            );
            assert_eq!(self.ask(said, ("TLS", self.secure), &lines), Some(code), "{}", said.last());
        }
        TcpStream::connect(self.secure)
            .and_then(|mut socket| socket.write_all(b"planted in no TLS"))
            .expect("sent");
    }

    /// Secrets that are set while the broker runs, and what it shows of them.
    fn change(&self, said: &mut Said) {
        let mut set = |place: &str, assignment: &str, code: i32| {
            let mut tool = self.node.levada("config set broker 1");
            assert_eq!(said.hear(place, tool.arg(assignment)), Some(code), "{}", said.last());
        };
        set("a refused change", "listener.name.secure.ssl.keystore.password=planted-wrong", 1);
        set("a change of all brokers'", "ssl.keystore.password=planted-wrong", 1);
        set("a plug-in's key", "my.plugin.secret=planted-plugin", 0);
        set("a change", "listener.name.secure.ssl.keystore.password=planted-store", 0);
        for words in ["config get broker --all", "config get broker 1 --all --output json"] {
            assert_eq!(said.hear(words, &mut self.node.levada(words)), Some(0), "{}", said.last());
            assert!(said.last().contains("my.plugin.secret"), "{}", said.last());
        }
        let mut describe = Tool::java("kafka.admin.ConfigCommand");
        describe.args([
            "--bootstrap-server",
            &self.node.bootstrap(),
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
        ]);
        said.hear("DescribeConfigs", describe.args(["--describe", "--all"]));
        // With what each value comes from: twice, here.
        let line =
            said.last().lines().find(|line| line.contains("listener.name.secure.ssl.keystore.password"));
        let line = line.unwrap_or_else(|| panic!("{}", said.last()));
        assert!(line.contains("DYNAMIC_BROKER_CONFIG") && line.contains("STATIC_BROKER_CONFIG"), "{line}");
    }

    fn ask_over_http(&self, said: &mut Said) {
        for (path, shown, status) in [
            ("/metrics", "", "401"),
            ("/metrics", "Authorization: Bearer planted-wrong\r\n", "401"),
            ("/metrics", "Authorization: Bearer planted-http\r\n", "200"),
            ("/healthz", "Authorization: Bearer planted-http\r\n", "200"),
            ("/nowhere", "Authorization: Bearer planted-http\r\n", "404"),
        ] {
            let mut socket = TcpStream::connect(self.node.http_address()).expect("a connection");
            let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{shown}\r\n");
            socket.write_all(head.as_bytes()).expect("a question");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).expect("an answer");
            assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
            said.0.push((path.to_owned(), answer));
        }
    }

    /// Output of the command line about configurations, good and bad, from flags, a file and the
    /// environment.
    fn show(&self, said: &mut Said) {
        let listeners = ["listeners=CLIENT://:0,SECURE://:0,INLINE://:0", "sasl.enabled.mechanisms=PLAIN"];
        let protocols = "listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,SECURE:SSL,INLINE:SSL";
        let mut flags: Vec<String> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        flags.extend(listeners.map(str::to_owned));
        flags.push(protocols.to_owned());
        let mut run = |words: &[&str], more: &[&str], code: i32| {
            let mut tool = Tool::levada();
            for word in words {
                tool.arg(word);
            }
            for flag in flags.iter().map(String::as_str).chain(more.iter().copied()) {
                tool.arg("-o").arg(flag);
            }
            let place = format!("{words:?} {}", more.join(" "));
            assert_eq!(said.hear(&place, &mut tool), Some(code), "{place}: {}", said.last());
        };
        run(&["config", "show"], &[], 0);
        run(&["config", "show", "--changed", "--origin"], &[], 0);
        run(&["config", "show", "--output", "json"], &[], 0);
        for wrong in [
            "num.partitions=0",
            "listener.name.client.plain.sasl.jaas.config=planted",
            "listener.name.client.plain.sasl.jaas.config=a.B required user_alice=\"planted;",
            "listener.name.client.plain.sasl.jaas.config=planted.Module required user_alice=\"planted\";",
            "ssl.key.password:planted",
            "ssl.key.pasword=planted",
        ] {
            run(&["serve"], &[wrong], 2);
        }
        let data = format!("log.dirs={}", self.node.scratch().join("never").display());
        // A fault that only the start finds.
        run(&["serve"], &[&data, "listener.name.inline.ssl.keystore.key=planted"], 1);
        run(&["serve"], &[&data, "listener.name.nobody.ssl.key.password=planted"], 1);
        let line = &self.others[0];
        let file = self.node.scratch().join("server.properties");
        for text in [
            format!("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{line}\n"),
            "ssl.key.password=planted\\u00zz\n".to_owned(),
            "sasl.jaas.config=a.B required\n user_alice=\"planted\";\n".to_owned(),
        ] {
            fs::write(&file, text).expect("room for a file");
            let mut tool = Tool::levada();
            let code = said.hear("a file", tool.args(["serve", "--config", &file.display().to_string()]));
            assert_eq!(code, Some(2), "{}", said.last());
        }
    }
}

#[test]
fn planted_secrets_appear_in_no_output() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: nothing of this is asked of Kafka");
        return;
    }
    let deployment = deployment();
    let mut said = Said::default();
    deployment.come_in(&mut said);
    deployment.change(&mut said);
    deployment.ask_over_http(&mut said);
    deployment.show(&mut said);
    let talk = deployment.node.talk();
    assert!(talk.contains(" DEBUG ") && talk.contains("levada::audit"), "the broker was to say everything");
    said.0.push(("the log".to_owned(), talk));
    said.check(&deployment.others);
}
