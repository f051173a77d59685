//! Time until a killed broker serves its first partition and all of its partitions. Every system
//! gets a copy of the same directory, which a killed Levada left. No batch in it is recorded as
//! flushed, so that the broker must check all batches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::machine::interrupt::Interrupt;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const TOPIC: &str = "recovery";

/// Kafka's default session timeout. Until it expires, the controller considers the killed broker
/// alive and registers no other broker with the same id.
const SESSION: (&str, &str) = ("broker.session.timeout.ms", "9000");

/// Limit from the start of the process until all partitions are served.
const LIMIT: Duration = Duration::from_secs(900);

/// Interval between two checks of the served partitions.
const LOOK: Duration = Duration::from_millis(2);

/// The experiment, which starts brokers in its runs.
#[derive(Debug)]
pub struct Recovery<'b> {
    bench: &'b Bench,
    systems: Systems,
    partitions: i32,
    bytes: u64,
    /// The killed broker, and the contents of each of its partitions; none before the first run.
    left: Option<(Node, Filled)>,
}

impl<'b> Recovery<'b> {
    /// Creates the experiment without a broker.
    ///
    /// # Errors
    /// None.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let (partitions, bytes) = bench.scale().choose(
            (8, 1 << 20),
            (100, 256 << 20),
            (1000, 4_000_000_000),
            (1000, 20_000_000_000),
        );
        Ok(Recovery { bench, systems: systems.clone(), partitions, bytes, left: None })
    }

    /// Returns the data directory of the killed broker, and the contents of each of its partitions.
    /// The first call starts, fills and kills the broker.
    fn left(&mut self) -> Result<(PathBuf, Filled), LabError> {
        if self.left.is_none() {
            // Space for the killed broker's data and for one copy.
            self.bench.reserve(2 * self.bytes)?;
            let mut node = Node::new(self.bench, &self.systems, System::Levada)?.anywhere();
            node.start(self.bench)?;
            topic::create(&node, TOPIC, self.partitions, &[])?;
            let each = self.bytes / self.partitions.unsigned_abs() as u64;
            let (batch, records) = frames::batch(64 << 10, 1024, 1)?;
            let batches = usize::try_from(each.div_ceil(batch.len() as u64)).unwrap_or(usize::MAX);
            let place = TopicPartition { topic: TOPIC.to_owned(), partition: 0 };
            let filled = Filled { place, batch_len: batch.len(), records, batches };
            let batch = batch.freeze();
            let mut connection = Connection::open(node.address())?;
            for partition in 0..self.partitions {
                let filled = of(&filled, partition);
                let frame = frames::produce(&filled.place, batch.clone(), 1)?;
                topic::send(&mut connection, &frame, &filled, 0)?;
            }
            node.kill()?;
            self.left = Some((node, filled));
        }
        let (node, filled) = self.left.as_ref().expect("the branch above creates the broker");
        Ok((node.data(), filled.clone()))
    }

    /// Starts a broker and waits until it serves everything. Returns the time until the first
    /// partition and until all partitions.
    fn await_all(&self, node: &mut Node) -> Result<(Duration, Duration), LabError> {
        let start = Instant::now();
        node.start(self.bench)?;
        let (mut client, mut first) = (topic::client(node.address())?, None);
        loop {
            let served = topic::served(&mut client, TOPIC, self.partitions)?;
            let took = start.elapsed();
            if served > 0 {
                first.get_or_insert(took);
            }
            if let Some(first) = first.filter(|_| i32::try_from(served) == Ok(self.partitions)) {
                return Ok((first, took));
            }
            if took > LIMIT {
                return Err(node.failed("does not serve all partitions that it had"));
            }
            if Interrupt::asked() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Reads some partitions completely, including the last one.
    fn verify(&self, node: &Node, filled: &Filled) -> Result<Verdict, LabError> {
        let step = usize::try_from(self.partitions / 8).unwrap_or(1).max(1);
        let mut what = String::new();
        for partition in (0..self.partitions).rev().step_by(step) {
            let verdict = topic::verify(node.address(), &of(filled, partition), 0, 8 << 20)?;
            if !verdict.sound {
                return Ok(Verdict {
                    sound: false,
                    what: format!("partition {partition}: {}", verdict.what),
                });
            }
            what = verdict.what;
        }
        Ok(Verdict { sound: true, what: format!("every {step}th partition is whole: {what}") })
    }
}

impl Experiment for Recovery<'_> {
    fn name(&self) -> &'static str {
        "broker-recovery"
    }

    fn shows(&self) -> String {
        format!(
            "time of a killed broker from its launch until it serves its first partition, and all {}, of {} MB; the files are on \
             the device and out of the page cache before; each system recovers a copy of one directory (a killed Kafka waits for the end of its own session, 9 s, whatever its logs hold)",
            self.partitions,
            self.bytes / 1_000_000
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("first_s", "first partition", "s"),
            Metric::less("all_s", "all partitions", "s"),
            Metric::less("resident_mb", "memory", "MB"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let of = |system: System| Case::new("", system.label()).with("partitions", self.partitions);
        self.systems.all().into_iter().map(|system| of(system).with("bytes", self.bytes)).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let system = self.systems.all().into_iter().find(|system| system.label() == case.name);
        let Some(system) = system else { return Ok(Outcome::Skipped("no such broker".to_owned())) };
        let (left, filled) = self.left()?;
        let mut node = Node::new(self.bench, &self.systems, system)?.anywhere();
        if system == System::Kafka {
            node = node.with(SESSION.0, SESSION.1);
        }
        copy(&left, &node.data())?;
        for partition in 0..self.partitions {
            topic::evict(&node, &of(&filled, partition).place)?;
        }
        node.prepare()?;
        let (first, all) = self.await_all(&mut node)?;
        let resident = process::resident_bytes(node.pid());
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.verify(&node, &filled)?));
        }
        node.kill()?;
        Ok(Outcome::Measured(Metrics::from([
            ("first_s".to_owned(), first.as_secs_f64()),
            ("all_s".to_owned(), all.as_secs_f64()),
            ("resident_mb".to_owned(), resident as f64 / 1e6),
        ])))
    }
}

/// Returns `filled` for another partition, because all partitions have the same contents.
fn of(filled: &Filled, partition: i32) -> Filled {
    Filled { place: TopicPartition { partition, ..filled.place.clone() }, ..filled.clone() }
}

/// Copies a directory without its lock. The copy shares blocks if the file system supports that.
fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto", "--"]).arg(from).arg(to).stdin(Stdio::null());
    let done = command.output().map_err(LabError::step("cannot run cp"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(LabError::Step {
            what: format!("cannot copy {}", from.display()),
            cause: std::io::Error::other(said),
        });
    }
    let lock = to.join(".lock");
    fs::remove_file(&lock).map_err(LabError::file("cannot remove", &lock))
}
