//! Cost of records that a member of a share group acquires and acknowledges, either one by one or
//! all records of a fetch in one request.

use std::time::Instant;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::share::{self, Acquired, FetchLimits, Member};
use crate::experiments::broker::harness::topic;
use crate::experiments::broker::share_fetch::TRACKED;
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const TOPIC: &str = "share-acknowledge";
const RECORD_LEN: usize = 1024;
const BATCH_LEN: usize = 16 << 10;

/// Limits of a fetch. The number of records is that of one poll of Kafka's consumer.
const LIMITS: FetchLimits = FetchLimits { max_bytes: 50 << 20, max_records: 500, max_wait_ms: 500 };

const ONE_BY_ONE: &str = "one by one";
const TOGETHER: &str = "all of a fetch";

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct ShareAcknowledge<'b> {
    bench: &'b Bench,
    nodes: Vec<Node>,
    /// Number of groups so far; each run creates a new one.
    groups: usize,
}

impl<'b> ShareAcknowledge<'b> {
    /// Starts the brokers and fills a topic.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let nodes = super::started_with(bench, systems, &share::SETTINGS)?;
        // Reserve more records than a run needs, because a fetch acquires whole batches.
        let bytes = (2 * records(bench, TOGETHER) + 4_000) * RECORD_LEN as u64;
        bench.reserve(bytes * nodes.len() as u64)?;
        for node in &nodes {
            topic::create(node, TOPIC, 1, &[])?;
            let place = TopicPartition { topic: TOPIC.to_owned(), partition: 0 };
            topic::fill_with(node, place, (BATCH_LEN, RECORD_LEN), bytes)?;
        }
        Ok(Self { bench, nodes, groups: 0 })
    }

    /// Returns the number of records that were acquired and acknowledged, and their metrics.
    fn once(&mut self, case: &Case) -> Result<Option<(u64, Metrics)>, LabError> {
        self.groups += 1;
        let Some(node) = self.nodes.iter().find(|node| node.system().label() == case.name) else {
            return Ok(None);
        };
        let _pinned = self.bench.places().pin_receiver();
        let mut members = share::join(node, &format!("share-acknowledge-{}", self.groups), TOPIC, 1)?;
        let mut member = members.remove(0);
        // Fetch until the session is open and the state of the group is loaded.
        while member.held.is_empty() {
            member.fetch(FetchLimits { max_records: 1, ..LIMITS })?;
        }
        let mut metrics = Metrics::new();
        if case.group == ONE_BY_ONE
            && let Some(bytes) = tracked_alone(self.bench, (node, &mut member))?
        {
            metrics.insert("bytes_per_record".to_owned(), bytes);
        }
        member.settle()?;
        let (before, start, mut count) = (Spent::of(node.pid()), Instant::now(), 0);
        while count < records(self.bench, &case.group) {
            member.fetch(LIMITS)?;
            count += if case.group == ONE_BY_ONE { each(&mut member)? } else { together(&mut member)? };
        }
        let (spent, wall) = (Spent::since(node.pid(), &before), start.elapsed());
        member.leave()?;
        metrics.insert("cpu_us_per_record".to_owned(), spent.as_secs_f64() * 1e6 / count as f64);
        metrics.insert("records_per_s".to_owned(), count as f64 / wall.as_secs_f64());
        Ok(Some((count, metrics)))
    }
}

/// Number of records in a run.
fn records(bench: &Bench, group: &str) -> u64 {
    match group {
        ONE_BY_ONE => bench.scale().choose(20, 500, 2_000, 5_000),
        _ => bench.scale().choose(500, 10_000, 50_000, 100_000),
    }
}

/// Acknowledges each record in a separate request. Returns the number of records.
fn each(member: &mut Member) -> Result<u64, LabError> {
    let held = std::mem::take(&mut member.held);
    let mut count = 0;
    for (partition, offsets) in held {
        for offset in offsets {
            member.acknowledge(&(partition, offset..=offset))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Acknowledges all records of a fetch in one request. Returns the number of records.
fn together(member: &mut Member) -> Result<u64, LabError> {
    let range = |held: &[Acquired]| Some((held.first()?.0, *held.first()?.1.start()..=*held.last()?.1.end()));
    let Some(all) = range(&std::mem::take(&mut member.held)) else { return Ok(0) };
    member.acknowledge(&all)?;
    Ok((all.1.end() - all.1.start() + 1).unsigned_abs())
}

/// Returns the memory in bytes per record that a broker counts if it must track records one by one,
/// because every second record of a fetch is acknowledged. None if the broker does not report this
/// memory. Acknowledges the other records afterwards.
fn tracked_alone(bench: &Bench, (node, member): (&Node, &mut Member)) -> Result<Option<f64>, LabError> {
    let Some(before) = Scrape::of(node.http())?.sum(TRACKED) else { return Ok(None) };
    member.settle()?;
    let max_records = bench.scale().choose(20, 500, 500, 500);
    member.fetch(FetchLimits { max_records, ..LIMITS })?;
    let held = std::mem::take(&mut member.held);
    let offsets =
        || held.iter().flat_map(|(partition, offsets)| offsets.clone().map(|offset| (*partition, offset)));
    let alone = |(partition, offset): (i32, i64)| (partition, offset..=offset);
    // The first record remains unacknowledged, so that the start offset of the group does not move.
    offsets().skip(1).step_by(2).try_for_each(|at| member.acknowledge(&alone(at)))?;
    let after = Scrape::of(node.http())?.sum(TRACKED).unwrap_or_default();
    offsets().step_by(2).try_for_each(|at| member.acknowledge(&alone(at)))?;
    Ok(Some((after - before) / offsets().count().max(1) as f64))
}

impl Experiment for ShareAcknowledge<'_> {
    fn name(&self) -> &'static str {
        "broker-share-acknowledge"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for each record of {RECORD_LEN} bytes that a member of a share group acquires, up to {} at a time, and \
             acknowledges: each with a request of its own, or all of a fetch with one request; memory for each record in flight",
            LIMITS.max_records
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_us_per_record", "broker CPU a record", "µs"),
            Metric::more("records_per_s", "records", "/s"),
            Metric::less("bytes_per_record", "memory a record", "bytes"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let groups = [ONE_BY_ONE, TOGETHER].into_iter();
        groups.flat_map(|group| super::labels(&self.nodes).map(move |name| Case::new(group, name))).collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.nodes, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((count, metrics)) = self.once(case)? else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        if pass == Pass::Integrity {
            let what = format!("{count} records acquired and acknowledged");
            return Ok(Outcome::Checked(Verdict { sound: count >= records(self.bench, &case.group), what }));
        }
        Ok(Outcome::Measured(metrics))
    }
}
