//! A cluster of Kafka whose brokers are replaced by Levada, and by Kafka again, while clients
//! write, read and commit: one by one on the same directories, or by new brokers that get all
//! replicas.
//!
//! A long run repeats each test for its time.
//!
//! Suite: long; 265 s; needs java, python
//! Soak: lasts 30 s

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use levada_testing::long_run;
use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::journal::{self, Entry};
use levada_tests::node::Kind;
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, Tool, await_some, replicas};
use serde_json::json;

/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);
const TOPIC: &str = "replaced";
const PARTITIONS: i32 = 6;
/// Records of the producer in a second.
const RATE: &str = "1000";
/// The topic of transactions.
const BOOKED: &str = "booked";
/// A topic without further writes: 50 MB that no replacement copies.
const OLD: &str = "old";
const OLD_RECORDS: &str = "--num-records 50000 --record-size 1000 --throughput -1 --producer-props acks=all";
/// Bytes of records that a follower may fetch once more, since it fetched them before a change of
/// the leader and could not append them.
const REPEATED_MAX: u64 = 1 << 20;

/// Keys that the brokers of every cluster of production have, for three replicas.
const THREE_REPLICAS: [(&str, &str); 5] = [
    ("min.insync.replicas", "2"),
    ("default.replication.factor", "3"),
    ("offsets.topic.replication.factor", "3"),
    ("transaction.state.log.replication.factor", "3"),
    ("transaction.state.log.min.isr", "2"),
];

/// Further keys of the file `broker.properties` that Kafka comes with.
const STOCK: [(&str, &str); 12] = [
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("num.network.threads", "3"),
    ("num.io.threads", "8"),
    ("socket.send.buffer.bytes", "102400"),
    ("socket.receive.buffer.bytes", "102400"),
    ("socket.request.max.bytes", "104857600"),
    ("num.partitions", "1"),
    ("num.recovery.threads.per.data.dir", "1"),
    ("share.coordinator.state.topic.replication.factor", "3"),
    ("share.coordinator.state.topic.min.isr", "2"),
    ("log.retention.hours", "168"),
    ("log.retention.check.interval.ms", "300000"),
];

/// A cluster under load.
struct Stage {
    cluster: Cluster,
    tools: Tools,
    load: Conversation,
    groups: Vec<Conversation>,
    transactions: Conversation,
    acknowledged: PathBuf,
    start: Instant,
}

/// A replacement of one broker, measured.
struct Replacement {
    broker: i32,
    by: Kind,
    took: Duration,
    /// Bytes of its logs when it stopped.
    before: u64,
    /// Bytes that the leaders have sent to it.
    fetched: u64,
    /// Bytes by which the logs of the cluster have grown since it stopped.
    produced: u64,
}

#[test]
fn kafka_brokers_are_replaced_in_place_and_back() {
    let mut stage = Stage::set(0);
    let brokers = stage.cluster.brokers();
    let mut all = Vec::new();
    loop {
        for kind in [Kind::Levada, Kind::Kafka] {
            all.extend(brokers.iter().map(|broker| stage.replace(*broker, kind)));
        }
        if long_run(LONG_RUN).is_none_or(|limit| stage.start.elapsed() > limit) {
            break;
        }
    }
    print_table(&all, stage.start.elapsed());
    stage.judge();
}

#[test]
fn three_new_brokers_take_and_return_all_replicas() {
    let mut stage = Stage::set(3);
    let [kafka, levada] = [KAFKA, LEVADA].map(|first| Vec::from_iter(first..first + 3));
    loop {
        stage.exchange(&kafka, &levada);
        stage.exchange(&levada, &kafka);
        if long_run(LONG_RUN).is_none_or(|limit| stage.start.elapsed() > limit) {
            break;
        }
    }
    stage.judge();
}

