//! Kafka's producer as a client: ProducerPerformance in a separate process, with each system.

use std::path::Path;
use std::process::Stdio;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::harness::program::bare;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const RECORD_LEN: u64 = 1024;

/// Rate and properties of the producer.
#[derive(Debug, Clone, Copy)]
struct Setting {
    name: &'static str,
    /// Records per second; none for full speed.
    per_second: Option<u64>,
    properties: &'static [&'static str],
}

const SETTINGS: [Setting; 7] = [
    Setting { name: "16 KiB, acks=1", per_second: None, properties: &["acks=1", "batch.size=16384"] },
    Setting { name: "16 KiB, acks=all", per_second: None, properties: &["acks=all", "batch.size=16384"] },
    Setting {
        name: "256 KiB, acks=1",
        per_second: None,
        properties: &["acks=1", "batch.size=262144", "buffer.memory=67108864"],
    },
    Setting {
        name: "256 KiB, acks=all",
        per_second: None,
        properties: &["acks=all", "batch.size=262144", "buffer.memory=67108864"],
    },
    Setting {
        name: "16 KiB, lz4, acks=1",
        per_second: None,
        properties: &["acks=1", "batch.size=16384", "compression.type=lz4"],
    },
    Setting {
        name: "256 KiB, lz4, acks=all",
        per_second: None,
        properties: &["acks=all", "batch.size=262144", "buffer.memory=67108864", "compression.type=lz4"],
    },
    Setting { name: "5000 a second", per_second: Some(5000), properties: &["acks=1", "linger.ms=0"] },
];

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Java<'b> {
    bench: &'b Bench,
    systems: Systems,
    nodes: Vec<Node>,
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> Java<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        Ok(Java { bench, systems: systems.clone(), nodes: super::started(bench, systems)?, topics: 0 })
    }

    /// Runs ProducerPerformance. Returns the summary from its output.
    fn produce(
        &self,
        node: &Node,
        topic: &str,
        setting: &Setting,
        records: u64,
    ) -> Result<PerformanceSummary, LabError> {
        let mut command = bare(Path::new("java"));
        let libs = self.systems.kafka_libs.as_deref().map(|libs| libs.join("*")).unwrap_or_default();
        command.arg("-Xmx512M").arg("-cp").arg(libs).arg("org.apache.kafka.tools.ProducerPerformance");
        let throughput = setting.per_second.map_or_else(|| "-1".to_owned(), |rate| rate.to_string());
        // At a fixed rate the longest latency excludes the first seconds, in which the client's
        // virtual machine compiles the client.
        if setting.per_second.is_some() {
            command.args(["--warmup-records", &(records / 2).to_string()]);
        }
        let (records, len) = (records.to_string(), RECORD_LEN.to_string());
        command.args([
            "--topic",
            topic,
            "--num-records",
            &records,
            "--record-size",
            &len,
            "--throughput",
            &throughput,
        ]);
        command
            .arg("--producer-props")
            .arg(format!("bootstrap.servers={}", node.address()))
            .args(setting.properties);
        let pinned = self.bench.places().pin_receiver();
        let done = command.stdin(Stdio::null()).output().map_err(LabError::step("cannot run java"))?;
        drop(pinned);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let failed = || {
            let cause = std::io::Error::other(format!("{said}{}", String::from_utf8_lossy(&done.stderr)));
            LabError::Step { what: "ProducerPerformance failed".to_owned(), cause }
        };
        if done.status.success() {
            PerformanceSummary::parse(&said).ok_or_else(failed)
        } else {
            Err(failed())
        }
    }
}

/// Figures from the last line of ProducerPerformance, which covers the records after the warm-up,
/// if there was one. The number of records includes the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PerformanceSummary {
    records: u64,
    mb_per_s: f64,
    max_ms: f64,
}

impl PerformanceSummary {
    /// Parses lines such as `100000 records sent, 41736.2 records/sec (40.76 MB/sec), …`.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| line.contains("99.9th"));
        let all = lines.next()?;
        let line = lines.next_back().unwrap_or(all);
        let before = |what: &str| line.split_once(what)?.0.rsplit([' ', '(', ',']).next()?.parse().ok();
        Some(Self {
            records: all.split(' ').next()?.parse().ok()?,
            // The tool prints MiB as MB.
            mb_per_s: before(" MB/sec").map(|mib: f64| mib * 1.048_576)?,
            max_ms: before(" ms max latency")?,
        })
    }
}

