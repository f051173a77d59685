//! Share groups whose topics change: compaction, deleted records, a topic that is deleted and
//! created again, further partitions, and more records than the group may lock.
//!
//! Suite: long; 25 s; needs java; share queues

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use levada_tests::cluster::Tools;
use levada_tests::share::{self, Delivery, Members, numbered, values};
use levada_tests::{Node, await_some};

const LIMIT: Duration = Duration::from_secs(60);

struct Stage {
    node: Node,
    members: Members,
}

impl Stage {
    /// A broker, and an explicit member `a` of a group `g` that reads a topic `t` from its start.
    fn set(topic: &str) -> Self {
        let mut node = share::node().option("log.cleaner.backoff.ms", "100");
        node.start();
        let mut members = Members::of(&node.bootstrap());
        members.run(&format!("topic t {topic}"));
        members.run("config g share.auto.offset.reset=earliest");
        members.run("open a g t share.acknowledgement.mode=explicit");
        Self { node, members }
    }

    /// Accepts records until each of these values has arrived.
    fn accept_until(&mut self, wanted: &[String]) -> Vec<Delivery> {
        let mut taken = Vec::new();
        let start = Instant::now();
        while !wanted.iter().all(|value| taken.iter().any(|one: &Delivery| one.value == *value)) {
            assert!(start.elapsed() < LIMIT, "{wanted:?} are not all in {taken:?}");
            let polled = self.members.poll("a", 200);
            if !polled.is_empty() {
                self.members.acknowledge("a", "accept", &polled);
                assert_eq!(self.members.commit("a"), Vec::<String>::new());
                taken.extend(polled);
            }
        }
        taken
    }

    /// Waits until the tools describe no lag, then stops the broker.
    fn end_without_lag(mut self) {
        self.members.assert_quiet("a");
        let mut tools = Tools::of(&self.node.bootstrap(), self.node.scratch());
        await_some("a group without lag", LIMIT, || {
            let said = tools.run("ShareGroupCommand --describe --group g");
            let mut lags = said.lines().filter(|line| line.starts_with("g ")).peekable();
            (lags.peek().is_some() && lags.all(|line| line.ends_with(" 0"))).then_some(())
        });
        self.node.assert_running("at the end");
        self.node.stop();
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn compaction_removes_released_records() {
    let mut stage = Stage::set("1 cleanup.policy=compact segment.ms=100 min.cleanable.dirty.ratio=0.01");
    let round =
        |number: u32| (0..10).map(|key| format!("k{key}:r{number}-{key}")).collect::<Vec<_>>().join(" ");
    stage.members.run(&format!("produce t 0 {}", round(0)));
    let held = stage.members.await_poll("a");
    stage.members.acknowledge("a", "accept", &held[..2]);
    stage.members.acknowledge("a", "release", &held[2..]);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    // Half of the keys have a newer record.
    stage.members.run(&format!("produce t 0 {}", &round(1)[..5 * "k0:r1-0 ".len() - 1]));
    let partition = stage.node.data().join("t-0");
    // A segment may have another name after the listing.
    let size = || -> u64 {
        let entries = fs::read_dir(&partition).expect("a partition").filter_map(Result::ok);
        let logs = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
        logs.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    };
    let mut ticks = 0;
    await_some("compaction", LIMIT, || {
        let before = size();
        stage.members.run(&format!("produce t 0 tick:tick-{ticks}"));
        ticks += 1;
        (size() < before).then_some(())
    });
    stage.members.run("produce t 0 end:end");
    let taken = stage.accept_until(&words("r0-5 r0-6 r0-7 r0-8 r0-9 r1-0 r1-1 r1-2 r1-3 r1-4 end"));
    let old: BTreeMap<&str, i16> =
        taken.iter().filter(|one| one.value.starts_with("r0")).map(|one| (&*one.value, one.count)).collect();
    // The client may have fetched the rest of the first batch before it was compacted.
    assert!((5..=8).all(|key| old[format!("r0-{key}").as_str()] == 2), "{old:?}");
    assert!(!old.contains_key("r0-0") && !old.contains_key("r0-1"), "{old:?}");
    stage.end_without_lag();
}

#[test]
fn deleted_records_are_not_delivered() {
    let mut stage = Stage::set("1");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..10)));
    let held = stage.members.await_poll("a");
    stage.members.acknowledge("a", "accept", &held[..2]);
    stage.members.acknowledge("a", "release", &held[2..]);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.run("close a");
    stage.members.run("trim t 0 6");
    stage.members.run("open a g t share.acknowledgement.mode=explicit");
    let rest = stage.accept_until(&words(&numbered("v", 6..10)));
    assert_eq!(values(&rest), words(&numbered("v", 6..10)));
    stage.members.run(&format!("produce t 0 {}", numbered("w", 0..4)));
    stage.members.run("trim t 0 14");
    stage.members.run("produce t 0 last");
    stage.accept_until(&words("last"));
    stage.end_without_lag();
}

#[test]
fn a_new_topic_is_read_from_its_start() {
    let mut stage = Stage::set("1");
    stage.members.run(&format!("produce t 0 {}", numbered("old", 0..4)));
    let held = stage.members.await_poll("a");
    stage.members.acknowledge("a", "release", &held);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.run("remove t");
    stage.members.run("close a");
    await_some("a new topic", LIMIT, || stage.members.try_run("topic t 1").ok());
    await_some("a leader", LIMIT, || {
        stage.members.try_run(&format!("produce t 0 {}", numbered("new", 0..4))).ok()
    });
    stage.members.run("open a g t share.acknowledgement.mode=explicit");
    let taken = stage.accept_until(&words(&numbered("new", 0..4)));
    assert!(taken.iter().all(|one| one.count == 1 && one.value.starts_with("new")), "{taken:?}");
    stage.end_without_lag();
}

#[test]
fn records_of_new_partitions_are_delivered() {
    let mut stage = Stage::set("1");
    stage.members.run("produce t 0 first");
    stage.accept_until(&words("first"));
    stage.members.run("grow t 3");
    for partition in 1..3 {
        await_some("a leader", LIMIT, || {
            stage.members.try_run(&format!("produce t {partition} new-{partition}")).ok()
        });
    }
    stage.accept_until(&words("new-1 new-2"));
    stage.end_without_lag();
}

#[test]
fn locked_records_are_limited() {
    const LOCKS: usize = 100;
    let mut stage = Stage::set("1");
    stage.members.run(&format!("config g share.partition.max.record.locks={LOCKS}"));
    for batch in 0..30 {
        stage.members.run(&format!("produce t 0 {}", numbered("v", batch * 10..batch * 10 + 10)));
    }
    stage.members.run("open b g t share.acknowledgement.mode=explicit");
    let mut held = stage.members.await_poll("a");
    let second = stage.members.poll("b", 2_000);
    let locked = held.len() + second.len();
    assert!((1..=LOCKS).contains(&locked), "{locked} records are locked");
    while !held.is_empty() {
        stage.members.acknowledge("a", "accept", &held);
        assert_eq!(stage.members.commit("a"), Vec::<String>::new());
        held = stage.members.poll("a", 500);
        assert!(held.len() <= LOCKS, "{} records are locked", held.len());
    }
    if !second.is_empty() {
        stage.members.acknowledge("b", "accept", &second);
        assert_eq!(stage.members.commit("b"), Vec::<String>::new());
    }
    stage.members.run("close b");
    stage.members.run("produce t 0 end");
    stage.accept_until(&words("end"));
    stage.end_without_lag();
}
