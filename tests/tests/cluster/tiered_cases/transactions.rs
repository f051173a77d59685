//! The cases with transactions.

use std::collections::BTreeSet;

use levada_tests::cluster::Tools;
use levada_tests::raw::{self, Connection, FetchRequest};
use levada_tests::replicas::Batch;
use levada_tests::tiers::LATEST;
use levada_tests::{Tool, await_some, tiers};

use super::Case;
use super::stage::Stage;
use super::steps::LIMIT;

pub(super) const CASES: [Case<'static>; 5] = [
    ("committed_reads", &committed_reads),
    ("ended_transactions", &ended_transactions),
    ("undecided_records", &undecided_records),
    ("copied_records", &copied_records),
    ("fenced_producers", &fenced_producers),
];

/// Number of records of the topic that is copied from.
const COPIED: usize = 60;

/// A topic with one partition, at the replicas of a case.
struct Topic {
    name: String,
    replicas: Vec<i32>,
}

impl Topic {
    /// Creates it, with one batch in each segment, of which the last one stays local.
    fn create(stage: &mut Stage, name: &str, replicas: [i32; 2]) -> Self {
        let name = format!("{name}-{}", replicas[0]);
        let placed = format!("--replica-assignment {}:{}", replicas[0], replicas[1]);
        let configs = "--config remote.storage.enable=true --config index.interval.bytes=1 \
                       --config segment.index.bytes=12 --config local.retention.bytes=1 \
                       --config retention.ms=-1 --config min.insync.replicas=2";
        stage.tools.run(&format!("TopicCommand --create --topic {name} {placed} {configs}"));
        let topic = Self { name, replicas: replicas.to_vec() };
        // A producer may come before the leader.
        await_some("the leader", LIMIT, || (topic.end(stage, false) == Some(0)).then_some(()));
        topic
    }

    fn partition(&self) -> (&str, i32) {
        (&self.name, 0)
    }

    fn leader(&self) -> i32 {
        self.replicas[0]
    }

    /// Name of its partition for Kafka's tools.
    fn shown(&self) -> String {
        format!("{}-0", self.name)
    }

    /// End of all records or of the committed ones, if the leader knows it.
    fn end(&self, stage: &Stage, committed_only: bool) -> Option<i64> {
        let request = raw::list_offset(self.partition(), LATEST, committed_only);
        let answer = Connection::open(stage.cluster.node(self.leader()).address()).call(&request);
        let (error, offset, _) = raw::found_offset(&answer);
        (error == 0).then_some(offset)
    }

    fn await_end(&self, stage: &Stage, committed_only: bool, expected: i64) {
        await_some(&format!("{} ends at {expected}", self.name), LIMIT, || {
            (self.end(stage, committed_only) == Some(expected)).then_some(())
        });
    }

    fn await_stored(&self, stage: &Stage, count: i64) {
        await_some(&format!("{count} segments of {} in the store", self.name), LIMIT, || {
            let bases = stage.stored(self.partition()).into_iter().map(|(base, _)| base);
            bases.eq(0..count).then_some(())
        });
        self.await_local(stage, count);
    }

    /// Waits until the log begins with this offset on the disk of each replica.
    fn await_local(&self, stage: &Stage, first: i64) {
        self.replicas.iter().for_each(|broker| stage.await_first(*broker, self.partition(), first));
    }

    fn lead(&mut self, stage: &mut Stage, broker: i32) {
        self.replicas.sort_by_key(|id| *id != broker);
        tiers::assign(&stage.cluster, &mut stage.tools, (&self.name, 0), &self.replicas);
    }

    /// All batches, as the leader sends them, and the first offsets of aborted transactions.
    fn replay(&self, stage: &Stage, committed_only: bool) -> (Vec<Batch>, Vec<(i64, i64)>) {
        let end = self.end(stage, committed_only).expect("an end");
        let request = FetchRequest { committed_only, wait_ms: 500, ..FetchRequest::of(self.partition(), 0) };
        stage.replay(self.leader(), request, end)
    }

    /// Offsets of the records that a consumer reads.
    fn consumed(&self, stage: &Stage, isolation: &str) -> Vec<i64> {
        let mut kcat = Tool::kcat();
        kcat.args(["-b", &stage.cluster.bootstrap(), "-t", &self.name, "-p", "0"]);
        kcat.args(["-X", &format!("isolation.level={isolation}"), "-X", "check.crcs=true"]);
        let said = kcat.args(["-C", "-e", "-q", "-o", "beginning", "-f", "%o\\n"]).run().stdout;
        said.lines().map(|line| line.parse().expect("an offset")).collect()
    }

