//! Delegation tokens (KIP-48): Kafka's own tool creates, describes, renews and expires them through
//! Levada's listener, and Java clients log in with them. `levada token` does the same. These tests
//! also run in a cluster of a real Kafka, and with a broker that is its own controller.
//!
//! Suite: long; 36 s; needs java

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;

use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::node::Kind;
use levada_tests::{Cluster, Node, Tool, await_some};
use serde_json::{Value, json};

const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required";
const SECRET: &str = "key-of-the-tokens";
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Milliseconds of an hour.
const HOUR: &str = "3600000";

/// Listeners that authenticate clients. Each broker has one of them, so that its clients know no
/// other broker: Kafka's tools send a request to any broker that they know.
const LISTENERS: [(i32, &str); 2] = [(LEVADA, "CLIENT"), (KAFKA, "OTHER")];

/// The brokers: those of a cluster, or one that is its own controller, under the id `LEVADA`.
enum Place {
    Cluster(Box<Cluster>),
    Single(Box<Node>),
}

/// Brokers with users alice, bob, carol and root. Alice may describe and create the topic `hers`,
/// and root may create tokens for her.
struct Rig {
    place: Place,
    /// Tools at the listener of each broker that authenticates clients.
    clients: BTreeMap<i32, RefCell<Tools>>,
    /// Tools at the listener of the broker under test that does not.
    admin: RefCell<Tools>,
    /// Address of the listener of the broker under test that authenticates clients.
    listener: String,
}

/// A token as the tool prints it.
struct Token {
    id: String,
    hmac: String,
}

/// Options of a listener that authenticates its clients.
fn login_options(name: &str) -> Vec<(String, String)> {
    let mechanisms = ("sasl.enabled.mechanisms".to_owned(), "SCRAM-SHA-256,SCRAM-SHA-512".to_owned());
    let logins = ["scram-sha-256", "scram-sha-512"].map(|mechanism| {
        let key = format!("listener.name.{}.{mechanism}.sasl.jaas.config", name.to_lowercase());
        (key, format!("{SCRAM};"))
    });
    [mechanisms].into_iter().chain(logins).collect()
}

/// Has the broker under test log all that it can.
fn log_everything(node: &mut Node) {
    if Kind::under_test() == Kind::Levada {
        node.variable("LEVADA_LOG", "trace,levada::audit=trace");
    }
}

impl Rig {
    fn of_cluster() -> Self {
        let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
        let mut cluster = Cluster::new(shape);
        let mut listen = |(id, name)| (id, cluster.node_mut(id).listen(name, "SASL_PLAINTEXT"));
        let clients = LISTENERS.map(&mut listen);
        for role in [CONTROLLER, KAFKA, LEVADA] {
            cluster = cluster
                .option(role, "delegation.token.secret.key", SECRET)
                .option(role, "authorizer.class.name", AUTHORIZER)
                .option(role, "super.users", "User:ANONYMOUS");
        }
        for (role, name) in LISTENERS {
            for (key, value) in login_options(name) {
                cluster = cluster.option(role, &key, &value);
            }
        }
        log_everything(cluster.node_mut(LEVADA));
        cluster.start();
        let clients = clients.map(|(id, address)| (id, address.to_string()));
        Self::with(Place::Cluster(Box::new(cluster)), &clients)
    }

    fn of_one() -> Self {
        let mut node = Node::new()
            .option("node.id", &LEVADA.to_string())
            .option("delegation.token.secret.key", SECRET)
            .option("authorizer.class.name", AUTHORIZER)
            .option("super.users", "User:ANONYMOUS");
        let (_, name) = LISTENERS[0];
        let address = node.listen(name, "SASL_PLAINTEXT").to_string();
        for (key, value) in login_options(name) {
            node = node.option(&key, &value);
        }
        log_everything(&mut node);
        node.start();
        Self::with(Place::Single(Box::new(node)), &[(LEVADA, address)])
    }

