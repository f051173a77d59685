//! Dead letter queues of share groups: rejected records, records that were delivered too often, and
//! queues that cannot be written.
//!
//! Suite: long; 24 s; needs java; share queues

use std::time::Duration;

use levada_tests::cluster::Tools;
use levada_tests::share::letters::{ALLOWED, EXCEEDED, REJECTED, await_no_lag, letter, letters};
use levada_tests::share::{self, Members, numbered, values};
use levada_tests::{Node, await_some};

const QUEUE: &str = "dlq.t";
const LIMIT: Duration = Duration::from_secs(60);

struct Stage {
    node: Node,
    members: Members,
    tools: Tools,
}

impl Stage {
    /// A broker whose groups may have dead letters, a topic `t` with these partitions, and an
    /// explicit member `a` of a group `g` with these settings.
    fn set(mut node: Node, partitions: u32, settings: &str) -> Self {
        node.start();
        let mut tools = Tools::of(&node.bootstrap(), node.scratch());
        let said = tools.run("FeatureCommand upgrade --feature share.version=2");
        assert!(said.contains("share.version was upgraded to 2"), "{said}");
        node.await_metadata();
        let mut members = Members::of(&node.bootstrap());
        members.run(&format!("topic t {partitions}"));
        members.run(&format!("config g share.auto.offset.reset=earliest {settings}"));
        members.run("open a g t share.acknowledgement.mode=explicit");
        Self { node, members, tools }
    }

    fn letters(&mut self, count: usize) -> Vec<String> {
        letters(&mut self.tools, QUEUE, count)
    }

    /// A value that the broker reports of its dead letters.
    fn metric(&self, name: &str) -> f64 {
        let metrics = self.node.metrics();
        let found = metrics.iter().find(|(series, _)| series == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    }

    /// Waits until the group has completed all records.
    fn end_without_lag(mut self) {
        self.members.assert_quiet("a");
        await_no_lag(&mut self.tools);
        self.node.assert_running("at the end");
        self.node.stop();
    }
}

#[test]
fn rejected_records_are_copied_by_partition() {
    let settings =
        format!("errors.deadletterqueue.topic.name={QUEUE} errors.deadletterqueue.copy.record.enable=true");
    let mut stage = Stage::set(share::node(), 3, &settings);
    stage.members.run(&format!("topic {QUEUE} 2 {ALLOWED}"));
    for partition in 0..3 {
        let range = numbered(format!("p{partition}"), 0..3);
        stage.members.run(&format!("produce t {partition} {range}"));
    }
    stage.members.take_each("a", 9, |delivery| if delivery.offset == 1 { "reject" } else { "accept" });
    let expected = [(0, 0), (0, 2), (1, 1)]
        .map(|(partition, source)| letter(partition, (source, 1), REJECTED, &format!("null\tp{source}-001")));
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(stage.letters(3), expected);
    assert_eq!(stage.metric("levada_share_dead_letters_total{group=\"g\",outcome=\"written\"}"), 3.0);
    stage.end_without_lag();
}

#[test]
fn the_broker_creates_the_queue() {
    let node = share::node().option("errors.deadletterqueue.auto.create.topics.enable", "true");
    let settings = format!("share.delivery.count.limit=2 errors.deadletterqueue.topic.name={QUEUE}");
    let mut stage = Stage::set(node, 1, &settings);
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..2)));
    let taken = stage.members.take("a", 4, "release");
    assert_eq!(values(&taken), ["v-000", "v-000", "v-001", "v-001"]);
    let expected = [0, 1].map(|offset| letter(0, (0, offset), EXCEEDED, "null\tnull"));
    assert_eq!(stage.letters(2), expected);
    let said =
        stage.tools.run(&format!("ConfigCommand --describe --entity-type topics --entity-name {QUEUE}"));
    assert!(said.contains(ALLOWED), "{said}");
    stage.end_without_lag();
}

#[test]
fn expired_record_locks_create_dead_letters() {
    let settings = format!(
        "share.delivery.count.limit=2 share.record.lock.duration.ms=1000 \
         errors.deadletterqueue.topic.name={QUEUE}"
    );
    let mut stage = Stage::set(share::node(), 1, &settings);
    stage.members.run(&format!("topic {QUEUE} 1 {ALLOWED}"));
    stage.members.run("produce t 0 v-000");
    let first = stage.members.await_poll("a");
    assert_eq!(first.iter().map(|delivery| delivery.count).collect::<Vec<_>>(), [1]);
    stage.members.run("open b g t share.acknowledgement.mode=explicit");
    let last = stage.members.await_poll("b");
    assert_eq!(last.iter().map(|delivery| delivery.count).collect::<Vec<_>>(), [2]);
    assert_eq!(stage.letters(1), [letter(0, (0, 0), EXCEEDED, "null\tnull")]);
    stage.node.assert_running("at the end");
    stage.node.stop();
}

#[test]
fn dead_letter_topic_must_allow_dead_letters() {
    let mut stage = Stage::set(share::node(), 1, &format!("errors.deadletterqueue.topic.name={QUEUE}"));
    stage.members.run(&format!("topic {QUEUE} 1"));
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..2)));
    let taken = stage.members.take("a", 2, "reject");
    assert_eq!(taken.len(), 2);
    await_some("records that are given up", LIMIT, || {
        (stage.metric("levada_share_dead_letters_total{group=\"g\",outcome=\"given_up\"}") == 2.0)
            .then_some(())
    });
    let refused = stage.members.try_run("config g errors.deadletterqueue.topic.name=__dlq");
    assert!(refused.is_err_and(|error| error.contains("DLQ topic name must not start with '__'")));
    stage.end_without_lag();
}
