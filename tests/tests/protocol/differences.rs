//! Random histories of transactions and of groups, request by request against Levada and a real
//! Kafka at the same time: both give the same responses. Ids that a broker makes up stand for those
//! of the other one by the request that returned them.
//!
//! Suite: long; 60 s; needs java; share faults
//! Soak: scale 20, repeated

mod groups;
mod transactions;

use std::time::Duration;

use levada_testing::{scaled, seeds};
use levada_tests::node::Kind;
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
/// Number of histories of each kind.
const HISTORIES: u64 = 12;
/// Number of requests in a history.
const STEPS: usize = 60;
/// Number of requests before a difference that a failure prints.
const SHOWN: usize = 12;

/// Number of partitions of the topic of a history with transactions.
const PARTITIONS: usize = 2;

/// Fields of responses that are not compared.
const NOT_COMPARED: [&str; 5] =
    ["assignment", "errorMessage", "memberAssignment", "targetAssignment", "topicPartitions"];

/// Both brokers, each with a client that sends what it gets.
struct Pair {
    clients: [Conversation; 2],
    _nodes: [Node; 2],
}

impl Pair {
    fn start() -> Self {
        let options = [
            ("node.id", "1"),
            ("offsets.topic.num.partitions", "1"),
            ("offsets.topic.replication.factor", "1"),
            ("transaction.state.log.num.partitions", "1"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("group.consumer.migration.policy", "bidirectional"),
            ("group.consumer.assignment.interval.ms", "0"),
            ("group.consumer.min.assignment.interval.ms", "0"),
            ("auto.create.topics.enable", "false"),
            // The records are of 2023.
            ("log.retention.ms", "-1"),
        ];
        let nodes = [Kind::Levada, Kind::Kafka].map(|kind| {
            let node = options.iter().fold(Node::of(kind), |node, (key, value)| node.option(key, value));
            let mut node = node.sized(512, "ERROR");
            node.start();
            node
        });
        let clients =
            nodes.each_ref().map(|node| Tool::own_java("Ask").args([&node.bootstrap(), "-"]).spawn());
        Self { clients, _nodes: nodes }
    }
}

/// A sequence of requests that both brokers have responded to equally.
struct History<'a> {
    pair: &'a mut Pair,
    random: StdRng,
    seed: u64,
    told: Vec<String>,
}

impl<'a> History<'a> {
    /// A history with a new topic.
    fn begin(pair: &'a mut Pair, seed: u64, partitions: usize) -> Self {
        let mut history = Self { pair, random: StdRng::seed_from_u64(seed), seed, told: Vec::new() };
        let topic = json!({
            "name": history.topic(), "numPartitions": partitions, "replicationFactor": 1,
            "assignments": [], "configs": [],
        });
        let body = json!({"topics": [topic], "timeoutMs": 20_000, "validateOnly": false});
        history.ask("CREATE_TOPICS 7", &body);
        for key_type in [0, 1] {
            history.ask("FIND_COORDINATOR 6", &json!({"keyType": key_type, "coordinatorKeys": ["any"]}));
        }
        // The coordinators of a Kafka know a topic some time after its creation.
        let join = json!({
            "groupId": format!("first-{seed}"), "instanceId": null, "rackId": null,
            "rebalanceTimeoutMs": 60_000, "subscribedTopicNames": [history.topic()],
            "subscribedTopicRegex": null, "serverAssignor": null, "topicPartitions": [],
            "memberId": "first", "memberEpoch": 0,
        });
        history.settle("CONSUMER_GROUP_HEARTBEAT 1", &join, |response| {
            !response["assignment"]["topicPartitions"].as_array().is_none_or(Vec::is_empty)
        });
        history
    }

    fn topic(&self) -> String {
        format!("differences-{}", self.seed)
    }

    /// The name of one of two groups or transactional ids.
    fn draw_id(&mut self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.seed, self.random.random_range(0..2))
    }

    /// A whole number below the bound.
    fn below(&mut self, bound: i64) -> i64 {
        self.random.random_range(0..bound)
    }

    /// Sends a request to both brokers; returns its name and the response, which is the same.
    fn ask(&mut self, api: &str, body: &Value) -> (String, Value) {
        self.ask_text(api, &body.to_string())
    }

    /// Like [`Self::ask`], with placeholders in the body, which `transactions::ids` makes.
    fn ask_text(&mut self, api: &str, body: &str) -> (String, Value) {
        let name = format!("s{}n{}?", self.seed, self.told.len());
        let request = format!("{name} {api} {body}");
        self.pair.clients.iter_mut().for_each(|client| client.say(&request));
        let [levada, kafka] = self.pair.clients.each_mut().map(|client| client.line(LIMIT));
        let [levada, kafka] = [levada, kafka].map(|response| comparable(&response));
        if levada != kafka {
            let from = self.told.len().saturating_sub(SHOWN);
            let before = self.told[from..].join("\n");
            let seed = self.seed;
            panic!("LEVADA_TEST_SEED={seed}\n{before}\n{request}\n  Levada: {levada}\n  Kafka:  {kafka}");
        }
        let (_, response) = levada.split_once(' ').expect("a name and a response");
        let value = serde_json::from_str(response).expect("JSON");
        self.told.push(format!("{request}\n  {response}"));
        (name, value)
    }

    /// Repeats a request that looks at the state until both brokers are done with what they do
    /// after a response; then their responses are the same.
    fn ask_settled(&mut self, api: &str, body: &Value, is_settled: fn(&Value) -> bool) {
        self.settle(api, body, is_settled);
        self.ask(api, body);
    }

    /// Repeats a request until both brokers have responded as expected.
    fn settle(&mut self, api: &str, body: &Value, is_settled: fn(&Value) -> bool) {
        let request = format!("settle? {api} {body}");
        for client in &mut self.pair.clients {
            await_some(&request, LIMIT, || {
                client.say(&request);
                let said = client.line(LIMIT);
                let (_, response) = said.split_once(' ').expect("a name and a response");
                is_settled(&serde_json::from_str(response).expect("JSON")).then_some(())
            });
        }
    }
}

/// The parts of a response that are compared: not the presence of messages, because Levada explains
/// errors to which Kafka adds none, and not assignments, which among equal members follow the order
/// of Java's hashes of member ids.
fn comparable(response: &str) -> String {
    let (name, body) = response.split_once(' ').expect("a name and a response");
    let mut body: Value = serde_json::from_str(body).expect("JSON");
    mask(&mut body);
    format!("{name} {body}")
}

fn mask(value: &mut Value) {
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(mask);
            elements.sort_by_cached_key(Value::to_string);
        }
        Value::Object(fields) => {
            fields.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
            fields.values_mut().for_each(mask);
        }
        _ => {}
    }
}

/// Runs histories of a kind against both brokers and compares the responses.
fn compare<S: Default>(partitions: usize, step: fn(&mut History<'_>, &mut S)) {
    let mut pair = Pair::start();
    let mut requests = 0;
    for seed in seeds(scaled(HISTORIES)) {
        let (mut history, mut state) = (History::begin(&mut pair, seed, partitions), S::default());
        for _ in 0..STEPS {
            step(&mut history, &mut state);
        }
        requests += history.told.len();
    }
    println!("{requests} requests with equal responses");
}

#[test]
fn transactions_get_kafkas_responses() {
    compare(PARTITIONS, transactions::step);
}

#[test]
fn groups_get_kafkas_responses() {
    // Of several partitions, the order of hashes would decide which one a member gives up.
    compare(1, groups::step);
}
