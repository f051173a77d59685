//! A broker of Levada with a tiered topic and a remote store, for suites that destroy one of them.
//!
//! Each record has a batch, and each batch a segment of its own. A cluster of both kinds is
//! [`of_both_kinds`].

pub mod ledger;
pub mod load;
mod mixed;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::node::Kind;
use crate::raw::{self, Batch, Connection};
use crate::sick_store::{ACCESS_KEY, BUCKET, SECRET_KEY};
use crate::{Node, Tool, await_some};

pub use self::mixed::{assign, of_both_kinds};

/// Name of the topic.
pub const TOPIC: &str = "clicks";
/// Settings of the topic: only the last segment stays on the broker.
pub const SETTINGS: &str = "-c internal.segment.bytes=700 -c file.delete.delay.ms=0 -c remote.storage.enable=true \
                            -c local.retention.bytes=1 -c retention.ms=-1";
/// Timestamp of ListOffsets for the start of the log.
pub const EARLIEST: i64 = -2;
/// Timestamp of ListOffsets for the end of the log.
pub const LATEST: i64 = -1;
/// Timestamp of ListOffsets for the first record on the broker.
pub const EARLIEST_LOCAL: i64 = -4;
/// Timestamp of ListOffsets for the last record in the store.
pub const LATEST_TIERED: i64 = -5;
/// Timestamp of ListOffsets for the first record that the store does not have.
pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

const LIMIT: Duration = Duration::from_secs(60);

/// A broker, and the options that its commands need too.
pub struct TieredNode {
    /// The broker.
    pub node: Node,
    options: Vec<(String, String)>,
}

impl TieredNode {
    /// A broker that is not started, with a store in a directory; none if the suites run against
    /// Kafka.
    pub fn in_directory(store: &Path, layout: &str) -> Option<Self> {
        let url = format!("file://{}", store.display());
        Self::with(&[("levada.remote.store", &url), ("levada.remote.layout", layout)])
    }

    /// As [`Self::in_directory`], with a store in the bucket of a server at this URL.
    pub fn in_bucket(endpoint: &str) -> Option<Self> {
        let url = format!("s3://{BUCKET}/broker");
        let mut tiered = Self::with(&[
            ("levada.remote.store", &url),
            ("levada.remote.s3.endpoint", endpoint),
            ("levada.remote.s3.region", "eu-west-1"),
        ])?;
        for (name, value) in credentials() {
            tiered.node.variable(name, value);
        }
        Some(tiered)
    }

    fn with(store: &[(&str, &str)]) -> Option<Self> {
        let mut node = Node::new();
        if node.kind() == Kind::Kafka {
            return None;
        }
        let common = [
            ("remote.log.storage.system.enable", "true"),
            ("remote.log.manager.task.interval.ms", "200"),
            ("log.retention.check.interval.ms", "200"),
            ("rlmm.config.remote.log.metadata.topic.num.partitions", "3"),
        ];
        let all = common.iter().chain(store).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let options: Vec<(String, String)> = all.collect();
        for (key, value) in &options {
            node = node.option(key, value);
        }
        Some(Self { node, options })
    }

    /// Sets several data directories.
    #[must_use]
    pub fn with_dirs(self, dirs: &[PathBuf]) -> Self {
        let joined = dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(",");
        self.with_option("log.dirs", &joined)
    }