    /// Has each replica lead, and compares what it serves with what the first one serves.
    fn assert_same_under_each_leader(&mut self, stage: &mut Stage) {
        let expected = [true, false].map(|committed_only| self.replay(stage, committed_only));
        let consumed = self.consumed(stage, "read_committed");
        for broker in [self.replicas[1], self.replicas[0]] {
            self.lead(stage, broker);
            await_some("the committed end", LIMIT, || {
                (self.end(stage, true) == self.end(stage, false)).then_some(())
            });
            let found = [true, false].map(|committed_only| self.replay(stage, committed_only));
            assert_eq!(found, expected, "{} under {broker}", self.name);
            assert_eq!(self.consumed(stage, "read_committed"), consumed, "{} under {broker}", self.name);
        }
    }
}

/// Records without transactions, for consumers of committed records.
fn committed_reads(stage: &mut Stage, replicas: [i32; 2]) {
    let mut topic = Topic::create(stage, "plain", replicas);
    for value in 0..7_u8 {
        let batch = raw::Batch::of(&[&[b'a' + value]]).encode();
        let request = raw::produce(&topic.name, -1, &batch);
        await_some("an acknowledgement", LIMIT, || {
            let answer = Connection::open(stage.cluster.node(topic.leader()).address()).call(&request);
            (raw::produce_error(&answer) == 0).then_some(())
        });
    }
    topic.await_stored(stage, 6);
    assert_eq!(topic.consumed(stage, "read_committed"), Vec::from_iter(0..7));
    topic.assert_same_under_each_leader(stage);
}

/// One aborted and one committed transaction in two topics: open ones are not copied.
fn ended_transactions(stage: &mut Stage, replicas: [i32; 2]) {
    let mut topics = ["one", "two"].map(|name| Topic::create(stage, name, replicas));
    let id = format!("ended-{}", replicas[0]);
    let both = format!("begin {id} {} {}", topics[0].shown(), topics[1].shown());
    stage.tools.run(&both);
    topics.iter().for_each(|topic| topic.await_local(stage, 0));
    stage.tools.run(&format!("abort {id}"));
    topics.iter().for_each(|topic| topic.await_stored(stage, 1));
    stage.tools.run(&both);
    // The marker was copied, once a record came after it.
    topics.iter().for_each(|topic| topic.await_stored(stage, 2));
    stage.tools.run(&format!("commit {id}"));
    for topic in &mut topics {
        topic.await_stored(stage, 3);
        topic.await_end(stage, true, 4);
        assert_eq!(topic.consumed(stage, "read_committed"), [2]);
        assert_eq!(topic.consumed(stage, "read_uncommitted"), [0, 2]);
        topic.assert_same_under_each_leader(stage);
    }
}

/// Nothing after the first record of an open transaction is copied, found by its time or read by a
/// consumer of committed records. Once the transaction is aborted, a fetch that waits for more
/// bytes than there are names it.
fn undecided_records(stage: &mut Stage, replicas: [i32; 2]) {
    let mut topic = Topic::create(stage, "undecided", replicas);
    let after = Topic::create(stage, "after", replicas);
    let [early, late] = ["early", "late"].map(|name| format!("{name}-{}", replicas[0]));
    let shown = topic.shown();
    for line in [
        format!("begin {early} {shown}"),
        format!("begin {late} {shown} {shown}"),
        format!("commit {early}"),
        format!("begin {early} {shown}"),
        format!("commit {early}"),
        // Of the same leader, and copied later.
        format!("begin {early} {after} {after} {after}", after = after.shown()),
        format!("commit {early}"),
    ] {
        stage.tools.run(&line);
    }
    after.await_stored(stage, 3);
    topic.await_stored(stage, 1);
    assert_eq!([true, false].map(|committed_only| topic.end(stage, committed_only)), [Some(1), Some(6)]);
    assert_eq!(topic.consumed(stage, "read_committed"), [0]);
    assert_eq!(topic.consumed(stage, "read_uncommitted"), [0, 1, 2, 4]);
    for broker in [replicas[1], replicas[0]] {
        topic.lead(stage, broker);
        topic.await_end(stage, true, 1);
        assert_eq!(topic.consumed(stage, "read_committed"), [0], "under {broker}");
    }
    topic.await_local(stage, 1);
    stage.tools.run(&format!("abort {late}"));
    topic.await_stored(stage, 6);
    topic.await_end(stage, true, 7);
    let request = FetchRequest {
        min_bytes: 100_000,
        wait_ms: 100,
        committed_only: true,
        ..FetchRequest::of(topic.partition(), 0)
    };
    // The marker is on the disk of the leader, the records are in the store.
    let (batches, aborted) = stage.replay(topic.leader(), request, 7);
    assert_eq!(batches.len(), 7);
    assert_eq!(aborted.iter().map(|(_, first)| *first).collect::<Vec<_>>(), [1], "{aborted:?}");
    assert_eq!(topic.consumed(stage, "read_committed"), [0, 4]);
    topic.assert_same_under_each_leader(stage);
    // With the marker in the store as well.
    stage.tools.run(&format!("begin {early} {shown}"));
    stage.tools.run(&format!("commit {early}"));
    topic.await_stored(stage, 8);
    topic.await_end(stage, true, 9);
    assert_eq!(topic.consumed(stage, "read_committed"), [0, 4, 7]);
    topic.assert_same_under_each_leader(stage);
}

