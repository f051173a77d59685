//! Many small producers: one record a request from many connections, all of which have one request under way.

use std::time::Instant;

use crate::bench::Bench;
use crate::broker::Systems;
use crate::broker::connection::Connection;
use crate::broker::frames::{self, Place};
use crate::broker::node::Node;
use crate::broker::process::Spent;
use crate::broker::topic;
use crate::error::LabError;
use crate::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const TOPIC: &str = "many";
const PARTITIONS: i32 = 8;
const RECORD_LEN: usize = 100;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Many<'b> {
    bench: &'b Bench,
    connections: usize,
    nodes: Vec<Node>,
}

impl<'b> Many<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start or refuses.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Many<'b>, LabError> {
        let nodes = super::started(bench, systems)?;
        for node in &nodes {
            topic::create(node, TOPIC, PARTITIONS, &[])?;
        }
        Ok(Many { bench, connections: bench.scale().choose(10, 200, 200, 200), nodes })
    }

    /// Each connection sends its record, then each takes its answer, and so on; records that were acknowledged.
    fn send(&self, node: &Node, rounds: usize) -> Result<(Vec<i64>, u64), LabError> {
        let places: Vec<_> =
            (0..PARTITIONS).map(|partition| Place { topic: TOPIC.to_owned(), partition }).collect();
        let (batch, _) = frames::batch(RECORD_LEN + 90, RECORD_LEN, 1)?;
        let batch = batch.freeze();
        let open =
            |place| Ok((Connection::open(node.address())?, frames::produce(place, batch.clone(), 1)?, place));
        let mut connections =
            places.iter().cycle().take(self.connections).map(open).collect::<Result<Vec<_>, LabError>>()?;
        let (mut ends, mut records) = (vec![-1; places.len()], 0);
        for _ in 0..rounds {
            for (connection, frame, _) in &mut connections {
                connection.send(frame)?;
            }
            for (connection, _, place) in &mut connections {
                let offset = frames::produced(connection.receive(4)?, place)?;
                let end = &mut ends[place.partition.unsigned_abs() as usize];
                *end = offset.max(*end);
                records += 1;
            }
        }
        Ok((ends, records))
    }
}

impl Experiment for Many<'_> {
    fn name(&self) -> &'static str {
        "broker-many-producers"
    }

    fn shows(&self) -> String {
        format!(
            "what a broker pays for single records of {RECORD_LEN} bytes from {} connections to {PARTITIONS} partitions, one request under \
             way on each, acks=1",
            self.connections
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::more("records_per_cpu_s", "records by broker CPU", "/s"),
            Metric::more("records_per_s", "records", "/s"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        super::labels(&self.nodes)
            .map(|name| Case::new("", name).with("connections", self.connections))
            .collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.nodes, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(node) = self.nodes.iter().find(|node| node.system().label() == case.name) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let rounds = self.bench.scale().choose(5, 30, 100, 300);
        let pinned = self.bench.places().pin_receiver();
        if pass == Pass::Integrity {
            let ends = |node: &Node| {
                let place = |partition| Place { topic: TOPIC.to_owned(), partition };
                (0..PARTITIONS)
                    .map(|partition| topic::end(node, &place(partition)))
                    .collect::<Result<Vec<_>, _>>()
            };
            let before: i64 = ends(node)?.iter().sum();
            let (last, records) = self.send(node, rounds)?;
            let after = ends(node)?;
            let told = last.iter().map(|offset| offset + 1).eq(after.iter().copied());
            let grown = after.iter().sum::<i64>() - before;
            let what = format!("{records} records acknowledged, the logs grew by {grown}");
            return Ok(Outcome::Checked(Verdict {
                sound: told && u64::try_from(grown) == Ok(records),
                what,
            }));
        }
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        let (_, records) = self.send(node, rounds)?;
        let (wall, spent) = (start.elapsed(), Spent::since(node.pid(), &before));
        drop(pinned);
        let rate = |seconds: f64| records as f64 / seconds.max(f64::MIN_POSITIVE);
        Ok(Outcome::Measured(Metrics::from([
            ("records_per_cpu_s".to_owned(), rate(spent.as_secs_f64())),
            ("records_per_s".to_owned(), rate(wall.as_secs_f64())),
        ])))
    }
}
