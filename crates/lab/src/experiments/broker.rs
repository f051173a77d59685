//! Brokers in turn: Levada and, if the command line names its jars, Apache Kafka. Each broker is a
//! separate process with its own data directory and addresses.
//!
//! Every system has the same client (`harness/connection.rs`). The broker runs on one processor and
//! the client on another. The processor time of a broker is that of its process alone. All systems
//! run during the whole experiment and take turns. The others are idle, and their idle cost is a
//! separate experiment.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::LabError;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::experiments::offer::{Offer, few, fewest};
use crate::harness::bench::Bench;
use crate::harness::process::Paused;
use crate::method::experiment::{Case, Metrics};
use crate::method::limits::Limits;
use crate::record::Metric;

mod append;
mod connections;
mod control;
mod fairness;
mod fan_out;
mod fetch;
mod growth;
pub(crate) mod harness;
mod idle;
mod interference;
mod java;
mod latency;
mod many;
mod memory;
mod parallel;
mod produce;
mod recovery;
mod reheat;
mod remote_copy;
mod remote_replay;
mod replicate;
mod share_acknowledge;
mod share_fetch;
mod share_members;
mod start;
mod tls_fetch;
mod watched;

pub use append::Append;
pub use connections::Connections;
pub use control::Control;
pub use fairness::Fairness;
pub use fan_out::FanOut;
pub use fetch::Fetch;
pub use growth::Growth;
pub use harness::node::System;
pub use idle::Idle;
pub use interference::Interference;
pub use java::Java;
pub use latency::Latency;
pub use many::Many;
pub use memory::Memory;
pub use parallel::Parallel;
pub use produce::Produce;
pub use recovery::Recovery;
pub use reheat::Reheat;
pub use remote_copy::RemoteCopy;
pub use remote_replay::RemoteReplay;
pub use replicate::Replicate;
pub use share_acknowledge::ShareAcknowledge;
pub use share_fetch::ShareFetch;
pub use share_members::ShareMembers;
pub use start::Start;
pub use tls_fetch::TlsFetch;
pub use watched::Watched;

/// Systems that the laboratory can start.
#[derive(Debug, Clone)]
pub struct Systems {
    /// Path of the program with the command `serve`.
    pub levada: PathBuf,
    /// Directory of Kafka's jars.
    pub kafka_libs: Option<PathBuf>,
    /// Directory of the jars of Kafka's tests, which contain a remote store.
    pub tiers_libs: Option<PathBuf>,
}

impl Systems {
    /// Systems on this machine. Kafka is first, because the tables compare each system with the
    /// first.
    pub fn all(&self) -> Vec<System> {
        let kafka = self.kafka_libs.is_some().then_some(System::Kafka);
        kafka.into_iter().chain([System::Levada]).collect()
    }
}

