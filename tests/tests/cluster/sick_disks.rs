//! One disk of three that is full, read-only or frozen, or a broker without descriptors, under
//! producers of librdkafka and Java with acks=all: the writes to each partition go on with the
//! other two brokers, also when one of these two restarts meanwhile. Nothing is lost, no record of
//! an idempotent or transactional producer is stored twice, and the broker comes back without a
//! restart.
//!
//! With `LEVADA_TEST_NODE=kafka` the tests print the same figures of a real Kafka, and only them.
//! In a long run each fault lasts longer: a disk is frozen for 60 s.
//!
//! Suite: long; 120 s; needs java, python; share faults
//! Soak: scale 10, repeated

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use levada_testing::is_long;
use levada_tests::cluster::{CONTROLLER, Discovery, LEVADA, LIMIT, Shape, Tools};
use levada_tests::gaps::{Gap, Gaps};
use levada_tests::node::Kind;
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, Tool, await_some, journal, not_run, replicas};
use rustix::fs::{FallocateFlags, fallocate};

/// Partitions of each producer's topic: each broker leads one of them.
const PARTITIONS: u32 = 3;
/// Records of each producer in a second.
const RATE: &str = "300";
/// The broker with the sick disk.
const SICK: i32 = LEVADA + 1;
/// The broker that restarts meanwhile.
const OTHER: i32 = LEVADA + 2;
/// Longest time without an acknowledgement of a partition.
const GAP: Duration = Duration::from_secs(10);
/// The same after a restarted broker is in sync again.
const GAP_AFTER_RESTART: Duration = Duration::from_secs(5);
/// Time in which a Kafka that has restarted is in sync, or is not before the sickness ends.
const KAFKA_LIMIT: Duration = Duration::from_secs(30);
/// Largest part of the room that the ballast of a full disk takes at once.
const BALLAST_BYTES: u64 = 128 << 20;
/// Line of a broker whose directory is sick.
const REFUSAL: &str = "log directory refuses records";
const SICKNESSES: [Sickness; 4] =
    [Sickness::Full, Sickness::ReadOnly, Sickness::NoDescriptors, Sickness::Frozen];

