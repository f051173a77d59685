//! Applications of Kafka Streams as streams groups: words counted, payments joined with orders and
//! summed by window, each exactly once, while instances and the broker are killed. With
//! `LEVADA_TEST_KAFKA=newer` the applications are those of the next Kafka.
//!
//! Suite: long; 40 s; needs java, kcat, python; share streams
//! Soak: scale 4, repeated

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use levada_testing::{scaled, seed};
use levada_tests::streams::{self, APPLICATION, Payments, described};
use levada_tests::tool::Conversation;
use levada_tests::words::{self, Words};
use levada_tests::{Node, Tool, await_some};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const INSTANCES: usize = 3;
/// Of one instance: together there are as many as tasks.
const THREADS: usize = 2;
const KILLS: usize = 1;

/// A broker with the topics of an application.
fn started(topics: &[&str]) -> Node {
    let mut node = streams::node();
    node.start();
    for topic in topics {
        Tool::python("topics.py").args([&node.bootstrap(), topic, "3"]).run();
    }
    node
}

/// Instances that count words, and a writer of words.
struct Counters {
    node: Node,
    instances: Vec<Conversation>,
    /// Number of all instances that were.
    named: usize,
    writer: Conversation,
    words: Words,
}

impl Counters {
    fn start() -> Self {
        let node = started(&words::TOPICS);
        let writer = words::writer(&node.bootstrap()).spawn();
        let words = Words::new(StdRng::seed_from_u64(seed()));
        let mut counters = Self { node, instances: Vec::new(), named: 0, writer, words };
        (0..INSTANCES).for_each(|_| counters.add());
        counters
    }

    /// Starts an instance with a directory of its own.
    fn add(&mut self) {
        let state = self.node.scratch().join(format!("state-{}", self.named));
        self.named += 1;
        let mut tool = words::application(&self.node.bootstrap(), &state);
        self.instances.push(tool.args(streams::SETTINGS).spawn());
    }

    fn say(&mut self, lines: usize) {
        (0..lines).for_each(|_| self.writer.say(&self.words.line()));
    }

    /// Waits until each thread has one of the tasks.
    fn await_spread(&self) {
        let threads = self.instances.len() * THREADS;
        await_some("a task in each thread", LIMIT, || {
            let group = described(&self.node.bootstrap(), "word-count");
            let tasks = tasks(&group);
            let busy: BTreeSet<&String> = tasks.values().filter_map(|(member, _)| member.as_ref()).collect();
            (group["state"] == "Stable" && busy.len() == threads).then_some(())
        });
    }

    /// Ends the input and then the instances; each word must have been counted as often as it was
    /// written.
    fn check(mut self) {
        let (all, bootstrap) = (self.words.len(), self.node.bootstrap());
        self.writer.finish(LIMIT);
        await_some("every word counted", LIMIT, || (words::counts(&bootstrap).len() >= all).then_some(()));
        for instance in self.instances {
            instance.finish(LIMIT);
        }
        let counts = words::counts(&bootstrap);
        println!("{all} words said, {} counts committed", counts.len());
        self.words.assert_counted(&counts);
        self.node.assert_running("at the end");
        self.node.stop();
    }
}

#[test]
fn words_are_counted_once_through_kills() {
    let mut counters = Counters::start();
    counters.say(200);
    counters.await_spread();
    for _ in 0..scaled(KILLS) {
        counters.say(200);
        counters.instances.remove(0).kill();
        counters.say(200);
        counters.add();
        counters.await_spread();
        counters.say(200);
        counters.node.kill();
        counters.node.start();
        counters.say(200);
        counters.await_spread();
    }
    counters.say(200);
    counters.check();
}

/// The members that have the active task and the standby tasks of each task.
fn tasks(group: &Value) -> BTreeMap<String, (Option<String>, Vec<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let task = |one: &Value| {
        let name = format!("{}_{}", one["subtopology"].as_str().expect("a subtopology"), one["partition"]);
        let standby = one["standby"].as_array().expect("a list").iter().filter_map(text);
        (name, (text(&one["member"]), standby.collect()))
    };
    group["tasks"].as_array().into_iter().flatten().map(task).collect()
}