/// All experiments on brokers, in execution order.
pub const OFFERS: [Offer<Systems>; 29] = [
    Offer { name: "start", begin: |bench, systems| Ok(Box::new(Start::new(bench, systems)?)), limits: few },
    Offer { name: "idle", begin: |bench, systems| Ok(Box::new(Idle::new(bench, systems)?)), limits: few },
    Offer {
        name: "produce",
        begin: |bench, systems| Ok(Box::new(Produce::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "fetch",
        begin: |bench, systems| Ok(Box::new(Fetch::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "tls-fetch",
        begin: |bench, systems| Ok(Box::new(TlsFetch::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "append",
        begin: |bench, systems| Ok(Box::new(Append::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "parallel",
        begin: |bench, systems| Ok(Box::new(Parallel::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "latency",
        begin: |bench, systems| Ok(Box::new(Latency::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "many-producers",
        begin: |bench, systems| Ok(Box::new(Many::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "java-producer",
        begin: |bench, systems| Ok(Box::new(Java::new(bench, systems)?)),
        limits: fewest,
    },
    Offer {
        name: "connections",
        begin: |bench, systems| Ok(Box::new(Connections::new(bench, systems)?)),
        limits: fewest,
    },
    Offer {
        name: "memory",
        begin: |bench, systems| Ok(Box::new(Memory::new(bench, systems)?)),
        limits: fewest,
    },
    Offer { name: "growth", begin: |bench, systems| Ok(Box::new(Growth::new(bench, systems)?)), limits: few },
    Offer {
        name: "fairness",
        begin: |bench, systems| Ok(Box::new(Fairness::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "recovery",
        begin: |bench, systems| Ok(Box::new(Recovery::new(bench, systems)?)),
        limits: fewest,
    },
    Offer {
        name: "interference",
        begin: |bench, systems| Ok(Box::new(Interference::new(bench, systems)?)),
        limits: few,
    },
    Offer { name: "reheat", begin: |bench, systems| Ok(Box::new(Reheat::new(bench, systems)?)), limits: few },
    Offer {
        name: "fan-out",
        begin: |bench, systems| Ok(Box::new(FanOut::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "watched",
        begin: |bench, systems| Ok(Box::new(Watched::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "replicate",
        begin: |bench, systems| Ok(Box::new(Replicate::new(bench, systems)?)),
        limits: fewest,
    },
    Offer {
        name: "control",
        begin: |bench, systems| Ok(Box::new(Control::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "share-fetch",
        begin: |bench, systems| Ok(Box::new(ShareFetch::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "share-acknowledge",
        begin: |bench, systems| Ok(Box::new(ShareAcknowledge::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "share-members",
        begin: |bench, systems| Ok(Box::new(ShareMembers::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "telemetry",
        begin: |bench, systems| Ok(Box::new(Watched::telemetry(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "streams-members",
        begin: |bench, systems| Ok(Box::new(Control::streams(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "remote-replay",
        begin: |bench, systems| Ok(Box::new(RemoteReplay::new(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "remote-interference",
        begin: |bench, systems| Ok(Box::new(Interference::remote(bench, systems)?)),
        limits: few,
    },
    Offer {
        name: "remote-copy",
        begin: |bench, systems| Ok(Box::new(RemoteCopy::new(bench, systems)?)),
        limits: few,
    },
];

/// Starts a broker of each system.
fn started(bench: &Bench, systems: &Systems) -> Result<Vec<Node>, LabError> {
    started_with(bench, systems, &[])
}

/// Starts a broker of each system with these settings in addition to the common ones.
fn started_with(
    bench: &Bench,
    systems: &Systems,
    settings: &[(&'static str, &str)],
) -> Result<Vec<Node>, LabError> {
    let start = |system| {
        let node = Node::new(bench, systems, system)?;
        let mut node = settings.iter().fold(node, |node, (key, value)| node.with(key, value));
        node.start(bench)?;
        Ok(node)
    };
    systems.all().into_iter().map(start).collect()
}

/// Time for a resumed broker to catch up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Pauses the brokers of all other systems until the caller drops the returned value.
fn alone<'n>(nodes: impl IntoIterator<Item = &'n Node>, system: System) -> Vec<Paused> {
    let others = nodes.into_iter().filter(|node| node.system() != system);
    let paused: Vec<Paused> = others.map(Node::pause).collect();
    if !paused.is_empty() {
        std::thread::sleep(CATCH_UP);
    }
    paused
}

fn labels(nodes: &[Node]) -> impl Iterator<Item = &'static str> + Clone {
    nodes.iter().map(|node| node.system().label())
}

/// Returns a case for each name and size, in groups by size. The size is the parameter of the case.
fn by_size<'n>(
    sizes: &[(&str, impl ToString)],
    names: impl Iterator<Item = &'n str> + Clone,
    parameter: &str,
) -> Vec<Case> {
    let group = |(label, size): &(&str, _)| {
        let case = |name| Case::new(*label, name).with(parameter, ToString::to_string(size));
        names.clone().map(case).collect::<Vec<Case>>()
    };
    sizes.iter().flat_map(group).collect()
}

/// Description of a topic with one partition and of the batches to write to it.
struct Fill {
    topic: &'static str,
    segment_bytes: u64,
    batch_len: usize,
    bytes: u64,
}

/// Starts a broker of each system and writes the batches to its topic.
fn filled(bench: &Bench, systems: &Systems, fill: Fill) -> Result<Vec<(Node, Filled)>, LabError> {
    bench.reserve(fill.bytes * systems.all().len() as u64)?;
    let filled = |node: Node| {
        topic::create(&node, fill.topic, 1, &[("segment.bytes", &fill.segment_bytes.to_string())])?;
        let place = TopicPartition { topic: fill.topic.to_owned(), partition: 0 };
        let filled = topic::fill(&node, place, fill.batch_len, fill.bytes)?;
        Ok((node, filled))
    };
    started(bench, systems)?.into_iter().map(filled).collect()
}

/// Process id of the broker that the case measures; none for a floor.
fn worker<'n>(nodes: impl IntoIterator<Item = &'n Node>, case: &Case) -> Option<u32> {
    nodes.into_iter().find(|node| node.system().label() == case.name).map(Node::pid)
}

/// Metrics of experiments that move record bytes: processor time per GB and rate.
fn moving() -> Vec<Metric> {
    vec![Metric::less("cpu_s_per_gb", "broker CPU", "s/GB"), Metric::more("gb_per_s", "rate", "GB/s")]
}

/// Metrics of [`moving`] for a number of record bytes.
fn moved(bytes: u64, cpu: Duration, wall: Duration) -> Metrics {
    let gb = bytes as f64 / 1e9;
    Metrics::from([
        ("cpu_s_per_gb".to_owned(), cpu.as_secs_f64() / gb.max(f64::MIN_POSITIVE)),
        ("gb_per_s".to_owned(), gb / wall.as_secs_f64().max(f64::MIN_POSITIVE)),
    ])
}