/// An application that copies records with their offsets in transactions, some of which it aborts:
/// each record is there once.
fn copied_records(stage: &mut Stage, replicas: [i32; 2]) {
    let source = Topic::create(stage, "source", replicas);
    let mut target = Topic::create(stage, "target", [replicas[1], replicas[0]]);
    for number in 0..COPIED {
        let batch = raw::Batch::of(&[format!("{number}").as_bytes()]).encode();
        let mut connection = Connection::open(stage.cluster.node(source.leader()).address());
        let answer = connection.call(&raw::produce(&source.name, -1, &batch));
        assert_eq!(raw::produce_error(&answer), 0);
    }
    source.await_stored(stage, i64::try_from(COPIED).expect("few") - 1);
    let id = format!("copier-{}", replicas[0]);
    let topics = format!("--input-topic {} --input-partition 0 --output-topic {}", source.name, target.name);
    stage.tools.run(&format!(
        "TransactionalMessageCopier --transactional-id {id} --consumer-group {id} {topics} \
         --transaction-size 7 --max-messages {COPIED} --enable-random-aborts --use-group-metadata"
    ));
    let end = await_some("the last marker", LIMIT, || {
        let ends = [true, false].map(|committed_only| target.end(stage, committed_only));
        (ends[0] == ends[1]).then_some(ends[0]?)
    });
    target.await_local(stage, end - 1);
    for broker in [target.replicas[1], target.replicas[0]] {
        target.lead(stage, broker);
        let mut kcat = Tool::kcat();
        kcat.args(["-b", &stage.cluster.bootstrap(), "-t", &target.name, "-p", "0"]);
        let said = kcat.args(["-C", "-e", "-q", "-o", "beginning", "-f", "%s\\n"]).run().stdout;
        let unique: BTreeSet<&str> = said.lines().collect();
        assert_eq!((said.lines().count(), unique.len()), (COPIED, COPIED), "under {broker}: {said}");
    }
}

/// Two producers with one transactional id: only the transactions of the later one are committed.
fn fenced_producers(stage: &mut Stage, replicas: [i32; 2]) {
    let mut topic = Topic::create(stage, "fenced", replicas);
    let (id, shown) = (format!("fenced-{}", replicas[0]), topic.shown());
    let mut other = stage.cluster.tools_of_any();
    let refused = |tools: &mut Tools, line: &str| {
        let (code, said) = tools.outcome(line);
        let names = ["ProducerFencedException", "InvalidProducerEpochException"];
        assert!(code != 0 && names.iter().any(|name| said.contains(name)), "{line}: {code}: {said}");
    };
    // In an open transaction, and in none.
    stage.tools.run(&format!("begin {id} {shown}"));
    other.run(&format!("begin {id} {shown}"));
    refused(&mut stage.tools, &format!("commit {id}"));
    other.run(&format!("commit {id}"));
    stage.tools.run(&format!("forget {id}"));
    stage.tools.run(&format!("begin {id} {shown}"));
    stage.tools.run(&format!("abort {id}"));
    refused(&mut other, &format!("begin {id} {shown}"));
    stage.tools.run(&format!("begin {id} {shown}"));
    stage.tools.run(&format!("commit {id}"));
    // Record and abort marker, record and commit marker, and again.
    topic.await_stored(stage, 7);
    topic.await_end(stage, true, 8);
    assert_eq!(topic.consumed(stage, "read_committed"), [2, 6]);
    assert_eq!(topic.consumed(stage, "read_uncommitted"), [0, 2, 4, 6]);
    topic.assert_same_under_each_leader(stage);
}