impl Experiment for Java<'_> {
    fn name(&self) -> &'static str {
        "broker-java-producer"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records of {RECORD_LEN} bytes from Kafka's own producer (ProducerPerformance, in a separate process)"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_s_per_gb", "broker CPU", "s/GB"),
            Metric::more("mb_per_s", "rate", "MB/s"),
            Metric::less("max_latency_ms", "longest latency", "ms"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let names = super::labels(&self.nodes);
        let of = |setting: &Setting| {
            let properties = setting.properties.join(" ");
            names
                .clone()
                .map(|name| Case::new(setting.name, name).with("properties", &properties))
                .collect::<Vec<_>>()
        };
        SETTINGS.iter().flat_map(of).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        if self.systems.kafka_libs.is_none() {
            return Ok(Outcome::Skipped(
                "the case uses Kafka's client: name the directory of its jars with --kafka-libs".to_owned(),
            ));
        }
        self.topics += 1;
        let name = format!("java-{:04}", self.topics);
        let node = self.nodes.iter().find(|node| node.system().label() == case.name);
        let (Some(node), Some(setting)) = (node, SETTINGS.iter().find(|setting| setting.name == case.group))
        else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        topic::create(node, &name, 1, &[("file.delete.delay.ms", "1000")])?;
        let scale = self.bench.scale();
        let records = match (setting.per_second, pass) {
            (_, Pass::Integrity) => scale.choose(200, 1_000, 10_000, 10_000),
            (Some(rate), _) => rate * scale.choose(1, 4, 10, 20) / scale.choose(20, 1, 1, 1),
            (None, _) => scale.choose(200, 50_000, 200_000, 500_000),
        };
        self.bench.reserve(records * RECORD_LEN)?;
        let before = Spent::of(node.pid());
        let said = self.produce(node, &name, setting, records)?;
        let spent = Spent::since(node.pid(), &before);
        let end = topic::end(node, &TopicPartition { topic: name.clone(), partition: 0 })?;
        topic::delete(node, &name)?;
        if pass == Pass::Integrity {
            let what = format!("{} records sent, the log has {end}", said.records);
            return Ok(Outcome::Checked(Verdict {
                sound: said.records == records && i64::try_from(records) == Ok(end),
                what,
            }));
        }
        let gb = (records * RECORD_LEN) as f64 / 1e9;
        Ok(Outcome::Measured(Metrics::from([
            ("cpu_s_per_gb".to_owned(), spent.as_secs_f64() / gb),
            ("mb_per_s".to_owned(), said.mb_per_s),
            ("max_latency_ms".to_owned(), said.max_ms),
        ])))
    }
}

#[cfg(test)]
mod tests {
    use super::PerformanceSummary;

    #[test]
    fn last_lines_of_producer_performance_are_parsed() {
        let text = "50000 records sent, 9999.6 records/sec (9.77 MB/sec), 0.6 ms avg latency, 10.0 ms max latency.\n\
                    100000 records sent, 41736.2 records/sec (40.76 MB/sec), 482.95 ms avg latency, 738.00 ms max latency, 455 ms 50th, \
                    700 ms 95th, 720 ms 99th, 735 ms 99.9th.\n";
        let said = PerformanceSummary::parse(text).unwrap();
        assert_eq!((said.records, said.max_ms), (100_000, 738.0));
        assert!((said.mb_per_s - 42.74).abs() < 0.01);
        assert_eq!(PerformanceSummary::parse("nothing"), None);
        let warmed = format!(
            "{text}50000 steady state records sent, 4933.4 records/sec (4.82 MB/sec), 1.46 ms avg latency, 41.00 ms max latency, \
             1 ms 50th, 6 ms 95th, 9 ms 99th, 41 ms 99.9th.\n"
        );
        let said = PerformanceSummary::parse(&warmed).unwrap();
        assert_eq!((said.records, said.max_ms), (100_000, 41.0));
    }
}