/// A small separate ext4, unmounted with the guard.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, image: &Path) -> Result<Self, String> {
        fs::create_dir_all(at)
            .and_then(|()| File::create(image)?.set_len(512 << 20))
            .map_err(|e| e.to_string())?;
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(image)])?;
        run("mount", &["-o", "loop", &text(image), &text(at)])?;
        let disk = Self(at.to_owned());
        // A Kafka starts in no directory with folders of others.
        fs::remove_dir(at.join("lost+found")).map_err(|error| error.to_string())?;
        Ok(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails unless the test has ended while the disk was frozen.
        let _ = run("fsfreeze", &["-u", &text(&self.0)]);
        // There may be a mount above it.
        while run("umount", &["-l", &text(&self.0)]).is_ok() {}
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let said = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Sickness {
    Full,
    /// A read-only mount covers the directory. The kernel makes no file system read-only while
    /// files are open for writing: those that are open take records until the next segment.
    ReadOnly,
    NoDescriptors,
    Frozen,
}

impl Sickness {
    fn begin(self, disk: &Path, pid: u32) {
        match self {
            Self::Full => {
                let mut ballast = File::create(disk.join("ballast")).expect("a file");
                let (mut size, mut end) = (BALLAST_BYTES, 0);
                while size >= 1 << 20 {
                    match fallocate(&ballast, FallocateFlags::empty(), end, size) {
                        Ok(()) => end += size,
                        Err(_) => size /= 2,
                    }
                }
                ballast.seek(SeekFrom::Start(end)).expect("a file");
                let block = vec![0; 64 << 10];
                while ballast.write_all(&block).is_ok() {}
                while ballast.write_all(&block[..512]).is_ok() {}
            }
            Self::ReadOnly => cover(disk).expect("a mount above the other"),
            Self::NoDescriptors => limit_descriptors(pid, "16"),
            Self::Frozen => run("fsfreeze", &["-f", &text(disk)]).expect("a file system that freezes"),
        }
    }

    /// Shortest duration.
    fn lasts(self) -> Duration {
        Duration::from_secs(match (self, is_long()) {
            (Self::Frozen, true) => 60,
            (Self::Frozen, false) => 8,
            (_, true) => 20,
            (_, false) => 4,
        })
    }

    fn end(self, disk: &Path, pid: u32) {
        match self {
            Self::Full => fs::remove_file(disk.join("ballast")).expect("the ballast"),
            // The broker may have files open below it.
            Self::ReadOnly => run("umount", &["-l", &text(disk)]).expect("the mount above"),
            Self::NoDescriptors => limit_descriptors(pid, &most_descriptors(pid)),
            Self::Frozen => run("fsfreeze", &["-u", &text(disk)]).expect("a file system that thaws"),
        }
    }
}

/// Mounts the file system of a directory above it, read-only. The mount is made in another place:
/// the broker would open files for writing before it is read-only.
fn cover(disk: &Path) -> Result<(), String> {
    let (disk, place) = (text(disk), disk.with_extension("read-only"));
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let place = text(&place);
    run("mount", &["--bind", &disk, &place])?;
    run("mount", &["-o", "remount,bind,ro", &place])?;
    run("mount", &["--bind", &place, &disk])?;
    run("umount", &[&place])
}

/// Sets the soft limit of a process.
fn limit_descriptors(pid: u32, limit: &str) {
    run("prlimit", &["--pid", &pid.to_string(), &format!("--nofile={limit}:")]).expect("a process to limit");
}

/// The hard limit of a process.
fn most_descriptors(pid: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("a process");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    line.split_whitespace().nth(4).expect("a hard limit").to_owned()
}

/// A producer with a separate topic of the same name.
struct Load {
    name: String,
    acknowledged: PathBuf,
    conversation: Conversation,
}

impl Load {
    fn start(cluster: &Cluster, client: &str, kind: &str) -> Self {
        let name = format!("{client}-{kind}");
        let acknowledged = cluster.node(LEVADA).scratch().join(&name);
        let mut tool = if client == "java" { Tool::own_java("Load") } else { Tool::python("load.py") };
        tool.args([&cluster.bootstrap(), &name, &PARTITIONS.to_string(), &text(&acknowledged), kind, RATE]);
        Self { name, acknowledged, conversation: tool.spawn() }
    }

    /// Differences between the acknowledgements and the log.
    fn complaints(&self, bootstrap: &str) -> Vec<String> {
        let (acknowledged, log) = journal::collect(bootstrap, (&self.name, PARTITIONS), &self.acknowledged);
        // A plain producer sends a record again that may be there.
        let complaints = if self.name.ends_with("-plain") {
            journal::lost(&acknowledged, &log)
        } else {
            journal::complaints(&acknowledged, &log)
        };
        complaints.into_iter().map(|complaint| format!("{}: {complaint}", self.name)).collect()
    }
}

/// A cluster with a sick disk to be, under load.
struct Stage {
    /// Ends before the broker, which could not be killed on a frozen disk.
    disk: Disk,
    cluster: Cluster,
    tools: Tools,
    loads: Vec<Load>,
    gaps: Gaps,
}

impl Stage {
    fn set(mut cluster: Cluster, disk: Disk) -> Self {
        cluster.start();
        let mut tools = cluster.tools_of_any();
        let shape = format!("--partitions {PARTITIONS} --replication-factor 3");
        let configs =
            "--config min.insync.replicas=2 --config segment.bytes=1048576 --config segment.ms=4000";
        let mut loads = Vec::new();
        for client in ["librdkafka", "java"] {
            for kind in ["idempotent", "plain", "transactional"] {
                tools.run(&format!("TopicCommand --create --topic {client}-{kind} {shape} {configs}"));
                loads.push(Load::start(&cluster, client, kind));
            }
        }
        let journals: Vec<_> =
            loads.iter().map(|load| (load.name.clone(), load.acknowledged.clone())).collect();
        let gaps = Gaps::follow(&journals, PARTITIONS);
        Self { disk, cluster, tools, loads, gaps }
    }

    fn topics(&self) -> impl Iterator<Item = &str> {
        self.loads.iter().map(|load| load.name.as_str()).chain(["__transaction_state"])
    }

    fn await_all_in_sync(&self) {
        for topic in self.topics() {
            await_some(&format!("{topic} in sync"), LIMIT, || {
                self.cluster.are_in_sync(topic, 3).then_some(())
            });
        }
    }

    /// Waits until each partition gets an acknowledgement. A Kafka may not give one before the
    /// sickness ends.
    fn await_acknowledgements(&mut self, limit: Duration) -> Vec<String> {
        let silent = self.gaps.await_all(limit);
        for load in &mut self.loads {
            while let Some(line) = load.conversation.line_now() {
                assert!(line.parse::<u64>().is_ok(), "{}: {line}", load.name);
            }
        }
        silent
    }

    /// Restarts the other broker in good order. The sickness begins while this broker is down: a
    /// frozen disk holds up the metadata of its broker, and the controllers let no broker stop
    /// until all have the newest. Returns the time from the start until it is in sync again, which
    /// does not count; none if a Kafka is not in sync in time.
    fn restart_other(&mut self, sickness: Sickness) -> Option<Duration> {
        self.gaps.pause();
        self.cluster.node_mut(OTHER).stop();
        sickness.begin(&self.disk.0, self.cluster.node(SICK).pid());
        self.cluster.node_mut(OTHER).launch();
        let launched = Instant::now();
        let is_back = || self.topics().all(|topic| self.cluster.is_in_sync(topic, OTHER, LEVADA));
        let took = await_some("a broker in sync that has restarted", LIMIT, || {
            let is_over = Kind::under_test() == Kind::Kafka && launched.elapsed() > KAFKA_LIMIT;
            (is_back() || is_over).then(|| (!is_over).then(|| launched.elapsed()))
        });
        self.gaps.resume();
        self.gaps.begin();
        self.cluster.node_mut(OTHER).await_start();
        took
    }

    fn refusals(&self) -> usize {
        self.cluster.node(SICK).history().matches(REFUSAL).count()
    }

    /// One sickness from its begin until the broker is in sync again.
    fn bear(&mut self, sickness: Sickness, is_other_restarted: bool) {
        let is_levada = Kind::under_test() == Kind::Levada;
        self.await_all_in_sync();
        // Leaders are spread over all brokers again.
        self.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
        let silent = self.await_acknowledgements(LIMIT);
        assert!(silent.is_empty(), "{sickness:?}: before it: {silent:?}");
        let (refusals, start) = (self.refusals(), Instant::now());
        self.gaps.begin();
        let restart = if is_other_restarted {
            self.restart_other(sickness)
        } else {
            sickness.begin(&self.disk.0, self.cluster.node(SICK).pid());
            None
        };
        if is_levada {
            await_some("a refusal", LIMIT, || (self.refusals() > refusals).then_some(()));
            if sickness != Sickness::NoDescriptors {
                let (status, reason) = self.cluster.node(SICK).http("/readyz");
                assert!(
                    status == 503 && reason.contains("refuse records"),
                    "{sickness:?}: {status} {reason}"
                );
            }
        }
        await_some("the end of the sickness", LIMIT, || (start.elapsed() > sickness.lasts()).then_some(()));
        let silent = self.await_acknowledgements(if is_levada { GAP } else { Duration::from_secs(2) });
        let (sick, lasted) = (self.gaps.longest(), start.elapsed());
        let by_hand = self.end(sickness);
        let ended = Instant::now();
        self.await_all_in_sync();
        let in_sync = ended.elapsed();
        let after = self.await_acknowledgements(LIMIT);
        let all = self.gaps.longest();
        let restart = restart.map(|took| format!(", the other broker in sync {took:.1?} after its start"));
        println!("{sickness:?} for {lasted:.1?}{}{by_hand}", restart.unwrap_or_default());
        println!("  gaps until its end: {}; {} partitions silent then", list(&sick), silent.len());
        println!("  gaps in all: {}; in sync {in_sync:.1?} after its end", list(&all));
        let limit = if is_other_restarted { GAP_AFTER_RESTART } else { GAP };
        let is_fine = silent.is_empty() && after.is_empty() && all.iter().all(|gap| gap.time <= limit);
        assert!(is_fine || !is_levada, "{sickness:?}: a gap is longer than {limit:?}: {silent:?} {after:?}");
    }

    /// Ends the sickness. A Kafka may have ended: then it starts again, which the answer says.
    fn end(&mut self, sickness: Sickness) -> &'static str {
        let node = self.cluster.node_mut(SICK);
        let has_ended = node.has_ended();
        if !(has_ended && sickness == Sickness::NoDescriptors) {
            sickness.end(&self.disk.0, node.pid());
        }
        if node.kind() == Kind::Levada || !has_ended {
            node.assert_running("after a sick disk");
            return "";
        }
        node.wait();
        node.start();
        ", the broker has ended, and was started by hand"
    }

    /// Ends the load, and compares the acknowledgements with the log, and the replicas with each
    /// other.
    fn judge(mut self) {
        for load in &mut self.loads {
            load.conversation.say("stop");
        }
        for load in &mut self.loads {
            load.conversation.await_end(LIMIT);
        }
        let bootstrap = self.cluster.bootstrap();
        let mut complaints: Vec<String> =
            self.loads.iter().flat_map(|load| load.complaints(&bootstrap)).collect();
        for id in self.cluster.brokers() {
            self.cluster.node_mut(id).stop();
        }
        for (load, partition) in
            self.loads.iter().flat_map(|load| (0..PARTITIONS).map(move |one| (load, one)))
        {
            let name = format!("{}-{partition}", load.name);
            let directory = |id: i32| (id, self.cluster.node(id).data().join(&name));
            let directories: Vec<_> = self.cluster.brokers().into_iter().map(directory).collect();
            let paths: Vec<_> = directories.iter().map(|(id, path)| (*id, path.as_path())).collect();
            let differences = replicas::differences_since(0, &paths).into_iter();
            complaints.extend(differences.map(|difference| format!("{name}, {difference}")));
        }
        let is_levada = Kind::under_test() == Kind::Levada;
        println!("{} complaints", complaints.len());
        assert!(complaints.is_empty() || !is_levada, "{:#?}", &complaints[..complaints.len().min(20)]);
    }
}

