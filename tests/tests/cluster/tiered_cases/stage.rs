//! The cluster of the cases, its store, and the files of both.

use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::cluster::{CONTROLLER, KAFKA, Tools};
use levada_tests::raw::{self, Connection, FetchRequest, Fetched};
use levada_tests::{Cluster, await_some, replicas, tiers};
use tempfile::TempDir;

use super::steps::LIMIT;

/// Length of a topic id as text, in characters.
const ID_CHARS: usize = 22;
/// Files that a broker has on its disk about the state of its logs.
const CHECKPOINTS: [&str; 3] =
    ["replication-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"];

/// The cluster of the cases and its store.
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) tools: Tools,
    store: TempDir,
}

impl Stage {
    /// A running cluster whose brokers have two data directories each, with further keys of Kafka's
    /// broker. None, which is reported, if this machine cannot run it.
    pub(super) fn start(kafkas: &[(&str, &str)]) -> Option<Self> {
        let store = tempfile::tempdir().expect("a directory");
        let mut cluster = tiers::of_both_kinds(store.path(), "3")?;
        for (key, value) in kafkas {
            cluster = cluster.option(KAFKA, key, value);
        }
        // On a loaded machine, no broker loses its partitions in the middle of a step. A broker
        // that starts again waits for the end of this session.
        let cluster = cluster.option(CONTROLLER, "broker.session.timeout.ms", "20000").widened();
        // A Java broker that starts repeats both.
        let mut cluster = cluster
            .may_log(["Encountered error while querying or creating __remote_log_metadata topic", ""])
            .may_log(["RemoteLogReader: Error occurred", "invalid state, initialized: false close: false"]);
        cluster.start();
        let tools = cluster.tools_of_any();
        Some(Self { cluster, tools, store })
    }

    /// Starts the brokers that a failed case has left stopped.
    pub(super) fn start_all(&mut self) {
        for id in self.cluster.brokers() {
            if !self.cluster.node(id).is_running() {
                self.cluster.node_mut(id).start();
            }
        }
    }

    /// Directory of a replica; none if the broker has none.
    pub(super) fn replica(&self, broker: i32, (topic, index): (&str, i32)) -> Option<PathBuf> {
        let dirs = self.cluster.dirs(broker).map(|dir| dir.join(format!("{topic}-{index}")));
        dirs.into_iter().find(|dir| dir.exists())
    }

    /// The data directory of a broker that does not have the replica.
    pub(super) fn other_dir(&self, broker: i32, partition: (&str, i32)) -> PathBuf {
        let place = self.replica(broker, partition).expect("the broker has a replica");
        let own = place.parent().expect("a data directory").to_owned();
        let other = self.cluster.dirs(broker).into_iter().find(|dir| *dir != own);
        other.expect("two data directories")
    }

    /// Removes the checkpoints of a stopped broker, and the mark of a clean shutdown.
    pub(super) fn lose_checkpoints(&self, broker: i32) {
        for dir in self.cluster.dirs(broker) {
            for name in CHECKPOINTS {
                fs::remove_file(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    /// Waits until the first segment of a replica on its disk has an offset, or begins with it.
    /// Followers roll segments at other offsets than their leader.
    pub(super) fn await_first(&self, broker: i32, partition: (&str, i32), offset: i64) {
        let mut last = None;
        let what = format!("offset {offset} of {partition:?} in the first segment at {broker}");
        await_some(&what, LIMIT, || {
            let place = self.replica(broker, partition)?;
            let first = replicas::segments(&place).into_iter().next()?;
            let base = first.file_stem()?.to_str()?.parse::<i64>().ok()?;
            if last.replace(base) != Some(base) {
                println!("{partition:?}: {broker} begins with {base}");
            }
            let has = |batch: &replicas::Batch| (batch.base..=batch.last).contains(&offset);
            (base == offset || batches_of(&first).iter().any(has)).then_some(())
        });
    }

    /// Segments of a partition in the store, by first offset.
    pub(super) fn stored(&self, (topic, index): (&str, i32)) -> Vec<(i64, PathBuf)> {
        let dirs = entries(&self.store.path().join("kafka-tiered-storage"));
        let beginning = format!("{topic}-{index}-");
        let own = dirs.into_iter().filter(|dir| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(&beginning).is_some_and(|id| id.len() == ID_CHARS)
        });
        let files = own.flat_map(|dir| entries(&dir));
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
        let with_base = logs.filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let base = name.split_once('-')?.0.parse().ok()?;
            Some((base, path))
        });
        let mut found: Vec<(i64, PathBuf)> = with_base.collect();
        found.sort();
        found
    }

    /// Answer of a broker to a fetch.
    pub(super) fn fetch(&self, broker: i32, request: &FetchRequest<'_>) -> Fetched {
        let mut connection = Connection::open(self.cluster.node(broker).address());
        raw::fetched(&connection.call(&request.encode()))
    }

    /// The batches of a partition from an offset to an end, as a broker sends them, and the aborted
    /// transactions that it names.
    pub(super) fn replay(
        &self,
        broker: i32,
        mut request: FetchRequest<'_>,
        end: i64,
    ) -> (Vec<replicas::Batch>, Vec<(i64, i64)>) {
        let (mut all, mut aborted, mut last) = (Vec::new(), Vec::new(), None);
        while request.offset < end {
            let what = format!("records of {:?} at {} from {broker}", request.partition, request.offset);
            let found = await_some(&what, LIMIT, || {
                let fetched = self.fetch(broker, &request);
                let batches = replicas::parse(&fetched.records);
                if batches.is_empty() {
                    let answer = (fetched.error, fetched.log_start, fetched.high_watermark);
                    if last.replace(answer) != Some(answer) {
                        println!("{what}: error, log start and high watermark {answer:?}");
                    }
                    return None;
                }
                Some((batches, fetched.aborted))
            });
            request.offset = found.0.last().expect("batches").last + 1;
            all.extend(found.0);
            aborted.extend(found.1);
        }
        aborted.sort_unstable();
        aborted.dedup();
        (all, aborted)
    }
}

/// Batches of a segment that may be removed meanwhile.
pub(super) fn batches_of(path: &Path) -> Vec<replicas::Batch> {
    replicas::parse(&fs::read(path).unwrap_or_default())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
