//! Cost of requests with no records or few: metadata, offsets, groups, transactions, topics. One
//! connection sends one request at a time. A bare loop answers the shortest request in the same
//! way: its cost is the share of the machine, which no broker can avoid. The heartbeats of streams
//! groups are a separate experiment.

use std::time::{Duration, Instant};

use self::floor::Floor;
use self::operations::{OPERATIONS, Operation, SHORTEST, STREAMS, Work};
use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::floor::LABEL;
use crate::experiments::broker::harness::node::Node;
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::harness::program::allow_descriptors;
use crate::machine::interrupt::Interrupt;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod floor;
mod operations;
mod streams;
mod transaction;

/// Settings with which members of streams groups remain during long rounds of other operations and
/// get their tasks immediately. The size of a group has no limit by default.
const STREAMS_SETTINGS: [(&str, &str); 4] = [
    ("group.streams.max.session.timeout.ms", "3600000"),
    ("group.streams.session.timeout.ms", "3600000"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
];

/// Limit for the time in which the coordinators of a broker load their state.
const LIMIT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(20);

/// The experiment, with its brokers.
pub struct Control<'b> {
    bench: &'b Bench,
    name: &'static str,
    shows: &'static str,
    /// Brokers, each with its operations by name.
    subjects: Vec<(Node, Vec<(String, Work)>)>,
    /// Bare loop for the shortest operation; none if the experiment does not measure that
    /// operation.
    floor: Option<Floor>,
}

impl<'b> Control<'b> {
    /// Starts the brokers and creates topics and groups for each operation.
    ///
    /// # Errors
    /// A broker does not start or refuses a request.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let shows = "cost of a broker for one operation: requests that move no records, or few, from one connection with one request at a time";
        Self::of(bench, super::started(bench, systems)?, &OPERATIONS, ("broker-control", shows))
    }

    /// Starts the brokers and lets the members of streams groups join.
    ///
    /// # Errors
    /// As [`Control::new`], or this process may not open a connection for each member.
    pub fn streams(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let members: usize = STREAMS.iter().map(|operation| operation.count).sum();
        allow_descriptors((members * systems.all().len()) as u64 + 200)?;
        let shows = "cost of a broker for one heartbeat of a member of a streams group (KIP-1071) that has its task and keeps it: the members of a \
             group read one topic, each has a connection, and they take turns";
        let nodes = super::started_with(bench, systems, &STREAMS_SETTINGS)?;
        Self::of(bench, nodes, &STREAMS, ("broker-streams-members", shows))
    }

    /// Prepares the operations on each broker.
    fn of(
        bench: &'b Bench,
        nodes: Vec<Node>,
        operations: &[Operation],
        (name, shows): (&'static str, &'static str),
    ) -> Result<Self, LabError> {
        let begin = |node: Node| {
            let begun = |operation: &Operation| {
                let count =
                    bench.scale().choose(operation.few, operation.count, operation.count, operation.count);
                let mut work = (operation.begin)(&node, count)?;
                served(&node, &mut work)?;
                Ok((operation.name.replace('#', &count.to_string()), work))
            };
            let works = operations.iter().map(begun).collect::<Result<Vec<_>, LabError>>()?;
            Ok((node, works))
        };
        let subjects = nodes.into_iter().map(begin).collect::<Result<Vec<_>, LabError>>()?;
        let has_shortest = operations.iter().any(|operation| operation.name == SHORTEST);
        // Every list of systems has at least one element.
        let floor = has_shortest.then(|| Floor::of(&subjects[0].0, operations::shortest()?)).transpose()?;
        Ok(Self { bench, name, shows, subjects, floor })
    }
}

/// Repeats an operation until it succeeds, because coordinators load their partitions first.
fn served(node: &Node, work: &mut Work) -> Result<(), LabError> {
    let start = Instant::now();
    while let Err(error) = work(Pass::Integrity) {
        if Interrupt::asked() {
            return Err(LabError::Interrupted);
        }
        if start.elapsed() > LIMIT {
            return Err(node.failed(&error.to_string()));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Metrics of `count` operations.
fn metrics(spent: Duration, wall: Duration, count: u32) -> Metrics {
    Metrics::from([
        ("cpu_us_per_operation".to_owned(), spent.as_secs_f64() * 1e6 / f64::from(count)),
        ("operations_per_s".to_owned(), f64::from(count) / wall.as_secs_f64()),
    ])
}

impl Experiment for Control<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shows(&self) -> String {
        self.shows.to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_us_per_operation", "broker CPU", "µs"),
            Metric::more("operations_per_s", "operations", "/s"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let groups = self.subjects.first().into_iter().flat_map(|(_, works)| works);
        let cases = |(group, _): &(String, Work)| {
            let case = |(node, _): &(Node, _)| Case::new(group, node.system().label());
            let is_shortest = group == SHORTEST;
            let floor = is_shortest.then(|| Case::new(group, LABEL));
            self.subjects.iter().map(case).chain(floor).collect::<Vec<_>>()
        };
        groups.flat_map(cases).collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(self.subjects.iter().map(|(node, _)| node), case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let scale = self.bench.scale();
        // Kafka's just-in-time compiler needs seconds of each operation. The integrity check runs
        // that long.
        let ms = match pass {
            Pass::Integrity => scale.choose(0, 300, 3_000, 10_000),
            Pass::Timed => scale.choose(0, 50, 300, 1_000),
        };
        let time = Duration::from_millis(ms);
        if let Some(floor) = self.floor.as_ref().filter(|_| case.name == LABEL) {
            let measured = floor.measure(self.bench, time)?;
            let verdict = || Verdict { sound: true, what: "a response to each request".to_owned() };
            return Ok(match pass {
                Pass::Integrity => Outcome::Checked(verdict()),
                Pass::Timed => Outcome::Measured(measured),
            });
        }
        let own = self.subjects.iter_mut().find(|(node, _)| node.system().label() == case.name);
        let found = own.and_then(|(node, works)| {
            Some((node, works.iter_mut().find(|(group, _)| *group == case.group)?))
        });
        let Some((node, (_, work))) = found else {
            return Ok(Outcome::Skipped("no such operation".to_owned()));
        };
        let _pinned = self.bench.places().pin_receiver();
        work(Pass::Integrity)?;
        let (before, start, mut count) = (Spent::of(node.pid()), Instant::now(), 0_u32);
        while count == 0 || start.elapsed() < time {
            work(Pass::Timed)?;
            count += 1;
        }
        let (spent, wall) = (Spent::since(node.pid(), &before), start.elapsed());
        if pass == Pass::Integrity {
            let what = format!("{count} operations, no error in the first answer");
            return Ok(Outcome::Checked(Verdict { sound: true, what }));
        }
        Ok(Outcome::Measured(metrics(spent, wall, count)))
    }
}