    fn with(place: Place, clients: &[(i32, String)]) -> Self {
        let node = match &place {
            Place::Cluster(cluster) => cluster.node(LEVADA),
            Place::Single(node) => node,
        };
        let tools = |address: &str| RefCell::new(Tools::verbatim(address, node.scratch()));
        let admin = tools(&node.bootstrap());
        let listener = clients.iter().find(|(id, _)| *id == LEVADA).expect("the broker under test").1.clone();
        let clients = clients.iter().map(|(id, address)| (*id, tools(address))).collect();
        let rig = Self { place, clients, admin, listener };
        for user in ["alice", "bob", "carol", "root"] {
            rig.administer(&format!(
                "ConfigCommand --alter --entity-type users --entity-name {user} --add-config SCRAM-SHA-256=[password={user}-pass]"
            ));
        }
        let allow = "AclCommand --add --allow-principal";
        rig.administer(&format!("{allow} User:alice --operation create --operation describe --topic hers"));
        rig.administer(&format!("{allow} User:root --operation CreateTokens --user-principal User:alice"));
        rig
    }

    /// The broker under test.
    fn node(&self) -> &Node {
        match &self.place {
            Place::Cluster(cluster) => cluster.node(LEVADA),
            Place::Single(node) => node,
        }
    }

    fn brokers(&self) -> Vec<i32> {
        self.clients.keys().copied().collect()
    }

    /// Runs a tool as the administrator.
    fn administer(&self, line: &str) -> String {
        self.admin.borrow_mut().run(line)
    }

    /// A file with the login of a user.
    fn user(&self, user: &str) -> String {
        let login = format!("username=\"{user}\" password=\"{user}-pass\"");
        self.login(user, ("SCRAM-SHA-256", &login))
    }

    /// A file with the login by a token.
    fn token(&self, token: &Token, mechanism: &str) -> String {
        let Token { id, hmac } = token;
        let login = format!("username=\"{id}\" password=\"{hmac}\" tokenauth=\"true\"");
        self.login(&format!("{id}-{mechanism}"), (mechanism, &login))
    }

    fn login(&self, name: &str, (mechanism, login): (&str, &str)) -> String {
        let text = format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={SCRAM} {login};\n"
        );
        let path = self.node().scratch().join(format!("{name}.properties"));
        fs::write(&path, text).expect("room for a file");
        path.display().to_string()
    }

    /// Runs a tool at a broker's listener; true if it succeeded, and its output.
    fn tool(&self, broker: i32, (class, properties): (&str, &str), line: &str) -> (bool, String) {
        let line = format!("{class} --command-config {properties} {line}");
        let (code, said) = self.clients[&broker].borrow_mut().outcome(&line);
        (code == 0, said)
    }

    /// Runs `kafka-delegation-tokens` as a user.
    fn tokens(&self, broker: i32, properties: &str, line: &str) -> (bool, String) {
        self.tool(broker, ("DelegationTokenCommand", properties), line)
    }

    #[track_caller]
    fn refused(&self, properties: &str, line: &str, error: &str) {
        let (done, said) = self.tokens(LEVADA, properties, line);
        assert!(!done && said.contains(error), "{line}: {said}");
    }

    fn create(&self, broker: i32, user: &str, line: &str) -> Token {
        let (done, said) = self.tokens(broker, &self.user(user), &format!("--create {line}"));
        assert!(done, "{said}");
        rows(&said).pop().expect("a token")
    }

    /// `levada token` with a user's login.
    fn command(&self, user: &str, line: &str) -> Tool {
        let mut tool = Tool::levada();
        tool.arg("token");
        for word in line.split(' ') {
            tool.arg(word);
        }
        tool.args(["--brokers", &self.listener, "--command-config", &self.user(user)]);
        tool
    }

    /// JSON output of `levada token` with a user's login.
    fn command_json(&self, user: &str, line: &str) -> Value {
        let said = self.command(user, &format!("{line} --output json")).run().stdout;
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {error}: {said}"))
    }

    /// The tokens of alice that a user sees at a broker.
    fn described(&self, broker: i32, user: &str) -> Vec<Token> {
        let (done, said) = self.tokens(broker, &self.user(user), "--describe --owner-principal User:alice");
        assert!(done, "{said}");
        rows(&said)
    }

    /// Topics that a login lists at a broker; none if the login is refused.
    fn topics(&self, broker: i32, properties: &str) -> Option<String> {
        let (done, said) = self.tool(broker, ("TopicCommand", properties), "--list");
        assert!(done || said.contains("Authentication failed"), "{said}");
        done.then(|| said.trim().to_owned())
    }
}

