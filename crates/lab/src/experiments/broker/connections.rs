//! Memory cost of idle connections, without the kernel's own memory for sockets.

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic;
use crate::experiments::idle_connections;
use crate::harness::bench::Bench;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::Metric;

const TOPIC: &str = "connections";

/// The experiment, which starts a new broker for each run.
#[derive(Debug)]
pub struct Connections<'b> {
    bench: &'b Bench,
    systems: Systems,
    count: usize,
}

impl<'b> Connections<'b> {
    /// Creates the experiment without a broker: each run starts a new one, because a process does
    /// not return used memory to the system.
    ///
    /// # Errors
    /// This process may not open the necessary number of descriptors.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let count = bench.scale().choose(50, 1_000, 5_000, 5_000);
        allow_descriptors(count as u64 + 200)?;
        Ok(Connections { bench, systems: systems.clone(), count })
    }
}

/// Opens a connection and waits for the response to one fetch.
pub(super) fn answered(node: &Node, place: &TopicPartition) -> Result<Connection, LabError> {
    let mut connection = Connection::open(node.address())?;
    connection.send(&frames::fetch(place, Wanted { offset: 0, max_bytes: 1 << 20, max_wait_ms: 0 })?)?;
    frames::fetched(connection.receive(4)?, place)?;
    Ok(connection)
}

impl Experiment for Connections<'_> {
    fn name(&self) -> &'static str {
        "broker-connections"
    }

    fn shows(&self) -> String {
        format!(
            "memory that a broker needs for each of {} connections that have fetched once and are idle",
            self.count
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        idle_connections::metrics()
    }

    fn cases(&self) -> Vec<Case> {
        self.systems
            .all()
            .iter()
            .map(|system| Case::new("", system.label()).with("connections", self.count))
            .collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let of = |system: &System| system.label() == case.name;
        let Some(system) = self.systems.all().into_iter().find(of) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let mut node = Node::new(self.bench, &self.systems, system)?;
        node.start(self.bench)?;
        topic::create(&node, TOPIC, 1, &[])?;
        let place = TopicPartition { topic: TOPIC.to_owned(), partition: 0 };
        let open = || answered(&node, &place);
        idle_connections::run(node.pid(), (self.count, pass), open, |connection| {
            connection.send(&frames::fetch(&place, Wanted { offset: 0, max_bytes: 1, max_wait_ms: 0 })?)?;
            frames::fetched(connection.receive(4)?, &place).map(drop)
        })
    }
}
