//! Cost of copying closed segments to a remote store in a directory. The *floor* is a copy of a
//! file of the same length by this process. It copies inside the kernel if possible, and syncs each
//! copy, as Levada does. Kafka's `LocalTieredStorage` does not sync.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::time::Instant;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::config;
use crate::experiments::broker::harness::floor;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::tiers::{self, Sizes};
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::payload;
use crate::harness::process::Spent;
use crate::machine::cpu;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct RemoteCopy<'b> {
    bench: &'b Bench,
    systems: Vec<System>,
    sizes: Sizes,
    nodes: Vec<Node>,
    /// File that the floor copies, with its length in bytes and its checksum.
    source: (File, (u64, u64)),
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> RemoteCopy<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let sizes = Sizes::of(bench);
        let (source, sum) = bench.filled_file(sizes.bytes)?;
        let nodes = tiers::started(bench, systems, sizes)?;
        let source = (source, (sizes.bytes, sum));
        Ok(Self { bench, systems: systems.all(), sizes, nodes, source, topics: 0 })
    }

    /// Measures a broker that copies the closed segments of a new topic.
    fn tier(&self, node: &Node, pass: Pass) -> Result<Outcome, LabError> {
        let topic = format!("remote-copy-{:04}", self.topics);
        let filled = tiers::fill(node, &topic, self.sizes, &[])?;
        let mut segments = topic::sync(node, &filled.place)?;
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        config::alter(node, (config::TOPIC, &topic), &[("remote.storage.enable", Some("true"))])?;
        tiers::await_copied(node, &filled)?;
        // Levada copies each segment on a separate thread, which may have ended.
        let (spent, wall) = (Spent::whole_since(node.pid(), &before), start.elapsed());
        let outcome = if pass == Pass::Integrity {
            // The last segment is not closed.
            segments.pop();
            let open = |path: PathBuf| File::open(&path).map_err(LabError::file("cannot open", &path));
            let copies = tiers::copies(node, &filled.place).into_iter().map(open);
            let copies = copies.collect::<Result<Vec<_>, LabError>>()?;
            Outcome::Checked(Verdict::of_bytes(sum(&segments)?, sum(&copies)?))
        } else {
            Outcome::Measured(super::moved(filled.bytes(), spent, wall))
        };
        tiers::delete(node, &filled)?;
        Ok(outcome)
    }

    /// Copies the floor's file into files of a segment's length.
    fn floor(&self, pass: Pass) -> Result<Outcome, LabError> {
        let (source, expected) = &self.source;
        rewind(source)?;
        let pinned = self.bench.places().pin_sender();
        let (before, start) = (cpu::of_this_thread(), Instant::now());
        let (mut copies, mut bytes) = (Vec::new(), 0);
        while bytes < expected.0 {
            let copy = self.bench.file()?;
            let copied = io::copy(&mut source.take(self.sizes.segment_bytes), &mut &copy);
            bytes += copied
                .and_then(|count| copy.sync_all().map(|()| count))
                .map_err(LabError::step("cannot copy a file"))?;
            copies.push(copy);
        }
        let (spent, wall) = (cpu::of_this_thread().saturating_sub(before), start.elapsed());
        drop(pinned);
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(Verdict::of_bytes(*expected, sum(&copies)?)));
        }
        Ok(Outcome::Measured(super::moved(bytes, spent, wall)))
    }
}

fn rewind(mut file: &File) -> Result<(), LabError> {
    file.rewind().map_err(LabError::step("cannot read a file from its start"))
}

/// Total length and checksum of files in this order.
fn sum(files: &[File]) -> Result<(u64, u64), LabError> {
    let (mut digest, mut block, mut count) = (payload::digest(), vec![0; 1 << 20], 0);
    for mut file in files {
        rewind(file)?;
        loop {
            match file.read(&mut block).map_err(LabError::step("cannot read a copy"))? {
                0 => break,
                got => {
                    digest.update(&block[..got]);
                    count += got as u64;
                }
            }
        }
    }
    Ok((count, digest.finalize()))
}

impl Experiment for RemoteCopy<'_> {
    fn name(&self) -> &'static str {
        "broker-remote-copy"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for copying {} MiB of closed segments of {} MiB to its remote store, a directory, from the time at which a topic \
             gets remote storage; the floor copies a file of this length, and syncs each part. Levada syncs its copies, Kafka's \
             LocalTieredStorage does not. The rate includes up to two intervals of 200 ms in which a broker finds no work",
            self.sizes.bytes >> 20,
            self.sizes.segment_bytes >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        super::moving()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.systems.iter().map(|system| system.label()).chain([floor::LABEL]);
        names.map(|name| Case::new("", name).with("bytes", self.sizes.bytes)).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        if case.name == floor::LABEL {
            return self.floor(pass);
        }
        self.topics += 1;
        match self.nodes.iter().find(|node| node.system().label() == case.name) {
            Some(node) => self.tier(node, pass),
            None => Ok(Outcome::Skipped(tiers::NO_STORE.to_owned())),
        }
    }
}
