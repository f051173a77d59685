//! Consoles of a cluster of three brokers while one does not answer, and after it is killed: each
//! survivor names the broker and the partitions that suffer, in bounded time, and shows the groups
//! of all coordinators. A user with few permissions sees no more through other brokers.
//!
//! Suite: long; 24 s; share operation; needs chromium, java

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use levada_tests::browser::Visit;
use levada_tests::cluster::{CONTROLLER, Discovery, LEVADA, LIMIT, Shape};
use levada_tests::{Cluster, Node, await_some};

const BROKERS: [i32; 3] = [LEVADA, LEVADA + 1, LEVADA + 2];
const VICTIM: i32 = LEVADA + 2;
const GROUPS: [&str; 6] = ["g0", "g1", "g2", "g3", "g4", "g5"];
/// Pages that show the outage.
const PAGES: [&str; 4] = ["/", "/brokers", "/topics/whole", "/groups"];
/// Limit of a page that waits for a broker: the two seconds of the console, on a busy machine.
const BOUND: Duration = Duration::from_secs(5);

/// A user who has logged in to the console of a broker.
struct Visitor<'a> {
    node: &'a Node,
    cookie: String,
}

impl<'a> Visitor<'a> {
    fn log_in(node: &'a Node, user: &str, password: &str) -> Self {
        let page = exchange(node, "GET /login HTTP/1.1\r\n", "");
        let proof = page.split("name=\"_proof\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        let form = format!("_proof={}&user={user}&password={password}", proof.expect("a form"));
        let head = "POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n";
        let answer = exchange(node, head, &form);
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next());
        Self { node, cookie: cookie.unwrap_or_else(|| panic!("no session: {answer}")).to_owned() }
    }

    fn page(&self, path: &str) -> String {
        exchange(self.node, &format!("GET {path} HTTP/1.1\r\nCookie: {}\r\n", self.cookie), "")
    }

    /// The page, once it has all these parts.
    fn await_parts(&self, path: &str, parts: &[String]) -> String {
        await_some(&format!("{path} with {parts:?}"), LIMIT, || {
            Some(self.page(path)).filter(|page| parts.iter().all(|part| page.contains(part)))
        })
    }
}

