//! Share groups as the Java client uses them: a queue of several members, each kind of
//! acknowledgement, locks that expire, limits, configuration of groups, and restarts of the broker.
//!
//! Suite: long; 44 s; needs java; share queues

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use levada_tests::Node;
use levada_tests::share::{self, Delivery, Members, SHORTEST_LOCK_MS, numbered, values};

const EXPLICIT: &str = "share.acknowledgement.mode=explicit";

/// A broker, and a topic `t` with one partition.
struct Stage {
    node: Node,
    members: Members,
}

impl Stage {
    fn set() -> Self {
        Self::of(share::node())
    }

    fn of(mut node: Node) -> Self {
        node.start();
        let mut members = Members::of(&node.bootstrap());
        members.run("topic t 1");
        Self { node, members }
    }

    /// Sets keys of a group, which reads from the beginning.
    fn configure(&mut self, group: &str, settings: &str) {
        self.members.run(format!("config {group} share.auto.offset.reset=earliest {settings}").trim_end());
    }

    /// Makes a member of a group, which acknowledges explicitly.
    fn open(&mut self, name: &str, group: &str) {
        self.members.run(&format!("open {name} {group} t {EXPLICIT}"));
    }

    fn end(mut self) {
        self.node.assert_running("at the end");
        self.node.stop();
    }
}

/// Delivery counts of the values.
fn counts(deliveries: &[Delivery]) -> BTreeMap<&str, i16> {
    deliveries.iter().map(|delivery| (delivery.value.as_str(), delivery.count)).collect()
}

#[test]
fn each_record_goes_to_one_of_several_members() {
    const BATCHES: u32 = 20;
    let mut stage = Stage::set();
    stage.members.run("topic shared 2");
    stage.configure("g", "");
    let names = ["a", "b", "c"];
    for name in names {
        stage.members.run(&format!("open {name} g shared max.poll.records=10"));
    }
    let mut written = Vec::new();
    for batch in 0..BATCHES {
        let values = numbered("v", batch * 10..batch * 10 + 10);
        stage.members.run(&format!("produce shared {} {values}", batch % 2));
        written.extend(values.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
    let (mut seen, mut by_member) = (Vec::new(), BTreeMap::new());
    let start = Instant::now();
    while seen.len() < written.len() {
        for name in names {
            let polled = stage.members.poll(name, 100);
            *by_member.entry(name).or_insert(0) += polled.len();
            seen.extend(polled);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{} records after a minute", seen.len());
    }
    assert_eq!(values(&seen), written);
    assert!(seen.iter().all(|delivery| delivery.count == 1), "{seen:?}");
    assert!(by_member.values().all(|count| *count > 0), "{by_member:?}");
    for name in names {
        stage.members.assert_quiet(name);
        stage.members.run(&format!("close {name}"));
    }
    stage.end();
}

#[test]
fn released_records_return_and_rejected_ones_do_not() {
    let mut stage = Stage::set();
    stage.configure("g", "");
    stage.open("a", "g");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..6)));
    let first = stage.members.await_poll("a");
    assert_eq!(values(&first), numbered("v", 0..6).split(' ').collect::<Vec<_>>());
    stage.members.acknowledge("a", "accept", &first[0..2]);
    stage.members.acknowledge("a", "release", &first[2..4]);
    stage.members.acknowledge("a", "reject", &first[4..6]);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    let second = stage.members.await_poll("a");
    assert_eq!(counts(&second), BTreeMap::from([("v-002", 2), ("v-003", 2)]));
    stage.members.acknowledge("a", "accept", &second);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.assert_quiet("a");
    assert_eq!(stage.members.run("results a"), "0:0=ok 0:1=ok 0:2=ok 0:3=ok 0:4=ok 0:5=ok 0:2=ok 0:3=ok");
    stage.end();
}