/// The tokens in the table that the tool prints.
fn rows(said: &str) -> Vec<Token> {
    let table = said.lines().skip_while(|line| !line.starts_with("TOKENID")).skip(1);
    let rows = table.filter(|line| line.contains("User:alice"));
    let token = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Token { id: words.next().expect("an id"), hmac: words.next().expect("an HMAC") }
    };
    rows.map(token).collect()
}

#[test]
fn controllers_of_a_cluster_keep_tokens() {
    let rig = Rig::of_cluster();
    let token = tokens_live_and_end(&rig);
    changes_are_audited_and_secrets_stay_secret(&rig, &token);
    let Place::Cluster(cluster) = &rig.place else { panic!("a cluster") };
    cluster.assert_no_errors();
}

#[test]
fn a_broker_without_a_cluster_keeps_tokens() {
    if Node::is_left_out_in_clusters("the other test has a cluster") {
        return;
    }
    let mut rig = Rig::of_one();
    let token = tokens_live_and_end(&rig);
    changes_are_audited_and_secrets_stay_secret(&rig, &token);
    tokens_outlive_a_restart(&mut rig);
}

/// The life of some tokens; the first one, which was removed.
fn tokens_live_and_end(rig: &Rig) -> Token {
    let token = rig.create(LEVADA, "alice", "--max-life-time-period -1 --renewer-principal User:bob");
    every_broker_describes_it(rig, &token);
    its_owner_comes_in(rig, &token);
    requests_are_refused(rig, &token);
    let renew = format!("--renew --hmac {} --renew-time-period {HOUR}", token.hmac);
    let (done, said) = rig.tokens(LEVADA, &rig.user("bob"), &renew);
    assert!(done && said.contains("Completed renew operation"), "{said}");
    tokens_of_others(rig);
    own_command_does_the_same(rig);
    an_expired_token_lets_nobody_in(rig);
    let expire = format!("--expire --hmac {} --expiry-time-period -1", token.hmac);
    let (done, said) = rig.tokens(LEVADA, &rig.user("alice"), &expire);
    assert!(done && said.contains("Completed expire operation"), "{said}");
    let login = rig.token(&token, "SCRAM-SHA-256");
    await_some("the end of a removed token", LIMIT, || rig.topics(LEVADA, &login).is_none().then_some(()));
    rig.refused(&rig.user("alice"), &expire, "Delegation Token is not found on server.");
    token
}

/// A restarted broker removes expired tokens in its first round of housekeeping.
fn tokens_outlive_a_restart(rig: &mut Rig) {
    let token = rig.create(LEVADA, "alice", "--max-life-time-period -1");
    let expired = rig.create(LEVADA, "alice", "--max-life-time-period 1");
    let Place::Single(node) = &mut rig.place else { panic!("one broker") };
    node.stop();
    node.start();
    let login = rig.token(&token, "SCRAM-SHA-256");
    assert_eq!(rig.topics(LEVADA, &login).as_deref(), Some("hers"));
    if Kind::under_test() == Kind::Levada {
        await_some("the removal of the expired token", LIMIT, || {
            rig.described(LEVADA, "alice").iter().all(|seen| seen.id != expired.id).then_some(())
        });
    }
    assert!(rig.described(LEVADA, "alice").iter().any(|seen| seen.hmac == token.hmac));
}