/// Waits until each of the six tasks has a member, and a standby task in another one.
fn await_standby_tasks(node: &Node) {
    await_some("standby tasks of each task", LIMIT, || {
        let group = described(&node.bootstrap(), APPLICATION);
        let tasks = tasks(&group);
        let is_safe = |(member, standby): &(Option<String>, Vec<String>)| {
            member.is_some() && standby.len() == 1 && !standby.contains(member.as_ref().expect("a member"))
        };
        (group["state"] == "Stable" && tasks.len() == 6 && tasks.values().all(is_safe)).then_some(())
    });
}

/// Cleanup policies and numbers of partitions of the topics that the group has created.
fn internal_topics(node: &Node) -> BTreeMap<String, (String, usize)> {
    let mut levada = Tool::levada();
    levada.args(["topic", "describe", "--output", "json", "-b", &node.bootstrap()]);
    let group = described(&node.bootstrap(), APPLICATION);
    let subtopologies = group["topology"]["subtopologies"].as_array().expect("subtopologies");
    let names = subtopologies.iter().flat_map(|one| {
        ["changelog_topics", "repartition_source_topics"]
            .into_iter()
            .flat_map(|kind| one[kind].as_array().expect("topics"))
    });
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    for name in &names {
        levada.arg(name);
    }
    let topics: Value = serde_json::from_str(&levada.run().stdout).expect("JSON");
    let topic = |one: &Value| {
        let name = one["name"].as_str().expect("a name").replace(&format!("{APPLICATION}-"), "");
        let mut settings = one["settings"].as_array().expect("settings").iter();
        let policy = settings.find(|one| one["key"] == "cleanup.policy").expect("a policy");
        let partitions = one["partitions"].as_array().expect("partitions").len();
        (name, (policy["value"].as_str().expect("a policy").to_owned(), partitions))
    };
    topics.as_array().expect("topics").iter().map(topic).collect()
}

#[test]
fn joins_and_windows_are_exact_through_kills() {
    let mut node = started(&streams::TOPICS);
    let bootstrap = node.bootstrap();
    let mut levada = Tool::levada();
    levada
        .args(["config", "set", "group", APPLICATION, "streams.num.standby.replicas=1", "-b", &bootstrap])
        .run();
    let scratch = node.scratch().to_owned();
    let start =
        |number: usize| streams::application(&bootstrap, &scratch.join(format!("state-{number}"))).spawn();
    let mut payments = Payments::new(StdRng::seed_from_u64(!seed()));
    let mut writer = streams::records_writer(&bootstrap).spawn();
    let mut pay = |payments: &mut Payments, count: usize| {
        (0..count).flat_map(|_| payments.pair()).for_each(|line| writer.say(&line));
    };
    let mut instances = vec![start(0), start(1)];
    pay(&mut payments, 400);
    await_standby_tasks(&node);
    let expected = [
        ("paid-other-join-store-changelog", ("delete", 3)),
        ("paid-this-join-store-changelog", ("delete", 3)),
        ("regions-repartition", ("delete", 3)),
        ("sums-changelog", ("compact,delete", 3)),
    ];
    let expected = expected.map(|(name, (policy, count))| (name.to_owned(), (policy.to_owned(), count)));
    assert_eq!(internal_topics(&node), BTreeMap::from(expected));
    for round in 0..scaled(KILLS) {
        pay(&mut payments, 400);
        instances.remove(0).kill();
        pay(&mut payments, 400);
        instances.push(start(2 + round));
        await_standby_tasks(&node);
        pay(&mut payments, 400);
        node.kill();
        node.start();
        pay(&mut payments, 400);
        await_standby_tasks(&node);
    }
    writer.finish(LIMIT);
    await_some("every sum", LIMIT, || (streams::sums(&bootstrap).len() >= payments.paid()).then_some(()));
    for instance in instances {
        instance.finish(LIMIT);
    }
    payments.assert_summed(&streams::sums(&bootstrap));
    assert_eq!(described(&node.bootstrap(), APPLICATION)["lag"], 0);
    node.assert_running("at the end");
    node.stop();
}
