//! Cost of old records that only the remote store contains: one consumer reads them from the first
//! to the last. Levada caches these records on its disk, so that only its first replay reads the
//! store.

use std::time::Instant;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::tiers::{self, Sizes};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::{self, Spent};
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

const TOPIC: &str = "remote-replay";

const FETCHES: [(&str, i32); 2] = [("1 MiB", 1 << 20), ("8 MiB", 8 << 20)];

/// Name of Levada's second replay.
const AGAIN: &str = "levada, again";

/// Name of Levada's metric for the bytes that it has read from the store into its cache.
const FETCHED: &str = "levada_remote_cache_fetched_bytes_total";

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct RemoteReplay<'b> {
    bench: &'b Bench,
    systems: Vec<System>,
    sizes: Sizes,
    subjects: Vec<(Node, Filled)>,
}

impl<'b> RemoteReplay<'b> {
    /// Starts the brokers, fills a topic, and waits until only the store contains its closed
    /// segments.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let sizes = Sizes::of(bench);
        let filled = |node: Node| tiers::fill_store(&node, TOPIC, sizes).map(|filled| (node, filled));
        let subjects = tiers::started(bench, systems, sizes)?.into_iter().map(filled);
        let subjects = subjects.collect::<Result<_, LabError>>()?;
        Ok(Self { bench, systems: systems.all(), sizes, subjects })
    }
}

impl Experiment for RemoteReplay<'_> {
    fn name(&self) -> &'static str {
        "broker-remote-replay"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records that only its remote store has, a directory in the page cache: one consumer reads {} MiB in segments \
             of {} MiB. Levada reads them for the first time, after a restart without its cache of remote records, and again; Kafka, with the \
             LocalTieredStorage of its tests, has no such cache",
            self.sizes.bytes >> 20,
            self.sizes.segment_bytes >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let own = [
            Metric::less("store_mb", "read from the store", "MB"),
            Metric::less("growth_mb", "memory growth", "MB"),
        ];
        super::moving().into_iter().chain(own).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.systems.iter().map(|system| system.label()).chain([AGAIN]);
        super::by_size(&FETCHES, names, "fetch_bytes")
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let name = if case.name == AGAIN { System::Levada.label() } else { &case.name };
        let fetch = FETCHES.iter().find(|(label, _)| *label == case.group);
        let subject = self.subjects.iter_mut().find(|(node, _)| node.system().label() == name);
        let Some(((_, max_bytes), (node, filled))) = fetch.zip(subject) else {
            return Ok(Outcome::Skipped(tiers::NO_STORE.to_owned()));
        };
        if case.name == AGAIN {
            replay::once(node, filled, *max_bytes)?;
        } else if node.system() == System::Levada {
            tiers::empty_cache(self.bench, node, filled)?;
        }
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(topic::verify(node.address(), filled, 0, *max_bytes)?));
        }
        let fetched = Scrape::of(node.http())?;
        let pinned = self.bench.places().pin_receiver();
        let resident = process::resident_bytes(node.pid());
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        let bytes = replay::once(node, filled, *max_bytes)?;
        let (spent, wall) = (Spent::since(node.pid(), &before), start.elapsed());
        drop(pinned);
        let mut metrics: Metrics = super::moved(bytes, spent, wall);
        let growth = process::peak_resident_bytes(node.pid()).saturating_sub(resident);
        metrics.insert("growth_mb".to_owned(), growth as f64 / 1e6);
        if let Some(bytes) = Scrape::of(node.http())?.growth(&fetched, FETCHED) {
            metrics.insert("store_mb".to_owned(), bytes / 1e6);
        }
        Ok(Outcome::Measured(metrics))
    }
}