/// Each broker has computed the HMAC by itself.
fn every_broker_describes_it(rig: &Rig, token: &Token) {
    for broker in rig.brokers() {
        for user in ["alice", "bob"] {
            let seen = await_some(&format!("the token at {broker} for {user}"), LIMIT, || {
                rig.described(broker, user).pop()
            });
            assert_eq!((seen.id, seen.hmac), (token.id.clone(), token.hmac.clone()));
        }
        assert!(rig.described(broker, "carol").is_empty(), "carol sees no token of others at {broker}");
    }
    rig.administer("AclCommand --add --allow-principal User:carol --operation DescribeTokens --user-principal User:alice");
    await_some("the right of carol", LIMIT, || rig.described(LEVADA, "carol").pop());
}

fn its_owner_comes_in(rig: &Rig, token: &Token) {
    let login = rig.token(token, "SCRAM-SHA-256");
    // The controller creates the topic with the rights of alice.
    let (done, said) = rig.tool(LEVADA, ("TopicCommand", &login), "--create --topic hers");
    assert!(done, "{said}");
    for broker in rig.brokers() {
        await_some(&format!("the topic at {broker}"), LIMIT, || {
            (rig.topics(broker, &login)? == "hers").then_some(())
        });
    }
    let other = rig.token(token, "SCRAM-SHA-512");
    assert_eq!(rig.topics(LEVADA, &other).as_deref(), Some("hers"));
    let wrong = Token { id: token.id.clone(), hmac: "d3Jvbmc=".to_owned() };
    assert_eq!(rig.topics(LEVADA, &rig.token(&wrong, "SCRAM-SHA-256")), None);
    let unknown = Token { id: "nobodys".to_owned(), hmac: token.hmac.clone() };
    assert_eq!(rig.topics(LEVADA, &rig.token(&unknown, "SCRAM-SHA-256")), None);
}

fn requests_are_refused(rig: &Rig, token: &Token) {
    let (alice, carol) = (rig.user("alice"), rig.user("carol"));
    let by_token = rig.token(token, "SCRAM-SHA-256");
    let create = "--create --max-life-time-period -1";
    let renew = format!("--renew --hmac {} --renew-time-period -1", token.hmac);
    let expire = format!("--expire --hmac {} --expiry-time-period -1", token.hmac);
    let not_allowed = "Delegation Token requests are not allowed on";
    for line in [create, &renew, &expire, "--describe --owner-principal User:alice"] {
        rig.refused(&by_token, line, not_allowed);
    }
    let mismatch = "Specified Principal is not valid Owner/Renewer.";
    rig.refused(&carol, &renew, mismatch);
    rig.refused(&carol, &expire, mismatch);
    let for_carol = format!("{create} --owner-principal User:carol");
    rig.refused(&alice, &for_carol, "Delegation Token authorization failed.");
    let renewed_by_group = format!("{create} --renewer-principal Group:all");
    rig.refused(&alice, &renewed_by_group, "Supplied principalType is not supported.");
    // A listener without authentication.
    let open = rig.node().scratch().join("open.properties");
    fs::write(&open, "").expect("room for a file");
    let line = format!("DelegationTokenCommand {create} --command-config {}", open.display());
    let (code, said) = rig.admin.borrow_mut().outcome(&line);
    assert!(code != 0 && said.contains(not_allowed), "{code}: {said}");
}

/// Root creates a token for alice, which lets alice in. So does a token of each broker.
fn tokens_of_others(rig: &Rig) {
    let own = "--max-life-time-period -1";
    let by_root = rig.create(LEVADA, "root", &format!("{own} --owner-principal User:alice"));
    let by_alice = rig.brokers().into_iter().map(|broker| rig.create(broker, "alice", own));
    for token in [by_root].into_iter().chain(by_alice) {
        let login = rig.token(&token, "SCRAM-SHA-256");
        await_some("the login by a token", LIMIT, || (rig.topics(LEVADA, &login)? == "hers").then_some(()));
    }
}