fn exchange(node: &Node, head: &str, body: &str) -> String {
    let host = node.http_address();
    let mut stream = TcpStream::connect(host).expect("a connection");
    let length = body.len();
    write!(stream, "{head}Host: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .expect("the broker reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn started() -> Cluster {
    let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::Voters };
    let mut cluster = Cluster::new(shape);
    cluster.listen("CLIENTS", "SASL_PLAINTEXT");
    for role in [CONTROLLER, LEVADA] {
        let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        cluster = cluster.option(role, "authorizer.class.name", authorizer);
        cluster = cluster.option(role, "super.users", "User:ANONYMOUS;User:admin");
    }
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_admin=\"admin-pass\";";
    for (key, value) in [
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512"),
        ("listener.name.clients.plain.sasl.jaas.config", plain),
        ("offsets.topic.replication.factor", "3"),
    ] {
        cluster = cluster.option(LEVADA, key, value);
    }
    cluster.start();
    cluster.await_brokers(&BROKERS);
    cluster
}

/// Topics on all brokers, groups of all coordinators with a lag of 90 records, and the user bob,
/// who may see one topic and one group.
fn fill(node: &Node) {
    let input = node.scratch().join("input");
    node.levada("topic create whole -p 3 -r 3").run();
    node.levada("topic create solo -p 3 -r 1").run();
    node.levada("topic create hushed -p 3 -r 1").run();
    fs::write(&input, "<script>hit=1</script>\n".repeat(10)).expect("room");
    node.levada("produce whole -p 0").stdin(&input).run();
    for group in GROUPS {
        node.levada(&format!("consume whole -G {group} -e")).run();
    }
    fs::write(&input, "more\n".repeat(90)).expect("room");
    node.levada("produce whole -p 0").stdin(&input).run();
    let secret = node.scratch().join("secret");
    fs::write(&secret, "bob-pass\n").expect("room");
    node.levada(&format!("user set bob --password-file {}", secret.display())).run();
    node.levada("acl add User:bob --allow describe,read --topic whole").run();
    node.levada("acl add User:bob --allow describe --group g1").run();
}

fn broker_rows(states: [&str; 3]) -> Vec<String> {
    let row = |(node, state): (i32, &str)| {
        let own = if state == "here" { " <span class=\"form-tag\">this console</span>" } else { "" };
        let state = match state {
            "here" | "in service" => "in service".to_owned(),
            other => format!("<span class=\"bad-text\">{other}</span>"),
        };
        format!("<tr data-broker=\"{node}\"><th scope=\"row\">{node}{own}</th><td>{state}</td>")
    };
    BROKERS.into_iter().zip(states).map(row).collect()
}

#[test]
fn console_names_lost_broker_and_affected_partitions() {
    let mut cluster = started();
    fill(cluster.node(LEVADA));
    every_console_shows_the_cluster(&cluster);
    a_user_sees_no_more_through_other_brokers(&cluster);
    a_silent_broker_costs_a_page_little_time(&cluster);
    cluster.node_mut(VICTIM).kill();
    survivors_show_what_suffers(&cluster);
    let mut visit = Visit::new(cluster.node(LEVADA));
    visit.log_in("admin", "admin-pass");
    visit.inspect("outage", &PAGES);
    silent_controllers_are_a_problem(&cluster);
    for id in [LEVADA, LEVADA + 1] {
        cluster.node_mut(id).stop();
    }
    cluster.assert_no_errors();
}

fn every_console_shows_the_cluster(cluster: &Cluster) {
    for (at, id) in BROKERS.into_iter().enumerate() {
        let admin = Visitor::log_in(cluster.node(id), "admin", "admin-pass");
        let mut states = ["in service"; 3];
        states[at] = "here";
        let mut parts = broker_rows(states);
        let data = |id: &i32| format!("<th scope=\"row\">{}", cluster.node(*id).data().display());
        parts.extend(BROKERS.iter().map(data));
        parts.extend([
            format!("<span class=\"value\">node {CONTROLLER}</span>"),
            "all their replicas are in sync".to_owned(),
            "No reassignment is in progress.".to_owned(),
        ]);
        let page = admin.await_parts("/brokers", &parts);
        assert!(!page.contains("data-unheard"), "{page}");
        let lag = |group: &&str| format!("/group?id={group}\">{group}</a>");
        admin.await_parts("/groups", &GROUPS.iter().map(lag).collect::<Vec<_>>());
        for group in GROUPS {
            let page = admin.page(&format!("/group?id={group}"));
            assert!(page.contains("<span class=\"value\">90</span>"), "{group}: {page}");
        }
        let page = admin.page("/topics/whole/messages?from=start");
        assert!(page.contains("&lt;script&gt;hit=1") && !page.contains("<script>hit"), "{page}");
    }
}

fn a_user_sees_no_more_through_other_brokers(cluster: &Cluster) {
    for id in BROKERS {
        let bob = Visitor::log_in(cluster.node(id), "bob", "bob-pass");
        let topics = bob.page("/topics");
        assert!(topics.contains("/topics/whole") && !topics.contains("hushed"), "{topics}");
        assert!(topics.contains("<td class=\"n\">100</td>"), "records of another leader: {topics}");
        let groups = bob.page("/groups");
        assert!(groups.contains(">g1<") && !groups.contains(">g2<"), "{groups}");
        assert!(bob.page("/group?id=g1").contains("<span class=\"value\">90</span>"));
        let refused = bob.page("/group?id=g2");
        assert!(!refused.contains("Committed") && refused.contains("g2"), "{refused}");
        let brokers = bob.page("/brokers");
        assert!(brokers.contains("levada acl add 'User:bob' --allow describe --cluster"), "{brokers}");
        let data = cluster.node(LEVADA).data();
        assert!(!brokers.contains(&data.display().to_string()), "{brokers}");
    }
}

/// The controllers still count the broker as in service.
fn a_silent_broker_costs_a_page_little_time(cluster: &Cluster) {
    let [first, second] =
        [LEVADA, LEVADA + 1].map(|id| Visitor::log_in(cluster.node(id), "admin", "admin-pass"));
    cluster.node(VICTIM).suspend();
    for (visitor, path) in [(&first, "/topics"), (&second, "/brokers"), (&first, "/groups")] {
        let began = Instant::now();
        let page = visitor.page(path);
        assert!(began.elapsed() < BOUND, "{path}: {:?}", began.elapsed());
        assert!(page.contains(&format!("data-unheard=\"{VICTIM}\"")), "{path}: {page}");
        let rest = ["/topics/whole\"", "/group?id=g", "data-broker"];
        assert!(rest.iter().any(|part| page.contains(part)), "{path}: {page}");
    }
}

fn survivors_show_what_suffers(cluster: &Cluster) {
    for id in [LEVADA, LEVADA + 1] {
        let admin = Visitor::log_in(cluster.node(id), "admin", "admin-pass");
        let states = if id == LEVADA { ["here", "in service"] } else { ["in service", "here"] };
        let mut parts = broker_rows([states[0], states[1], "fenced: it is down or starting"]);
        let problems = |topic: &str, state: &str| {
            format!("<a href=\"/topics/{topic}\">{topic}</a>/0</th><td><span class=\"{state}</span></td>")
        };
        parts.push(problems("whole", "warn-text\">under-replicated"));
        parts.push("bad-text\">offline</span>".to_owned());
        admin.await_parts("/brokers", &parts);
        let overview = admin.page("/");
        assert!(overview.contains(&format!("Broker {VICTIM} is fenced: ")), "{overview}");
        assert!(overview.contains("no leader: ") && overview.contains("solo/"), "{overview}");
        assert!(
            overview.contains("a replica that is not in sync: ") && overview.contains("whole/0"),
            "{overview}"
        );
        for group in GROUPS {
            let parts = ["<span class=\"value\">90</span>".to_owned()];
            admin.await_parts(&format!("/group?id={group}"), &parts);
        }
        let topic = admin.page("/topics/whole");
        assert!(
            topic.contains("100</span>") && topic.contains(&format!("{VICTIM} (not in sync)")),
            "{topic}"
        );
    }
}

/// The brokers serve without controllers, so that no other notice names them.
fn silent_controllers_are_a_problem(cluster: &Cluster) {
    cluster.node(CONTROLLER).suspend();
    let admin = Visitor::log_in(cluster.node(LEVADA), "admin", "admin-pass");
    let overview = admin.page("/");
    assert!(
        overview.contains("the controllers did not respond within 1500 ms: no leader is elected"),
        "{overview}"
    );
    cluster.node(CONTROLLER).resume();
}