    /// Adds a setting of the broker.
    #[must_use]
    pub fn with_option(mut self, key: &str, value: &str) -> Self {
        self.node = self.node.option(key, value);
        self.options.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A command `levada storage remote …` with the broker's configuration.
    pub fn storage(&self, words: &str) -> Tool {
        let mut tool = Tool::levada();
        tool.args(["storage", "remote"]);
        for word in words.split(' ') {
            tool.arg(word);
        }
        tool.args(["-o", "node.id=1"]);
        if !self.options.iter().any(|(key, _)| key == "log.dirs") {
            tool.args(["-o", &format!("log.dirs={}", self.node.data().display())]);
        }
        for (key, value) in &self.options {
            tool.args(["-o", &format!("{key}={value}")]);
        }
        for (name, value) in credentials() {
            tool.variable(name, value);
        }
        tool
    }

    /// Compares the store with the metadata of the segments, which have to agree.
    pub fn assert_sound(&self, segments: usize) {
        assert_eq!(self.sound_segments(), Ok(segments));
    }

    /// Number of segments if the store agrees with their metadata; else the differences.
    pub fn sound_segments(&self) -> Result<usize, String> {
        let said = self.storage("check --output json").outcome().1;
        let found: Value =
            serde_json::from_str(&said.stdout).map_err(|error| format!("{error}: {said:?}"))?;
        let names = ["verdict", "unfinished_segments", "missing", "orphans", "unchecked_objects"];
        let sound = [json!("sound"), json!(0), json!([]), json!([]), json!(0)];
        let count = found["segments"].as_u64().and_then(|count| usize::try_from(count).ok());
        if names.map(|name| found[name].clone()) != sound {
            return Err(said.stdout);
        }
        count.ok_or_else(|| format!("no number of segments: {}", said.stdout))
    }

    /// Creates the topic.
    pub fn create(&self, partitions: u32) {
        self.node.levada(&format!("topic create {TOPIC} -p {partitions} {SETTINGS}")).run();
    }

    /// Writes the records with these offsets.
    pub fn fill(&self, partition: i32, range: Range<i64>) {
        let mut connection = Connection::open(self.node.address());
        for offset in range {
            let value = vec![b'a' + u8::try_from(offset % 26).expect("a letter"); 600];
            let batch = Batch { written_ms: 1_700_000_000_000 + offset, ..Batch::of(&[&value]) };
            await_some("the leader", LIMIT, || {
                let response = connection.call(&raw::produce_to((TOPIC, partition), 1, &batch.encode()));
                (raw::produce_error(&response) == 0).then_some(())
            });
        }
    }

    /// Offset that ListOffsets returns for a timestamp.
    pub fn listed(&self, partition: i32, timestamp: i64) -> i64 {
        let request = json!({"ReplicaId": -1, "TimeoutMs": 20_000, "Topics": [{"Name": TOPIC, "Partitions": [
            {"PartitionIndex": partition, "CurrentLeaderEpoch": -1, "Timestamp": timestamp}
        ]}]});
        let answer: Value = await_some("a leader", LIMIT, || {
            let answer = self.node.levada_json(&format!("api ListOffsets {request} --version 11"));
            (answer["Topics"][0]["Partitions"][0]["ErrorCode"] == 0).then_some(answer)
        });
        answer["Topics"][0]["Partitions"][0]["Offset"].as_i64().expect("an offset")
    }

    /// Waits for an offset of partition 0.
    pub fn await_listed(&self, timestamp: i64, offset: i64) {
        let what = format!("offset {offset} for timestamp {timestamp}: {}", self.node.talk());
        await_some(&what, LIMIT, || (self.listed(0, timestamp) == offset).then_some(()));
    }

    /// The error and the batches of a fetch from partition 0.
    pub fn fetch(&self, offset: i64) -> (i16, Vec<u8>) {
        let response = Connection::open(self.node.address()).call(&raw::fetch(TOPIC, offset, 1 << 20));
        let fetched = raw::fetched(&response);
        (fetched.error, fetched.records)
    }

    /// The batches of partition 0 between two offsets, byte for byte.
    pub fn replay(&self, range: Range<i64>) -> Vec<u8> {
        let (mut offset, mut all) = (range.start, Vec::new());
        while offset < range.end {
            let records = await_some("records", LIMIT, || {
                let (error, records) = self.fetch(offset);
                (error == 0 && !records.is_empty()).then_some(records)
            });
            let mut rest = &records[..];
            while offset < range.end && !rest.is_empty() {
                let length = i32::from_be_bytes(rest[8..12].try_into().expect("a length"));
                let (batch, later) = rest.split_at(12 + usize::try_from(length).expect("a length"));
                offset = i64::from_be_bytes(batch[..8].try_into().expect("an offset")) + 1;
                all.extend_from_slice(batch);
                rest = later;
            }
        }
        all
    }
}

fn credentials() -> [(&'static str, &'static str); 2] {
    [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]
}

/// Paths of the objects with records below a directory, by name.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with(".levada-uploads") {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|end| end == "log") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Waits for a number of segments in a store.
pub fn await_segments(tiered: &TieredNode, store: &Path, count: usize) {
    await_some(&format!("{count} segments in the store: {}", tiered.node.talk()), LIMIT, || {
        (segments(store).len() == count).then_some(())
    });
}