impl Stage {
    /// A cluster of three brokers of Kafka with clients, and a number of brokers of Levada that are
    /// not started.
    fn set(levada: i32) -> Self {
        let shape = Shape { controllers: 1, kafka: 3, levada, discovery: Discovery::BootstrapServers };
        let mut cluster = Cluster::new(shape)
            .option(CONTROLLER, "broker.session.timeout.ms", "6000")
            .may_refuse_appends_of_moved_leaders();
        for first in [KAFKA, LEVADA] {
            cluster = cluster.option(first, "broker.session.timeout.ms", "6000");
            for (key, value) in THREE_REPLICAS.into_iter().chain(STOCK) {
                cluster = cluster.option(first, key, value);
            }
        }
        let later: Vec<i32> = (LEVADA..LEVADA + levada).collect();
        cluster.start_except(&later);
        let mut tools = cluster.tools_of_any();
        let partitions = format!("--partitions {PARTITIONS} --replication-factor 3");
        for topic in [TOPIC, BOOKED, OLD] {
            tools.run(&format!("TopicCommand --create --topic {topic} {partitions}"));
        }
        tools.run(&format!("ProducerPerformance --topic {OLD} {OLD_RECORDS}"));
        let acknowledged = cluster.node(KAFKA).scratch().join("acknowledged");
        let mut load = Tool::python("load.py");
        load.args([&cluster.bootstrap(), TOPIC, &PARTITIONS.to_string()]);
        let mut load = load.args([&acknowledged.display().to_string(), "idempotent", RATE]).spawn();
        progress(&mut load);
        let groups = ["classic", "consumer"].map(|protocol| {
            let mut member = Tool::python("committing.py");
            member.args([&cluster.bootstrap(), &format!("of-{protocol}"), TOPIC, protocol]).spawn()
        });
        let mut groups = Vec::from(groups);
        groups.iter_mut().for_each(progress);
        let mut booking = Tool::python("booking.py");
        booking.args(["write", &cluster.bootstrap(), BOOKED, &PARTITIONS.to_string()]);
        let mut transactions =
            booking.arg(acknowledged.with_extension("booked").display().to_string()).spawn();
        progress(&mut transactions);
        Self { cluster, tools, load, groups, transactions, acknowledged, start: Instant::now() }
    }

    /// Stops a broker, starts one of this kind on its directory, and waits until all its replicas
    /// are in sync and the preferred replicas lead.
    fn replace(&mut self, broker: i32, by: Kind) -> Replacement {
        let start = Instant::now();
        let other = *self.cluster.brokers().iter().find(|other| **other != broker).expect("three brokers");
        let file = self.cluster.node(broker).scratch().join("server.properties");
        if by == Kind::Levada {
            let check = format!("doctor --cluster --config {}", file.display());
            self.cluster.node(other).levada(&check).run();
        }
        self.cluster.node_mut(broker).stop();
        let before = bytes_of_logs(&self.cluster, broker);
        self.await_progress();
        self.cluster.node_mut(broker).replace_by(by);
        self.cluster.node_mut(broker).start();
        self.cluster.node(other).levada("doctor --cluster --watch").run();
        let took = start.elapsed();
        let fetched = match by {
            Kind::Levada => fetched(&self.cluster, broker),
            // Its leaders have sent the records that were missing before.
            Kind::Kafka => bytes_of_logs(&self.cluster, broker) - before,
        };
        let produced = bytes_of_logs(&self.cluster, other).saturating_sub(before);
        let limit = produced + REPEATED_MAX;
        assert!(fetched <= limit, "{broker}: fetched {fetched} bytes, {produced} were produced meanwhile");
        assert!(fetched < before, "{broker}: fetched {fetched} bytes, it had {before}");
        // The replicas may lead already.
        self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
        self.await_progress();
        Replacement { broker, by, took, before, fetched, produced }
    }

    /// Starts brokers, moves every partition of the cluster to them, and removes the brokers that
    /// had them.
    fn exchange(&mut self, from: &[i32], to: &[i32]) {
        let start = Instant::now();
        to.iter().for_each(|id| self.cluster.node_mut(*id).launch());
        to.iter().for_each(|id| self.cluster.node_mut(*id).await_start());
        self.cluster.await_brokers(&self.cluster.brokers());
        self.reassign(to);
        let took = start.elapsed();
        self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
        for id in from {
            self.cluster.node_mut(*id).stop();
            assert!(
                self.tools.run(&format!("ClusterTool unregister --id {id}")).contains("no longer registered")
            );
        }
        self.cluster.await_brokers(to);
        let expected: Vec<_> = to.iter().map(|id| Some(i64::from(*id))).collect();
        await_some("the registrations of the brokers that stay", LIMIT, || {
            let rows = self.cluster.node(to[0]).levada_json("cluster brokers");
            let ids = rows.as_array().expect("rows").iter().map(|row| row["id"].as_i64());
            (ids.collect::<Vec<_>>() == expected).then_some(())
        });
        let bytes: u64 = to.iter().map(|id| bytes_of_logs(&self.cluster, *id)).sum();
        println!("from {from:?} to {to:?}: {bytes} bytes in {:.1} s", took.as_secs_f64());
        self.await_progress();
    }