/// A token of `levada token` from its creation to its end.
fn own_command_does_the_same(rig: &Rig) {
    let created = rig.command_json("alice", "create --lifetime 1d --renewer bob");
    let text = |field: &str| created[field].as_str().expect(field).to_owned();
    assert_eq!((text("owner").as_str(), &created["renewers"]), ("User:alice", &json!(["User:bob"])));
    let token = Token { id: text("id"), hmac: text("hmac") };
    let login = rig.token(&token, "SCRAM-SHA-256");
    await_some("the login by the token", LIMIT, || (rig.topics(LEVADA, &login)? == "hers").then_some(()));
    let listed = |user: &str| {
        let all = rig.command_json(user, "list --owner alice");
        assert!(!all.to_string().contains(&token.hmac), "a list has no secrets: {all}");
        all.as_array().expect("tokens").iter().find(|one| one["id"] == created["id"]).cloned()
    };
    assert_eq!(listed("bob").expect("the token")["expires_ms"], created["expires_ms"]);
    let said = rig.command("bob", &format!("renew {} --for 1h", token.id)).run().stderr;
    assert!(said.contains(&format!("token {} expires at ", token.id)), "{said}");
    await_some("the earlier end", LIMIT, || {
        (listed("alice")?["expires_ms"].as_i64() < created["expires_ms"].as_i64()).then_some(())
    });
    let said = rig.command("alice", &format!("expire {}", token.id)).run().stderr;
    assert!(said.contains(&format!("token {} has expired", token.id)), "{said}");
    await_some("the end of the token", LIMIT, || rig.topics(LEVADA, &login).is_none().then_some(()));
    let (code, said) = rig.command("alice", &format!("expire {}", token.id)).outcome();
    assert_eq!(code, Some(1));
    assert!(said.stderr.contains(&format!("there is no token {}", token.id)), "{said:?}");
}

/// The controller removes expired tokens once an hour: the broker still has the token. Kafka lets
/// its owner in, and closes the connection at the next request.
fn an_expired_token_lets_nobody_in(rig: &Rig) {
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    let token = rig.create(LEVADA, "alice", "--max-life-time-period 1");
    await_some("the expired token", LIMIT, || {
        rig.described(LEVADA, "alice").into_iter().find(|seen| seen.id == token.id)
    });
    assert_eq!(rig.topics(LEVADA, &rig.token(&token, "SCRAM-SHA-256")), None);
}

fn changes_are_audited_and_secrets_stay_secret(rig: &Rig, token: &Token) {
    let settings = rig
        .administer(&format!("ConfigCommand --describe --all --entity-type brokers --entity-name {LEVADA}"));
    assert!(settings.contains("delegation.token.secret.key=null sensitive=true"), "{settings}");
    let versions = rig.administer("BrokerApiVersionsCommand");
    for api in ["CreateDelegationToken(38): 1 to 3", "DescribeDelegationToken(41): 1 to 3"] {
        assert_eq!(versions.matches(api).count(), rig.brokers().len(), "{api}: {versions}");
    }
    // Of Kafka 4.4: the controllers of the cluster do not have it.
    let has_newer = Kind::under_test() == Kind::Levada && matches!(rig.place, Place::Single(_));
    assert_eq!(versions.contains("(94)"), has_newer, "{versions}");
    let log = rig.node().history();
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    let requests = ["CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"];
    for request in requests {
        let is_told =
            |line: &str| [request, "DELEGATION_TOKEN", &token.id].iter().all(|part| line.contains(part));
        assert!(log.lines().any(is_told), "{request}: {log}");
    }
    for secret in [SECRET, &token.hmac] {
        assert!(!log.contains(secret), "the log has a secret");
    }
}
