//! Transactions and groups in a cluster of a real Kafka and of Levada: producers write to
//! partitions that each broker leads, with coordinators on each broker, while the leaders of all
//! topics move, those of `__consumer_offsets` and `__transaction_state` included, and brokers are
//! killed. In the end each committed record must have been read and copied exactly once, in order,
//! and no other, and no transaction is left open. Members of groups of each kind commit at the same
//! time, and no acknowledged offset is lost. After each move the tools of Kafka and of Levada read
//! each record of the internal topics back from the replica of each broker.
//!
//! Each broker is killed once. A long run has 20 transactional writers, 50 groups, a Kafka Streams
//! application that must count each word once, and faults in an order that follows from the seed.
//!
//! Suite: long; 59 s; needs java, python
//! Soak: lasts 30 s

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use levada_testing::{long_run, seed};
use levada_tests::cluster::{CONTROLLER, KAFKA, LEVADA, LIMIT, Tools};
use levada_tests::ledger::{self, Outcome};
use levada_tests::replicas::{self, Batch};
use levada_tests::tool::Conversation;
use levada_tests::words::{self, Words};
use levada_tests::{Cluster, Tool, await_some, internal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const PARTITIONS: i32 = 3;
const OLD_COPY: &str = "copied-old";
const NEW_COPY: &str = "copied-new";
const TOPICS: [&str; 3] = ["input", OLD_COPY, NEW_COPY];
/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);
/// Time after which a topic without progress is worth a look. It is longer than each timeout of the
/// clients and of the brokers.
const PATIENCE: Duration = Duration::from_secs(45);
/// Number of records read of each topic before the next fault.
const PROGRESS_RECORDS: u64 = 50;