    /// Moves every partition to these brokers, and waits until they alone have it.
    fn reassign(&mut self, to: &[i32]) {
        let plan = self.cluster.node(CONTROLLER).scratch().join("plan.json");
        let entries = self.partitions().into_iter().map(|(topic, partition, ..)| {
            let mut replicas = to.to_vec();
            replicas.rotate_left(partition % to.len());
            json!({"topic": topic, "partition": partition, "replicas": replicas})
        });
        let entries: Vec<_> = entries.collect();
        let text = json!({"version": 1, "partitions": entries}).to_string();
        std::fs::write(&plan, text).expect("a plan");
        let plan = plan.display();
        self.tools.run(&format!("ReassignPartitionsCommand --execute --reassignment-json-file {plan}"));
        await_some("the end of all reassignments", LIMIT, || {
            let partitions = self.partitions();
            let mut all = partitions.iter().flat_map(|(_, _, replicas, in_sync)| [replicas, in_sync]);
            all.all(|ids| ids == to).then_some(())
        });
        self.tools.run(&format!("ReassignPartitionsCommand --verify --reassignment-json-file {plan}"));
    }

    /// Topic, number, replicas and replicas in sync of every partition of the cluster, with ids in
    /// order.
    fn partitions(&mut self) -> Vec<(String, usize, Vec<i32>, Vec<i32>)> {
        let described = self.tools.run("TopicCommand --describe");
        let partition = |line: &str| {
            let field = |name: &str| line.split('\t').find_map(|field| field.strip_prefix(name));
            let ids = |name: &str| {
                let ids = field(name).expect("a list").split(',').filter_map(|id| id.parse().ok());
                ids.collect::<BTreeSet<i32>>().into_iter().collect()
            };
            let number = field("Partition: ")?.parse().expect("a number");
            Some((field("Topic: ")?.to_owned(), number, ids("Replicas: "), ids("Isr: ")))
        };
        described.lines().filter_map(partition).collect()
    }

    /// Waits until the producer and the members of all groups have got on.
    fn await_progress(&mut self) {
        progress(&mut self.load);
        progress(&mut self.transactions);
        self.groups.iter_mut().for_each(progress);
    }

    /// Ends the clients, and compares the acknowledgements with the log.
    fn judge(mut self) {
        self.load.say("stop");
        self.load.finish(LIMIT);
        self.transactions.say("stop");
        self.transactions.finish(LIMIT);
        for mut group in self.groups {
            group.say("stop");
            let said = group.finish(LIMIT);
            println!("group: {}", said.last().expect("a last line"));
        }
        let bootstrap = self.cluster.bootstrap();
        let (acknowledged, log) = journal::collect(&bootstrap, (TOPIC, PARTITIONS), &self.acknowledged);
        let mut complaints = journal::lost(&acknowledged, &log);
        complaints.extend(journal::disorder(&without_repetitions(&self.cluster.node(KAFKA).data(), &log)));
        complaints.extend(misbooked(&bootstrap, &self.acknowledged.with_extension("booked")));
        let hanging = self.tools.run(&format!("TransactionsCommand find-hanging --broker-id {KAFKA}"));
        assert!(!hanging.contains(BOOKED), "{hanging}");
        for id in self.cluster.brokers() {
            if self.cluster.node(id).is_running() {
                self.cluster.node_mut(id).stop();
            }
        }
        let topics =
            [TOPIC, BOOKED].map(|topic| (0..PARTITIONS).map(move |number| format!("{topic}-{number}")));
        for partition in topics.into_iter().flatten() {
            let directory = |id: i32| (id, self.cluster.node(id).data().join(&partition));
            let directories: Vec<_> = self.cluster.brokers().into_iter().map(directory).collect();
            let existing = directories.iter().filter(|(_, path)| path.exists());
            let paths: Vec<_> = existing.map(|(id, path)| (*id, path.as_path())).collect();
            assert_eq!(paths.len(), 3, "replicas of {partition}");
            let differences = replicas::differences(&paths).into_iter();
            complaints.extend(differences.map(|difference| format!("{partition}, {difference}")));
        }
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.cluster.assert_no_errors();
    }
}