#[test]
fn the_delivery_limit_archives_a_record() {
    let mut stage = Stage::set();
    stage.configure("g", "share.delivery.count.limit=3");
    stage.open("a", "g");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..4)));
    let deliveries = stage.members.take("a", 12, "release");
    let mut by_value: BTreeMap<&str, Vec<i16>> = BTreeMap::new();
    for delivery in &deliveries {
        by_value.entry(&delivery.value).or_default().push(delivery.count);
    }
    assert!(by_value.len() == 4 && by_value.values().all(|counts| *counts == [1, 2, 3]), "{by_value:?}");
    stage.members.assert_quiet("a");
    stage.members.run("produce t 0 later");
    assert_eq!(values(&stage.members.await_poll("a")), ["later"]);
    stage.end();
}

#[test]
fn expired_locks_give_records_to_other_members() {
    let mut stage = Stage::set();
    stage.configure("g", &format!("share.record.lock.duration.ms={SHORTEST_LOCK_MS}"));
    stage.open("a", "g");
    stage.open("b", "g");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..3)));
    let held = stage.members.await_poll("a");
    assert_eq!((held.len(), stage.members.run("lock a")), (3, SHORTEST_LOCK_MS.to_string()));
    let taken = stage.members.await_poll("b");
    assert_eq!(counts(&taken), BTreeMap::from([("v-000", 2), ("v-001", 2), ("v-002", 2)]));
    stage.members.acknowledge("a", "accept", &held);
    assert_eq!(stage.members.commit("a"), ["0=InvalidRecordStateException"]);
    stage.members.acknowledge("b", "accept", &taken);
    assert_eq!(stage.members.commit("b"), Vec::<String>::new());
    stage.members.assert_quiet("a");
    stage.end();
}

#[test]
fn a_renewed_lock_does_not_expire() {
    let mut stage = Stage::set();
    stage.configure("g", &format!("share.record.lock.duration.ms={SHORTEST_LOCK_MS}"));
    stage.open("a", "g");
    stage.open("b", "g");
    stage.members.run("produce t 0 slow");
    let mut held = stage.members.await_poll("a");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(3 * SHORTEST_LOCK_MS) {
        stage.members.acknowledge("a", "renew", &held);
        assert_eq!(stage.members.commit("a"), Vec::<String>::new());
        assert_eq!(stage.members.poll("b", SHORTEST_LOCK_MS / 3), vec![]);
        held = stage.members.await_poll("a");
        assert_eq!(counts(&held), BTreeMap::from([("slow", 1)]));
    }
    stage.members.acknowledge("a", "accept", &held);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.assert_quiet("b");
    stage.end();
}

#[test]
fn leaving_share_member_releases_its_records() {
    let mut stage = Stage::set();
    stage.configure("g", "");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..3)));
    stage.open("a", "g");
    let held = stage.members.await_poll("a");
    // Acknowledged and not committed: closing sends it.
    stage.members.acknowledge("a", "accept", &held[..1]);
    stage.members.run("close a");
    let mut other = Members::of(&stage.node.bootstrap());
    other.run(&format!("open b g t {EXPLICIT}"));
    assert_eq!(counts(&other.await_poll("b")), BTreeMap::from([("v-001", 2), ("v-002", 2)]));
    other.kill();
    let start = Instant::now();
    stage.open("c", "g");
    let last = stage.members.take("c", 2, "accept");
    assert_eq!(counts(&last), BTreeMap::from([("v-001", 3), ("v-002", 3)]));
    // Locks are of 30 s.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    stage.end();
}