fn list(gaps: &[Gap]) -> String {
    gaps.iter().map(Gap::to_string).collect::<Vec<_>>().join(", ")
}

/// Has one of three brokers on a small disk bear each sickness.
fn endure(is_other_restarted: bool) {
    let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::BootstrapServers };
    let keys = [
        // A broker that has stopped registers again when its session is over.
        ("broker.session.timeout.ms", if is_other_restarted { "4000" } else { "9000" }),
        ("min.insync.replicas", "2"),
        ("default.replication.factor", "3"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
    ];
    let configured = |cluster: Cluster, (key, value): (&str, &str)| {
        cluster.option(LEVADA, key, value).option(CONTROLLER, key, value)
    };
    let cluster = keys.into_iter().fold(Cluster::new(shape), configured);
    let (data, image) = (cluster.node(SICK).data(), cluster.node(SICK).scratch().join("image"));
    let disk = match Disk::mount(&data, &image) {
        Ok(disk) => disk,
        Err(error) => return not_run(&format!("a sick disk: no loop mount: {error}")),
    };
    let mut stage = Stage::set(cluster, disk);
    for sickness in SICKNESSES {
        // To a broker that restarts, a read-only disk is as a full one.
        if is_long() || !is_other_restarted || sickness != Sickness::ReadOnly {
            stage.bear(sickness, is_other_restarted);
        }
    }
    stage.judge();
}

#[test]
fn one_sick_disk_of_three_stops_no_writes_and_is_back_without_a_restart() {
    endure(false);
}

#[test]
fn writes_go_on_when_another_broker_is_back_while_a_disk_is_sick() {
    endure(true);
}