/// The records without those that the producer has written again in a later epoch, which no
/// broker can recognise. librdkafka begins one if a later request reaches a new leader first, and
/// then repeats what the former leader answered with NOT_LEADER_OR_FOLLOWER, although that
/// leader may have appended it.
fn without_repetitions(data: &Path, log: &[Entry]) -> Vec<Entry> {
    let batches = |partition: i32| replicas::batches(&data.join(format!("{TOPIC}-{partition}")));
    let batches: Vec<_> = (0..PARTITIONS).map(batches).collect();
    let producer = |entry: &Entry| {
        let batches = &batches[entry.partition as usize];
        let at = batches.partition_point(|batch| batch.last < entry.offset);
        batches.get(at).expect("a batch of the record").producer()
    };
    let mut first = HashMap::new();
    let is_kept = |entry: &&Entry| {
        let (id, epoch) = producer(entry);
        let (first_id, first_epoch) = *first.entry((entry.partition, entry.number)).or_insert((id, epoch));
        id != first_id || epoch <= first_epoch
    };
    let kept: Vec<Entry> = log.iter().filter(is_kept).copied().collect();
    println!("{} records repeated in a later epoch of the producer", log.len() - kept.len());
    kept
}

/// Differences between the transactions that their writer has ended and the committed records.
fn misbooked(bootstrap: &str, journal: &Path) -> Vec<String> {
    let said = Tool::python("booking.py").args(["read", bootstrap, BOOKED, &PARTITIONS.to_string()]).run();
    let mut found = vec![Vec::new(); PARTITIONS as usize];
    for line in said.stdout.lines() {
        let (partition, number) = line.split_once(' ').expect("partition and number");
        found[partition.parse::<usize>().expect("a partition")].push(number.to_owned());
    }
    let journal = std::fs::read_to_string(journal).expect("the journal");
    let committed = journal.lines().filter_map(|line| line.strip_suffix(" committed"));
    let committed: Vec<String> = committed.map(str::to_owned).collect();
    println!("{} transactions, {} committed", journal.lines().count(), committed.len());
    let wrong = found.iter().enumerate().filter(|(_, numbers)| **numbers != committed);
    let wrong = wrong.map(|(partition, numbers)| {
        let at = (0..).find(|at| numbers.get(*at) != committed.get(*at)).expect("they differ");
        format!("{BOOKED}-{partition}: {:?} at {at}, committed: {:?}", numbers.get(at), committed.get(at))
    });
    wrong.collect()
}

/// Bytes of batches in all logs of a broker.
fn bytes_of_logs(cluster: &Cluster, broker: i32) -> u64 {
    let entries = std::fs::read_dir(cluster.node(broker).data()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // Replicas that a reassignment has removed are deleted later.
    let is_removed = |path: &Path| path.to_string_lossy().ends_with("-delete");
    let partitions = paths.filter(|path| path.join("partition.metadata").exists() && !is_removed(path));
    partitions.map(|path| replicas::bytes(&path)).sum()
}

/// Bytes of records that leaders have sent to a broker of Levada since its start.
fn fetched(cluster: &Cluster, broker: i32) -> u64 {
    let samples = cluster.node(broker).metrics();
    let sample = samples.iter().find(|(name, _)| name == "levada_replica_fetched_bytes_total");
    sample.expect("the counter").1 as u64
}

fn print_table(all: &[Replacement], total: Duration) {
    println!("broker  by      seconds  bytes before  bytes fetched  bytes produced meanwhile");
    for one in all {
        let (by, seconds) = (format!("{:?}", one.by), one.took.as_secs_f64());
        let (broker, before, fetched, produced) = (one.broker, one.before, one.fetched, one.produced);
        println!("{broker:>6}  {by:<6}  {seconds:>7.1}  {before:>12}  {fetched:>13}  {produced:>24}");
    }
    let fetched: u64 = all.iter().map(|one| one.fetched).sum();
    println!("{} replacements in {:.1} s, {fetched} bytes fetched", all.len(), total.as_secs_f64());
}

/// Waits until a client has got on from now on.
fn progress(client: &mut Conversation) {
    while let Some(line) = client.line_now() {
        assert!(line.parse::<u64>().is_ok(), "{line}");
    }
    // One may have been on its way.
    for _ in 0..2 {
        let line = client.line(LIMIT);
        assert!(line.parse::<u64>().is_ok(), "{line}");
    }
}