struct Stage {
    cluster: Cluster,
    tools: Tools,
    seeds: StdRng,
    writers: Vec<(String, Conversation)>,
    copiers: Vec<(&'static str, Conversation)>,
    /// Members of many groups.
    committers: Conversation,
    /// Kafka Streams, in a long run.
    streams: Option<Streams>,
    reader: Conversation,
    /// Number of records of each topic that the reader has seen.
    seen: [u64; TOPICS.len()],
    /// First offset of each partition of the internal topics that has not been read back.
    unread: BTreeMap<(&'static str, i32), i64>,
}

/// A Kafka Streams application that counts words, and the writer of its lines.
struct Streams {
    words: Words,
    writer: Conversation,
    application: Conversation,
}

#[test]
fn exactly_once_holds_with_coordinators_on_any_broker() {
    let time = long_run(LONG_RUN);
    let mut stage = if time.is_some() { Stage::set(19, 50) } else { Stage::set(1, 3) };
    stage.streams = time.map(|_| Streams::set(&mut stage));
    let brokers = stage.cluster.brokers();
    stage.progress();
    match time {
        None => {
            for (turn, broker) in brokers.iter().enumerate() {
                stage.move_leaders(turn + 1);
                stage.progress();
                stage.read_back();
                stage.kill(*broker);
            }
        }
        Some(time) => {
            let (start, mut plan) = (Instant::now(), StdRng::seed_from_u64(seed()));
            while start.elapsed() < time {
                stage.move_leaders(plan.random_range(0..brokers.len()));
                stage.progress();
                stage.read_back();
                if plan.random_bool(0.3) {
                    stage.kill(*brokers.choose(&mut plan).expect("a broker"));
                }
            }
        }
    }
    stage.judge();
}

impl Stage {
    /// A cluster whose topics have replicas at all brokers, and clients at work.
    fn set(old_writers: usize, groups: usize) -> Self {
        let mut cluster = cluster();
        cluster.start();
        let mut tools = cluster.tools_of_any();
        for topic in TOPICS {
            create(&mut tools, topic);
        }
        let mut seeds = StdRng::seed_from_u64(!seed());
        let names = (0..=old_writers).map(|number| format!("writer-{number}"));
        let writers = names
            .enumerate()
            .map(|(number, name)| {
                let mut tool = client(&cluster, number == old_writers, ["writer", &name]);
                let journal = scratch(&cluster).join(&name).display().to_string();
                (name, tool.args([&seeds.random::<u32>().to_string(), &journal]).spawn())
            })
            .collect();
        let copiers = [OLD_COPY, NEW_COPY].map(|topic| (topic, copier(&cluster, topic, &mut seeds))).into();
        let reader = reader(&cluster, "live", TOPICS);
        let mut committers = Tool::python("committers.py");
        let committers = committers.args([&cluster.bootstrap(), "input", &groups.to_string()]).spawn();
        Self {
            cluster,
            tools,
            seeds,
            writers,
            copiers,
            committers,
            streams: None,
            reader,
            seen: [0; TOPICS.len()],
            unread: BTreeMap::new(),
        }
    }

    /// Waits until records have got through all topics.
    fn progress(&mut self) {
        self.streams.iter_mut().for_each(Streams::say);
        let (before, start, mut is_told) = (self.seen, Instant::now(), false);
        await_some("progress of every topic", LIMIT, || {
            self.tend();
            if !is_told && start.elapsed() > PATIENCE {
                is_told = true;
                println!("no progress of a topic since {before:?}");
                self.tell_positions();
                self.release_old_copier(before);
            }
            let moved = |(now, before): (&u64, &u64)| now >= &(before + PROGRESS_RECORDS);
            self.seen.iter().zip(&before).all(moved).then_some(())
        });
    }

    /// Prints the ends of all partitions, their open transactions, and the copiers' positions.
    fn tell_positions(&mut self) {
        println!("seen {:?}", self.seen);
        for topic in TOPICS.into_iter().chain(internal::TOPICS.map(|(topic, _)| topic)) {
            println!("{}", self.tools.outcome(&format!("GetOffsetShell --topic {topic}")).1);
            for index in 0..PARTITIONS {
                let place = format!("--topic {topic} --partition {index}");
                println!(
                    "{}",
                    self.tools.outcome(&format!("TransactionsCommand describe-producers {place}")).1
                );
            }
        }
        for group in [OLD_COPY, NEW_COPY] {
            println!("{}", self.tools.outcome(&format!("ConsumerGroupCommand --describe --group {group}")).1);
        }
        println!("{}", self.tools.outcome("TopicCommand --describe").1);
    }

    /// Restarts the copier of librdkafka, as if it had crashed, if its topic makes no progress. Its
    /// `send_offsets_to_transaction` may never return after a broker has gone that was the
    /// coordinator of its group (<https://github.com/confluentinc/librdkafka/issues/5511>).
    fn release_old_copier(&mut self, before: [u64; TOPICS.len()]) {
        let at = |topic: &str| TOPICS.iter().position(|one| *one == topic).expect("a topic");
        if self.seen[at(OLD_COPY)] >= before[at(OLD_COPY)] + PROGRESS_RECORDS {
            return;
        }
        println!("the copier to {OLD_COPY} is restarted");
        let (_, process) =
            self.copiers.iter_mut().find(|(topic, _)| *topic == OLD_COPY).expect("it is there");
        let next = copier(&self.cluster, OLD_COPY, &mut self.seeds);
        std::mem::replace(process, next).kill();
    }

    /// Restarts failed copiers, and counts the records seen.
    fn tend(&mut self) {
        for (topic, process) in &mut self.copiers {
            if process.has_ended() {
                let next = copier(&self.cluster, topic, &mut self.seeds);
                let last = std::mem::replace(process, next).finish(LIMIT);
                last.iter().for_each(|line| println!("{topic} {line}"));
            }
        }
        assert!(!self.reader.has_ended(), "the reader has ended");
        assert!(!self.committers.has_ended(), "a group has lost a commit");
        self.streams.iter_mut().for_each(Streams::tend);
        while let Some(line) = self.reader.line_now() {
            let counts: Vec<u64> = line.split(' ').map(|count| count.parse().expect("a count")).collect();
            self.seen = counts.try_into().expect("a count for each topic");
        }
    }

    /// Has another broker lead each partition of each topic.
    fn move_leaders(&mut self, turn: usize) {
        let internal = internal::TOPICS.map(|(topic, _)| topic);
        let mut topics = [&internal[..], &TOPICS].concat();
        topics.extend(self.streams.iter().flat_map(|_| words::TOPICS));
        self.cluster.move_leaders(&mut self.tools, &topics, PARTITIONS as usize, turn);
        println!("leaders moved, turn {turn}, seen {:?}", self.seen);
    }

    /// Reads each new record of the internal topics with the tools of Kafka and of Levada, which
    /// must find the same records, in the replica of one broker. Those of the others must be equal
    /// to it.
    fn read_back(&mut self) {
        self.cluster.await_in_sync(&mut self.tools);
        let (mut complaints, mut count) = (Vec::new(), 0);
        for (topic, decoder) in internal::TOPICS {
            for (index, end) in self.committed_ends(topic) {
                let start = self.unread.insert((topic, index), end).unwrap_or(0);
                let partitions = self.cluster.brokers().into_iter().map(|id| {
                    (format!("broker {id}"), self.cluster.node(id).data().join(format!("{topic}-{index}")))
                });
                let partitions: Vec<(String, PathBuf)> = partitions.collect();
                let (_, read) = partitions.choose(&mut self.seeds).expect("a broker");
                let (read, mut found) = self.decoded(read, decoder, start..end);
                let equal = partitions.iter().map(|(name, partition)| (name, batches(partition, start..end)));
                let equal: Vec<_> = equal.collect();
                for (name, other) in &equal[1..] {
                    found.extend(internal::differences((equal[0].0, &equal[0].1), (name, other)));
                }
                complaints.extend(found.into_iter().map(|complaint| format!("{topic}-{index}, {complaint}")));
                count += read;
            }
        }
        println!("{count} records of internal topics read back");
        let first = &complaints[..complaints.len().min(10)];
        assert!(complaints.is_empty(), "{} complaints, first:\n{}", complaints.len(), first.join("\n"));
        assert!(count > 0, "no record was written");
    }

    /// The high watermark of each partition of a topic. Replicas may differ after it.
    fn committed_ends(&mut self, topic: &str) -> Vec<(i32, i64)> {
        let said = self.tools.run(&format!("GetOffsetShell --topic {topic}"));
        let end = |line: &str| {
            let (index, offset) = line.strip_prefix(topic)?.strip_prefix(':')?.split_once(':')?;
            Some((index.parse().ok()?, offset.parse().ok()?))
        };
        let ends: Vec<_> = said.lines().filter_map(end).collect();
        assert_eq!(ends.len(), PARTITIONS as usize, "{said}");
        ends
    }

    /// Decodes a part of a replica. The number of records, and the differences between the tools.
    fn decoded(&mut self, partition: &Path, decoder: &str, range: Range<i64>) -> (usize, Vec<String>) {
        let named = |error: String| panic!("{}: {error}", partition.display());
        let levada = internal::by_levada(partition, range.clone()).unwrap_or_else(named);
        let kafka = internal::by_kafka(&mut self.tools, decoder, partition, range).unwrap_or_else(named);
        let [kafka, levada] = [kafka, levada].map(|records| {
            let commits = records.iter().map(|(at, record)| (*at, internal::committed(record)));
            commits.collect::<BTreeMap<i64, Option<i64>>>()
        });
        (kafka.len(), internal::differences(("Kafka's view", &kafka), ("Levada's view", &levada)))
    }

    /// Kills a broker, and starts it again when the others have made progress.
    fn kill(&mut self, id: i32) {
        self.cluster.node_mut(id).kill();
        self.progress();
        self.cluster.node_mut(id).start();
        let all = self.cluster.brokers();
        self.cluster.await_brokers(&all);
        self.cluster.await_in_sync(&mut self.tools);
        println!("broker {id} killed and back, seen {:?}", self.seen);
        self.progress();
    }

    /// Ends all clients, and compares the written records with the read ones.
    fn judge(mut self) {
        let names: Vec<String> = self.writers.iter().map(|(name, _)| name.clone()).collect();
        for (_, writer) in std::mem::take(&mut self.writers) {
            writer.finish(LIMIT);
        }
        let written = ledger::count(&reader(&self.cluster, "written", ["input"]).finish(LIMIT));
        await_some("copies of everything", LIMIT, || {
            self.tend();
            self.seen.iter().all(|seen| *seen == written).then_some(())
        });
        for (_, copier) in self.copiers {
            copier.finish(LIMIT);
        }
        self.reader.finish(LIMIT);
        let commits = self.committers.finish(LIMIT).last().and_then(|line| line.parse::<u64>().ok());
        println!("{commits:?} commits acknowledged");
        assert!(commits.is_some_and(|commits| commits >= PROGRESS_RECORDS), "too few commits");
        reader(&self.cluster, "last", TOPICS).finish(LIMIT);
        if let Some(streams) = self.streams.take() {
            streams.judge(&self.cluster.bootstrap());
        }
        for id in self.cluster.brokers() {
            let found = self.tools.run(&format!("TransactionsCommand find-hanging --broker-id {id}"));
            let hanging: Vec<&str> =
                found.lines().filter(|line| line.contains("copied-") || line.contains("input")).collect();
            assert!(hanging.is_empty(), "hanging transactions at broker {id}: {hanging:#?}");
        }
        let scratch = scratch(&self.cluster);
        let (live, last) = (ledger::view(&scratch.join("live")), ledger::view(&scratch.join("last")));
        let journal = |name: &String| ledger::journal(name, &scratch.join(name));
        let transactions: Vec<_> = names.iter().flat_map(journal).collect();
        for outcome in [Outcome::Committed, Outcome::Aborted, Outcome::Unknown] {
            let count = transactions.iter().filter(|transaction| transaction.outcome == outcome).count();
            println!("{count} transactions {outcome:?}");
            assert!(count > 0 || outcome == Outcome::Unknown, "too little happened");
        }
        let mut complaints = ledger::written(&transactions, &last["input"]);
        complaints.extend(ledger::same(&live, &last));
        for topic in [OLD_COPY, NEW_COPY] {
            let found = ledger::copied(&last["input"], &last[topic]).into_iter();
            complaints.extend(found.map(|complaint| format!("{topic}: {complaint}")));
        }
        let first = &complaints[..complaints.len().min(10)];
        assert!(complaints.is_empty(), "{} complaints, first:\n{}", complaints.len(), first.join("\n"));
        self.cluster.assert_no_errors();
    }
}

impl Streams {
    fn set(stage: &mut Stage) -> Self {
        for topic in words::TOPICS {
            create(&mut stage.tools, topic);
        }
        let (bootstrap, state) = (stage.cluster.bootstrap(), scratch(&stage.cluster).join("state"));
        let mut application = words::application(&bootstrap, &state);
        application.args(["replication.factor=3", "main.consumer.session.timeout.ms=6000"]);
        application
            .args(["main.consumer.heartbeat.interval.ms=500", "producer.transaction.timeout.ms=10000"]);
        let words = Words::new(StdRng::seed_from_u64(stage.seeds.random()));
        Self { words, writer: words::writer(&bootstrap).spawn(), application: application.spawn() }
    }

    fn say(&mut self) {
        for _ in 0..10 {
            self.writer.say(&self.words.line());
        }
    }

    fn tend(&mut self) {
        while self.application.line_now().is_some() {}
        assert!(!self.application.has_ended(), "the Streams application has ended");
    }

    fn judge(self, bootstrap: &str) {
        self.writer.finish(LIMIT);
        let all = self.words.len();
        await_some("every word counted", LIMIT, || (words::counts(bootstrap).len() >= all).then_some(()));
        self.application.finish(LIMIT);
        self.words.assert_counted(&words::counts(bootstrap));
        println!("{all} words counted by Kafka Streams");
    }
}

/// One controller, a broker of Kafka and two of Levada.
fn cluster() -> Cluster {
    let mut cluster = Cluster::of_both_kinds();
    let keys = [
        ("broker.session.timeout.ms", "4000"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.replication.factor", "3"),
        ("offsets.topic.num.partitions", "3"),
        // Segments that a comparison can leave out if it has read them, and that are compacted
        // afterwards.
        ("offsets.topic.segment.bytes", "1048576"),
        ("transaction.state.log.segment.bytes", "1048576"),
        ("log.cleaner.min.compaction.lag.ms", "300000"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
        ("transaction.state.log.num.partitions", "3"),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
        ("group.consumer.min.session.timeout.ms", "6000"),
        ("group.consumer.session.timeout.ms", "6000"),
        ("group.consumer.min.heartbeat.interval.ms", "500"),
        ("group.consumer.heartbeat.interval.ms", "500"),
    ];
    for (first, (key, value)) in [KAFKA, LEVADA].into_iter().flat_map(|first| keys.map(|key| (first, key))) {
        cluster = cluster.option(first, key, value);
    }
    cluster
}

/// The batches of a replica, which may be in use, whose records are all in the range.
fn batches(partition: &Path, range: Range<i64>) -> BTreeMap<i64, Batch> {
    let segments = replicas::segments_from(partition, range.start);
    let all = segments.iter().flat_map(|path| replicas::batches_of(path));
    let within = all.filter(|batch| range.contains(&batch.base) && range.contains(&batch.last));
    within.map(|batch| (batch.base, batch)).collect()
}

fn create(tools: &mut Tools, topic: &str) {
    tools.run(&format!(
        "TopicCommand --create --topic {topic} --partitions {PARTITIONS} --replication-factor 3 --config \
         min.insync.replicas=2"
    ));
}

fn client(cluster: &Cluster, new: bool, [role, name]: [&str; 2]) -> Tool {
    let mut tool = if new { Tool::own_java("ExactlyOnce") } else { Tool::python("exactly_once.py") };
    tool.args([role, &cluster.bootstrap(), name, &PARTITIONS.to_string()]);
    tool
}

fn copier(cluster: &Cluster, topic: &'static str, seeds: &mut StdRng) -> Conversation {
    let name = format!("copier-{topic}");
    let seed = seeds.random::<u32>().to_string();
    client(cluster, topic == NEW_COPY, ["copier", &name]).args([&seed, topic]).spawn()
}

fn reader<const N: usize>(cluster: &Cluster, name: &str, topics: [&str; N]) -> Conversation {
    let file = scratch(cluster).join(name).display().to_string();
    let mut tool = Tool::python("exactly_once.py");
    tool.args(["reader", &cluster.bootstrap(), &PARTITIONS.to_string(), &file]).args(topics).spawn()
}

fn scratch(cluster: &Cluster) -> PathBuf {
    cluster.node(CONTROLLER).scratch().to_owned()
}