#[test]
fn share_auto_offset_reset_sets_the_start() {
    let mut stage = Stage::set();
    stage.members.run(&format!("produce t 0 {}", numbered("old", 0..3)));
    stage.members.run("config latest share.auto.offset.reset=latest");
    stage.members.run("config hour share.auto.offset.reset=by_duration:PT1H");
    stage.configure("earliest", "");
    for group in ["latest", "default", "earliest", "hour"] {
        stage.open(group, group);
    }
    for group in ["earliest", "hour"] {
        let found = stage.members.take(group, 3, "accept");
        assert_eq!(values(&found), numbered("old", 0..3).split(' ').collect::<Vec<_>>());
    }
    // A record may be before the start until the partition is initialized.
    for group in ["latest", "default"] {
        let start = Instant::now();
        let found = loop {
            stage.members.run("produce t 0 new");
            let found = stage.members.poll(group, 200);
            if !found.is_empty() {
                break found;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{group}: no record");
        };
        assert!(found.iter().all(|delivery| delivery.value == "new"), "{found:?}");
    }
    stage.end();
}

#[test]
fn aborted_records_reach_groups_of_uncommitted_reads_only() {
    let mut stage = Stage::set();
    stage.configure("committed", "share.isolation.level=read_committed");
    stage.configure("uncommitted", "");
    stage.members.run("produce t 0 plain-0");
    stage.members.run("transact x abort t 0 aborted-0 aborted-1");
    stage.members.run("transact x commit t 0 committed-0 committed-1");
    stage.members.run("transact x abort t 0 aborted-2");
    stage.members.run("transact x commit t 0 committed-2");
    stage.members.run("transact x begin t 0 open");
    stage.members.run("produce t 0 plain-1");
    stage.open("committed", "committed");
    stage.open("uncommitted", "uncommitted");
    let before = stage.members.take("committed", 4, "accept");
    assert_eq!(values(&before), ["committed-0", "committed-1", "committed-2", "plain-0"]);
    let all = stage.members.take("uncommitted", 9, "accept");
    assert_eq!(all.len(), 9, "{all:?}");
    stage.members.assert_quiet("committed");
    stage.members.run("transact x commit");
    let after = stage.members.take("committed", 2, "accept");
    assert_eq!(values(&after), ["open", "plain-1"]);
    for name in ["committed", "uncommitted"] {
        stage.members.assert_quiet(name);
    }
    stage.end();
}

#[test]
fn a_record_limit_divides_batches() {
    let mut stage = Stage::set();
    stage.configure("whole", "");
    stage.configure("parts", "");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..10)));
    stage.members.run(&format!("open whole whole t {EXPLICIT} max.poll.records=3"));
    for name in ["a", "b"] {
        let mode = "share.acquire.mode=record_limit";
        stage.members.run(&format!("open {name} parts t {EXPLICIT} max.poll.records=3 {mode}"));
    }
    assert_eq!(stage.members.await_poll("whole").len(), 10);
    let first = stage.members.await_poll("a");
    assert_eq!(values(&first), ["v-000", "v-001", "v-002"]);
    let second = stage.members.await_poll("b");
    assert_eq!(values(&second), ["v-003", "v-004", "v-005"]);
    stage.members.acknowledge("a", "release", &first);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.acknowledge("b", "accept", &second);
    assert_eq!(stage.members.commit("b"), Vec::<String>::new());
    let rest = stage.members.take("b", 7, "accept");
    let returned = rest.iter().filter(|delivery| delivery.count == 2).count();
    assert_eq!((rest.len(), returned), (7, 3), "{rest:?}");
    stage.end();
}

#[test]
fn acknowledgements_survive_a_broker_restart() {
    let mut stage = Stage::set();
    stage.configure("g", "");
    stage.open("a", "g");
    stage.members.run(&format!("produce t 0 {}", numbered("v", 0..10)));
    let held = stage.members.await_poll("a");
    assert_eq!(held.len(), 10);
    stage.members.acknowledge("a", "accept", &held[0..4]);
    stage.members.acknowledge("a", "release", &held[4..6]);
    stage.members.acknowledge("a", "reject", &held[6..7]);
    assert_eq!(stage.members.commit("a"), Vec::<String>::new());
    stage.members.run("forget a");
    stage.node.kill();
    stage.node.start();
    stage.open("b", "g");
    let again = stage.members.take("b", 5, "accept");
    // The broker has not written that a member has the last three.
    let expected = [("v-004", 2), ("v-005", 2), ("v-007", 1), ("v-008", 1), ("v-009", 1)];
    assert_eq!(counts(&again), BTreeMap::from(expected));
    stage.members.run("close b");
    stage.node.restart();
    stage.open("c", "g");
    stage.members.assert_quiet("c");
    stage.members.run("produce t 0 later");
    assert_eq!(values(&stage.members.await_poll("c")), ["later"]);
    stage.end();
}
