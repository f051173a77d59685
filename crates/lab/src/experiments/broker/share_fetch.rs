//! Cost of share fetches from the page cache: one member of a new group acquires all records of a
//! topic and acknowledges none during the measurement. The case for comparison is plain fetches of
//! the same bytes from Levada.

use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::share::{self, FetchLimits, Member};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const TOPIC: &str = "share-fetch";
const FETCH_BYTES: i32 = 1 << 20;

/// Bytes of a batch, which has one record: a group may have 10 000 records in flight.
const BATCH_LEN: usize = 16 << 10;

/// Name of the case with plain fetches.
const PLAIN: &str = "levada, Fetch";

/// Name of Levada's metric for the memory of records in flight, in bytes.
pub(super) const TRACKED: &str = "levada_share_tracked_bytes";

const LIMITS: FetchLimits = FetchLimits { max_bytes: FETCH_BYTES, max_records: 10_000, max_wait_ms: 500 };

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct ShareFetch<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, Filled)>,
    /// Number of groups so far; each run creates a new one.
    groups: usize,
}

impl<'b> ShareFetch<'b> {
    /// Starts the brokers and fills a topic.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(3 << 20, 50 << 20, 100 << 20, 150 << 20);
        bench.reserve(bytes * systems.all().len() as u64)?;
        let filled = |node: Node| {
            topic::create(&node, TOPIC, 1, &[])?;
            let place = TopicPartition { topic: TOPIC.to_owned(), partition: 0 };
            let filled = topic::fill_with(&node, place, (BATCH_LEN, BATCH_LEN), bytes)?;
            topic::sync(&node, &filled.place)?;
            Ok((node, filled))
        };
        let nodes = super::started_with(bench, systems, &share::SETTINGS)?;
        let subjects = nodes.into_iter().map(filled).collect::<Result<_, LabError>>()?;
        Ok(Self { bench, subjects, groups: 0 })
    }

    /// Returns a member of a new group with an open session, and the number of records that it has
    /// acquired.
    fn member(&self, node: &Node) -> Result<(Member, i64), LabError> {
        let mut members = share::join(node, &format!("share-fetch-{}", self.groups), TOPIC, 1)?;
        let mut member = members.remove(0);
        let mut acquired = 0;
        while acquired == 0 {
            member.fetch(FetchLimits { max_bytes: 1, ..LIMITS })?;
            acquired += taken(&mut member);
        }
        Ok((member, acquired))
    }

    /// Acquires all records. Only a run that checks integrity reads the acquired offsets.
    fn share(&mut self, at: usize, pass: Pass) -> Result<(Metrics, i64), LabError> {
        self.groups += 1;
        let (node, filled) = &self.subjects[at];
        let pinned = self.bench.places().pin_receiver();
        let tracked = Scrape::of(node.http())?;
        let (mut member, first) = self.member(node)?;
        let (mut acquired, records) = (first, filled.offset(filled.batches));
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        while acquired < records {
            let count = match pass {
                Pass::Timed => {
                    let bytes = member.skim(LIMITS, BATCH_LEN)?;
                    filled.offset(bytes / filled.batch_len)
                }
                Pass::Integrity => {
                    member.fetch(LIMITS)?;
                    taken(&mut member)
                }
            };
            if count == 0 {
                return Err(node.failed("does not let a member acquire all records"));
            }
            acquired += count;
        }
        let (spent, wall) = (Spent::since(node.pid(), &before), start.elapsed());
        drop(pinned);
        let mut metrics = super::moved(filled.bytes(), spent, wall);
        if let Some(bytes) = Scrape::of(node.http())?.growth(&tracked, TRACKED) {
            metrics.insert("bytes_per_batch".to_owned(), bytes / filled.batches as f64);
        }
        member.leave()?;
        Ok((metrics, acquired))
    }
}

/// Removes the acquired records from the member and returns their number.
fn taken(member: &mut Member) -> i64 {
    let held = std::mem::take(&mut member.held);
    held.iter().map(|(_, offsets)| offsets.end() - offsets.start() + 1).sum()
}

impl Experiment for ShareFetch<'_> {
    fn name(&self) -> &'static str {
        "broker-share-fetch"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records from the page cache that one member of a share group acquires, {FETCH_BYTES} bytes at a time \
             (batches of one record of {BATCH_LEN} bytes), compared with fetches of the same bytes; memory for each batch in flight"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let tracked = Metric::less("bytes_per_batch", "memory a batch", "bytes");
        super::moving().into_iter().chain([tracked]).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.subjects.iter().map(|(node, _)| node.system().label()).chain([PLAIN]);
        names.map(|name| Case::new("", name).with("fetch_bytes", FETCH_BYTES)).collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(self.subjects.iter().map(|(node, _)| node), case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let name = if case.name == PLAIN { System::Levada.label() } else { &case.name };
        let Some(at) = self.subjects.iter().position(|(node, _)| node.system().label() == name) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.check(at, case.name == PLAIN)?));
        }
        if case.name != PLAIN {
            return Ok(Outcome::Measured(self.share(at, pass)?.0));
        }
        let (node, filled) = &self.subjects[at];
        let _pinned = self.bench.places().pin_receiver();
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        let bytes = replay::once(node, filled, FETCH_BYTES)?;
        let spent: Duration = Spent::since(node.pid(), &before);
        Ok(Outcome::Measured(super::moved(bytes, spent, start.elapsed())))
    }
}

impl ShareFetch<'_> {
    /// Checks that one member acquires each record once.
    fn check(&mut self, at: usize, is_plain: bool) -> Result<Verdict, LabError> {
        let (node, filled) = &self.subjects[at];
        if is_plain {
            return topic::verify(node.address(), filled, 0, FETCH_BYTES);
        }
        let records = filled.offset(filled.batches);
        let (_, acquired) = self.share(at, Pass::Integrity)?;
        Ok(Verdict { sound: acquired == records, what: format!("{acquired} of {records} records acquired") })
    }
}
