//! Applications of Kafka Streams 4.4 as streams groups: words counted, payments joined with orders
//! and summed by window, each exactly once, while instances and the broker are killed.
//!
//! Suite: long; 60 s; needs java, newer-kafka, kcat, python; share streams
//! Soak: lasts 30 s

use std::collections::BTreeMap;
use std::time::Duration;

use levada_testing::{long_run, seed};
use levada_tests::cluster::LIMIT;
use levada_tests::streams::{self, APPLICATION, Applications, Payments, described};
use levada_tests::{Node, Tool, await_some, words};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);

/// A broker with the topics of the application that sums.
fn started() -> Node {
    let mut node = streams::node();
    node.start();
    for topic in streams::TOPICS {
        Tool::python("topics.py").args([&node.bootstrap(), topic, "3"]).run();
    }
    node
}

/// The broker, and both applications at work.
struct Stage {
    // The first to be dropped: its report asks the broker.
    applications: Applications,
    node: Node,
}

impl Stage {
    fn set(seed: u64) -> Self {
        // A machine at work elsewhere delays heartbeats.
        let mut node = streams::node()
            .option("group.streams.session.timeout.ms", "6000")
            .option("group.streams.heartbeat.interval.ms", "500");
        node.start();
        for topic in words::TOPICS.into_iter().chain(streams::TOPICS) {
            Tool::python("topics.py").args([&node.bootstrap(), topic, "3"]).run();
        }
        let applications = Applications::start(&node.bootstrap(), node.scratch(), &[], (seed, LIMIT));
        Self { applications, node }
    }

    fn kill(&mut self) {
        self.applications.write();
        self.node.kill();
        self.node.start();
        self.applications.survive("broker killed and back");
    }

    fn replace(&mut self, which: usize) {
        self.applications.replace(which);
        self.applications.survive(&format!("instance {which} killed and replaced"));
    }
}

#[test]
fn words_and_sums_are_exact_through_kills() {
    let time = long_run(LONG_RUN);
    let seed = seed();
    let mut stage = Stage::set(!seed);
    let instances = stage.applications.instances();
    stage.applications.progress();
    match time {
        None => {
            stage.replace(0);
            stage.kill();
            stage.replace(instances - 1);
        }
        Some(time) => {
            let mut plan = StdRng::seed_from_u64(seed);
            while stage.applications.running() < time {
                match plan.random_range(0..2) {
                    0 => stage.kill(),
                    _ => stage.replace(plan.random_range(0..instances)),
                }
            }
        }
    }
    let Stage { mut node, applications } = stage;
    applications.judge();
    node.assert_running("at the end");
    node.stop();
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
fn joins_and_windows_are_exact_through_a_kill() {
    let mut node = started();
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
    pay(&mut payments, 400);
    instances.remove(0).kill();
    pay(&mut payments, 400);
    instances.push(start(2));
    await_standby_tasks(&node);
    pay(&mut payments, 400);
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
