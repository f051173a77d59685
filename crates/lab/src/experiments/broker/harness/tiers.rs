//! Brokers with a remote store in a directory: Levada with its own implementation, and Kafka with
//! `LocalTieredStorage`, a class of its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use levada_client::{EARLIEST_LOCAL, LATEST_TIERED};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::machine::interrupt::Interrupt;

/// Reason why Kafka's cases are skipped.
pub(crate) const NO_STORE: &str =
    "Kafka's LocalTieredStorage is in jars of its tests: name their directory with --tiers-libs";

const BATCH_LEN: usize = 64 << 10;

/// Settings of both systems. Work with the store begins soon. A fetch waits for the store instead
/// of returning an empty response.
const SETTINGS: [(&str, &str); 8] = [
    ("remote.log.storage.system.enable", "true"),
    ("remote.log.manager.task.interval.ms", "200"),
    ("remote.fetch.max.wait.ms", "30000"),
    ("log.retention.check.interval.ms", "200"),
    ("log.initial.task.delay.ms", "200"),
    ("rlmm.config.remote.log.metadata.topic.num.partitions", "1"),
    ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
    ("rlmm.config.remote.log.metadata.topic.min.isr", "1"),
];

/// Size of Levada's cache: more than all remote records of an experiment.
const CACHE_BYTES: &str = "8589934592";

/// Limit for the time of copies and deletions.
const LIMIT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes of a segment, and of all closed segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) segment_bytes: u64,
    pub(crate) bytes: u64,
}

impl Sizes {
    pub(crate) fn of(bench: &Bench) -> Self {
        let (segment_bytes, bytes) = bench.scale().choose(
            (1 << 20, 3 << 20),
            (16 << 20, 64 << 20),
            (64 << 20, 512 << 20),
            (256 << 20, 2 << 30),
        );
        Self { segment_bytes, bytes }
    }
}

/// Starts a broker of each system that has a remote store on this machine, if the device has space
/// for the logs, stores and caches.
pub(crate) fn started(bench: &Bench, systems: &Systems, sizes: Sizes) -> Result<Vec<Node>, LabError> {
    bench.reserve(3 * sizes.bytes * systems.all().len() as u64)?;
    let start = |system| {
        let node = Node::new(bench, systems, system)?;
        let store = node.store();
        fs::create_dir(&store).map_err(LabError::file("cannot make", &store))?;
        let own = match system {
            System::Levada => levada(&store),
            System::Kafka => kafka(&store, systems),
        };
        let node = SETTINGS.iter().fold(node, |node, (key, value)| node.with(key, value));
        let mut node = own.iter().fold(node, |node, (key, value)| node.with(key, value));
        node.start(bench)?;
        Ok(node)
    };
    let has_store = |system: &System| *system == System::Levada || systems.tiers_libs.is_some();
    systems.all().into_iter().filter(has_store).map(start).collect()
}

fn levada(store: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("levada.remote.store", format!("file://{}", store.display())),
        ("levada.remote.cache.bytes", CACHE_BYTES.to_owned()),
    ]
}

fn kafka(store: &Path, systems: &Systems) -> Vec<(&'static str, String)> {
    const CLASS: &str = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage";
    let jars = systems.tiers_libs.as_deref().map(|libs| libs.join("*")).unwrap_or_default();
    vec![
        ("remote.log.storage.manager.class.name", CLASS.to_owned()),
        ("remote.log.storage.manager.class.path", jars.display().to_string()),
        ("remote.log.metadata.manager.listener.name", "PLAINTEXT".to_owned()),
        ("rsm.config.dir", store.display().to_string()),
    ]
}

/// Fills a new topic. Returns the batches of its closed segments.
pub(crate) fn fill(
    node: &Node,
    name: &str,
    sizes: Sizes,
    config: &[(&str, &str)],
) -> Result<Filled, LabError> {
    let segment_bytes = sizes.segment_bytes.to_string();
    let own = [("segment.bytes", segment_bytes.as_str()), ("file.delete.delay.ms", "1000")];
    topic::create(node, name, 1, &[&own[..], config].concat())?;
    let place = TopicPartition { topic: name.to_owned(), partition: 0 };
    let filled = topic::fill(node, place, BATCH_LEN, sizes.bytes + sizes.segment_bytes / 8)?;
    // The active segment's file name contains its first offset.
    let active = topic::segments(node, &filled.place)?.pop().unwrap_or_default();
    let base = active.file_stem().and_then(|stem| stem.to_str()?.parse::<usize>().ok());
    let base = base.ok_or_else(|| node.failed("has no segment of a topic that it has filled"))?;
    Ok(Filled { batches: base / filled.records, ..filled })
}

/// Fills a new topic, and waits until only the store contains its closed segments. Returns their
/// batches.
pub(crate) fn fill_store(node: &Node, name: &str, sizes: Sizes) -> Result<Filled, LabError> {
    let config = [("remote.storage.enable", "true"), ("local.retention.bytes", "1")];
    let filled = fill(node, name, sizes, &config)?;
    await_offset(node, &filled, EARLIEST_LOCAL, filled.offset(filled.batches))?;
    Ok(filled)
}

/// Waits until the store contains all closed segments.
pub(crate) fn await_copied(node: &Node, filled: &Filled) -> Result<(), LabError> {
    let last = filled.offset(filled.batches) - 1;
    await_offset(node, filled, LATEST_TIERED, last)
}

fn await_offset(node: &Node, filled: &Filled, timestamp: i64, wanted: i64) -> Result<(), LabError> {
    let mut client = topic::client(node.address())?;
    await_true(node, "does not copy closed segments to its store", || {
        Ok(topic::offset(&mut client, &filled.place, timestamp)? == Some(wanted))
    })
}

/// Deletes a topic and waits until the store contains none of its files.
pub(crate) fn delete(node: &Node, filled: &Filled) -> Result<(), LabError> {
    topic::delete(node, &filled.place.topic)?;
    await_true(node, "does not delete the segments of a topic in its store", || {
        Ok(copies(node, &filled.place).is_empty())
    })
}

fn await_true(
    node: &Node,
    failure: &str,
    mut is_true: impl FnMut() -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let start = Instant::now();
    while !is_true()? {
        if Interrupt::asked() {
            return Err(LabError::Interrupted);
        }
        if start.elapsed() > LIMIT {
            return Err(node.failed(failure));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Empties Levada's cache of remote records by a restart on a directory without the cache.
pub(crate) fn empty_cache(bench: &Bench, node: &mut Node, filled: &Filled) -> Result<(), LabError> {
    node.stop()?;
    let cache = node.data().join("remote-log-index-cache");
    fs::remove_dir_all(&cache).map_err(LabError::file("cannot remove", &cache))?;
    node.start(bench)?;
    await_copied(node, filled)
}

/// Files with the records of a topic in a store, oldest first. Both systems begin the name of a
/// file with its first offset, below a directory whose name begins with the topic.
pub(crate) fn copies(node: &Node, place: &TopicPartition) -> Vec<PathBuf> {
    let (mut dirs, mut found) = (vec![node.store()], Vec::new());
    while let Some(dir) = dirs.pop() {
        // A concurrent deletion may have removed the directory after the read of its parent.
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            if path.is_dir() {
                dirs.push(path);
            } else if is_log && path.to_string_lossy().contains(&format!("/{}-", place.topic)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
