//! The steps of a case, and their run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use levada_tests::cluster::CONTROLLER;
use levada_tests::raw::{self, Batch, Connection, FetchRequest};
use levada_tests::tiers::{EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED};
use levada_tests::{Tool, await_some, replicas, tiers};

use super::ledger::Ledger;
use super::stage::{Stage, batches_of};

/// Limit of everything that a step waits for.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

const NONE: i16 = 0;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const REQUEST_TIMED_OUT: i16 = 7;
/// Timestamp of ListOffsets for the record with the latest time.
const MAX_TIMESTAMP: i64 = -3;
const HOUR_MS: i64 = 3_600_000;
/// Bytes of an entry of a time index, the larger one of both.
const INDEX_ENTRY: u32 = 12;
const VALUE_BYTES: usize = 20;

/// A partition: letter of the topic, and index.
pub(super) type Log = (&'static str, i32);
/// Number of a broker in a case: 0 or 1.
pub(super) type Role = usize;

/// Offset or time whose place a client requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Start,
    LocalStart,
    Copied,
    Pending,
    End,
    /// The record with the latest time.
    Latest,
    /// Milliseconds after the time of offset 0; the record of offset N has the time N.
    Time(i64),
}

/// A step of a case. A step that expects something waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Creates a topic with this number of batches in each segment, of which the last one stays
    /// local.
    Create {
        topic: &'static str,
        batches: u32,
        is_tiered: bool,
        replicas: &'static [&'static [Role]],
    },
    /// Creates a topic with 50 partitions of two replicas, for which each partition of the metadata
    /// topic has records.
    CreateWide(&'static str),
    /// Gives a topic these partitions, with the former ones.
    Expand(&'static str, &'static [&'static [Role]]),
    /// Sets keys of a topic.
    Set(&'static str, &'static str),
    /// Writes a number of batches of one record.
    Write(Log, usize),
    /// Writes a batch whose time is an hour later.
    WriteLate(Log),
    /// The store has these segments, by first offset, with the acknowledged batches.
    Stored(Log, &'static [i64]),
    /// The first segment on the disk of each replica has this offset.
    Local(Log, i64),
    /// A client reads everything from this offset on.
    Read(Log, i64),
    /// No client can read this offset.
    Gone(Log, i64),
    /// A client gets this offset, and this leader epoch or none.
    Listed(Log, Place, i64, i32),
    /// Deletes the records before an offset.
    Trim(Log, i64),
    /// The log of a broker begins with this leader epoch at this offset on its disk.
    FirstEpoch(Log, Role, (i32, i64)),
    /// Makes a replica the leader.
    Lead(Log, Role),
    /// Has a partition get these replicas, the first of which leads.
    Assign(Log, &'static [Role]),
    /// Has a replica move to the other data directory of its broker.
    MoveDir(Log, Role),
    Restart(Role),
    Stop(Role),
    Start(Role),
    /// Removes the checkpoints of a stopped broker.
    LoseCheckpoints(Role),
    Delete(&'static str),
}

/// A run of a case.
pub(super) struct Run<'a> {
    stage: &'a mut Stage,
    brokers: [i32; 2],
    prefix: String,
    /// Time of the records with offset 0.
    start_ms: i64,
    ledgers: BTreeMap<Log, Ledger>,
    /// Replicas, of which the first leads.
    replicas: BTreeMap<Log, Vec<i32>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(stage: &'a mut Stage, name: &str, brokers: [i32; 2]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let start_ms = i64::try_from(now).expect("a time");
        let prefix = format!("{}-{}", name.replace('_', "-"), brokers[0]);
        Self { stage, brokers, prefix, start_ms, ledgers: BTreeMap::new(), replicas: BTreeMap::new() }
    }

    pub(super) fn run(mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            println!("{number}: {step:?}");
            self.step(*step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create { topic, batches, is_tiered, replicas } => {
                self.create(topic, (batches, is_tiered), replicas);
            }
            Step::CreateWide(topic) => {
                let create = format!("TopicCommand --create --topic {}", self.topic(topic));
                let size = "--partitions 50 --replication-factor 2";
                self.stage.tools.run(&format!("{create} {size} --config remote.storage.enable=true"));
            }
            Step::Expand(topic, replicas) => self.expand(topic, replicas),
            Step::Set(topic, settings) => {
                let entity = format!("--entity-type topics --entity-name {}", self.topic(topic));
                self.stage.tools.run(&format!("ConfigCommand --alter {entity} --add-config {settings}"));
            }
            Step::Write(log, count) => (0..count).for_each(|_| self.write(log, 0)),
            Step::WriteLate(log) => self.write(log, HOUR_MS),
            Step::Stored(log, bases) => self.await_stored(log, bases),
            Step::Local(log, offset) => self.await_local(log, offset),
            Step::Read(log, from) => self.read(log, from),
            Step::Gone(log, offset) => self.await_gone(log, offset),
            Step::Listed(log, place, offset, epoch) => self.assert_listed(log, place, (offset, epoch)),
            Step::Trim(log, offset) => self.trim(log, offset),
            Step::FirstEpoch(log, role, expected) => self.await_first_epoch(log, role, expected),
            Step::Lead(log, role) => {
                let broker = self.brokers[role];
                let mut replicas = self.replicas[&log].clone();
                replicas.sort_by_key(|id| *id != broker);
                self.assign(log, replicas);
            }
            Step::Assign(log, roles) => self.assign(log, self.ids(roles)),
            Step::MoveDir(log, role) => self.move_dir(log, role),
            Step::Restart(role) => self.stage.cluster.node_mut(self.brokers[role]).restart(),
            Step::Stop(role) => _ = self.stage.cluster.node_mut(self.brokers[role]).stop(),
            Step::Start(role) => self.stage.cluster.node_mut(self.brokers[role]).start(),
            Step::LoseCheckpoints(role) => self.stage.lose_checkpoints(self.brokers[role]),
            Step::Delete(topic) => {
                let topic = self.topic(topic);
                self.stage.tools.run(&format!("TopicCommand --delete --topic {topic}"));
            }
        }
    }

    fn topic(&self, letter: &str) -> String {
        format!("{}-{letter}", self.prefix)
    }

    fn ids(&self, roles: &[Role]) -> Vec<i32> {
        roles.iter().map(|role| self.brokers[*role]).collect()
    }

    fn leader(&self, log: Log) -> i32 {
        self.replicas[&log][0]
    }

    /// Notes the replicas of a topic's partitions, and returns them as Kafka's tool takes them.
    fn placed(&mut self, topic: &'static str, replicas: &[&[Role]]) -> String {
        let placed: Vec<Vec<i32>> = replicas.iter().map(|roles| self.ids(roles)).collect();
        for (index, ids) in (0..).zip(&placed) {
            self.replicas.insert((topic, index), ids.clone());
            self.ledgers.entry((topic, index)).or_default();
        }
        let one = |ids: &Vec<i32>| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(":");
        placed.iter().map(one).collect::<Vec<_>>().join(",")
    }

    fn create(&mut self, topic: &'static str, (batches, is_tiered): (u32, bool), replicas: &[&[Role]]) {
        let placed = self.placed(topic, replicas);
        let configs = [
            format!("remote.storage.enable={is_tiered}"),
            // Each batch but the first of a segment has an entry. A full index ends the segment.
            "index.interval.bytes=1".to_owned(),
            format!("segment.index.bytes={}", INDEX_ENTRY * batches),
            "local.retention.bytes=1".to_owned(),
        ];
        let configs = configs.map(|config| format!("--config {config}")).join(" ");
        let create = format!("TopicCommand --create --topic {}", self.topic(topic));
        self.stage.tools.run(&format!("{create} --replica-assignment {placed} {configs}"));
    }

    fn expand(&mut self, topic: &'static str, replicas: &[&[Role]]) {
        let (placed, count) = (self.placed(topic, replicas), replicas.len());
        let alter = format!("TopicCommand --alter --topic {}", self.topic(topic));
        self.stage.tools.run(&format!("{alter} --partitions {count} --replica-assignment {placed}"));
    }

    /// Repeats a request to the leader of a partition until the response has no error.
    fn ask<T>(&self, log: Log, request: &[u8], read: impl Fn(&[u8]) -> (i16, T)) -> T {
        let address = self.stage.cluster.node(self.leader(log)).address();
        let mut last = NONE;
        await_some(&format!("an answer for {log:?} from {}", self.leader(log)), LIMIT, || {
            let (error, found) = read(&Connection::open(address).call(request));
            if error != last {
                println!("{log:?}: error {error}");
                last = error;
            }
            (error == NONE).then_some(found)
        })
    }

    fn write(&mut self, log: Log, later_ms: i64) {
        let (topic, offset) = (self.topic(log.0), self.ledgers[&log].end());
        let value = format!("{offset:0VALUE_BYTES$}");
        let written_ms = self.start_ms + offset + later_ms;
        let sent = Batch { written_ms, ..Batch::of(&[value.as_bytes()]) }.encode();
        let request = raw::produce_to((&topic, log.1), -1, &sent);
        // A batch that the followers get too late is in the log.
        let written = |error| if error == REQUEST_TIMED_OUT { NONE } else { error };
        self.ask(log, &request, |answer| (written(raw::produce_error(answer)), ()));
        let fetch = FetchRequest { wait_ms: 500, ..FetchRequest::of((&topic, log.1), offset) };
        let (batches, _) = self.stage.replay(self.leader(log), fetch, offset + 1);
        let [batch] = &batches[..] else { panic!("one batch at {offset} of {topic}: {batches:?}") };
        assert!(batch.has_records_of(&sent), "the acknowledged batch at {offset} of {topic}");
        self.ledgers.get_mut(&log).expect("a partition of the case").add(batches);
    }

    fn await_stored(&self, log: Log, bases: &[i64]) {
        let topic = self.topic(log.0);
        let mut last = Vec::new();
        await_some(&format!("segments {bases:?} of {topic} in the store"), LIMIT, || {
            let stored = self.stage.stored((&topic, log.1));
            let found: Vec<i64> = stored.iter().map(|(base, _)| *base).collect();
            if found != last {
                println!("{topic}: segments {found:?}");
                last.clone_from(&found);
            }
            // A copy may be in progress.
            let is_whole = |(base, path): &(i64, PathBuf)| {
                let batches = batches_of(path);
                self.ledgers[&log].has(&batches) && batches[0].base == *base
            };
            (found == bases && stored.iter().all(is_whole)).then_some(())
        });
    }

    fn await_local(&self, log: Log, offset: i64) {
        for broker in &self.replicas[&log] {
            if self.stage.cluster.node(*broker).is_running() {
                self.stage.await_first(*broker, (&self.topic(log.0), log.1), offset);
            }
        }
    }

    /// Reads by raw requests, and by a consumer.
    fn read(&self, log: Log, from: i64) {
        let (topic, leader) = (self.topic(log.0), self.leader(log));
        let request = FetchRequest { wait_ms: 500, ..FetchRequest::of((&topic, log.1), from) };
        let expected = self.ledgers[&log].from(from);
        let (found, _) = self.stage.replay(leader, request, self.ledgers[&log].end());
        assert_eq!(found, expected, "{topic} from {from} on, served by {leader}");
        let mut kcat = Tool::kcat();
        kcat.args(["-b", &self.stage.cluster.bootstrap(), "-t", &topic, "-p", &log.1.to_string()]);
        let said = kcat.args(["-C", "-e", "-q", "-o", &from.to_string(), "-f", "%o:%s\\n"]).run().stdout;
        let lines =
            (from..self.ledgers[&log].end()).map(|offset| format!("{offset}:{offset:0VALUE_BYTES$}\n"));
        assert_eq!(said, lines.collect::<String>(), "{topic} from {from} on, as kcat reads it");
    }

    fn await_gone(&self, log: Log, offset: i64) {
        let (topic, leader) = (self.topic(log.0), self.leader(log));
        await_some(&format!("no offset {offset} in {topic}"), LIMIT, || {
            let fetched = self.stage.fetch(leader, &FetchRequest::of((&topic, log.1), offset));
            (fetched.error == OFFSET_OUT_OF_RANGE).then_some(())
        });
    }

    fn assert_listed(&self, log: Log, place: Place, expected: (i64, i32)) {
        let time = match place {
            Place::Start => EARLIEST,
            Place::LocalStart => EARLIEST_LOCAL,
            Place::Copied => LATEST_TIERED,
            Place::Pending => EARLIEST_PENDING_UPLOAD,
            Place::End => LATEST,
            Place::Latest => MAX_TIMESTAMP,
            Place::Time(ms) => self.start_ms + ms,
        };
        let topic = self.topic(log.0);
        let mut found = None;
        // Only what is in the store changes by itself.
        await_some(&format!("{expected:?} for {place:?} of {topic}"), LIMIT, || {
            let request = raw::list_offset((&topic, log.1), time, false);
            let listed = self.ask(log, &request, |answer| {
                let (error, offset, epoch) = raw::found_offset(answer);
                (error, (offset, epoch))
            });
            if found.replace(listed) != Some(listed) {
                println!("{topic}: {listed:?} for {place:?}");
            }
            (listed == expected).then_some(())
        });
    }

    fn trim(&self, log: Log, offset: i64) {
        let request = raw::delete_records((&self.topic(log.0), log.1), offset);
        let start = self.ask(log, &request, raw::deleted_before);
        assert_eq!(start, offset, "the first offset of {log:?}");
    }

    fn await_first_epoch(&self, log: Log, role: Role, expected: (i32, i64)) {
        let place = self.stage.replica(self.brokers[role], (&self.topic(log.0), log.1));
        let place = place.expect("the broker has a replica");
        await_some(&format!("the first epoch {expected:?} in {}", place.display()), LIMIT, || {
            (replicas::epochs(&place).into_iter().next() == Some(expected)).then_some(())
        });
    }

    fn assign(&mut self, log: Log, replicas: Vec<i32>) {
        let topic = self.topic(log.0);
        let (cluster, tools) = (&self.stage.cluster, &mut self.stage.tools);
        tiers::assign(cluster, tools, (&topic, log.1), &replicas);
        self.replicas.insert(log, replicas);
    }

    fn move_dir(&mut self, log: Log, role: Role) {
        let (topic, broker) = (self.topic(log.0), self.brokers[role]);
        let to = self.stage.other_dir(broker, (&topic, log.1));
        let replicas = &self.replicas[&log];
        let shown = to.display().to_string();
        let dirs: Vec<&str> =
            replicas.iter().map(|id| if *id == broker { shown.as_str() } else { "any" }).collect();
        let plan = serde_json::json!({"version": 1, "partitions": [
            {"topic": topic, "partition": log.1, "replicas": replicas, "log_dirs": dirs}
        ]});
        let path = self.stage.cluster.node(CONTROLLER).scratch().join("dirs.json");
        fs::write(&path, plan.to_string()).expect("a file");
        let path = path.display();
        self.stage.tools.run(&format!("ReassignPartitionsCommand --execute --reassignment-json-file {path}"));
        await_some(&format!("the replica of {broker} in {shown}"), LIMIT, || {
            let place = self.stage.replica(broker, (&topic, log.1))?;
            (place.parent() == Some(to.as_path())).then_some(())
        });
    }
}
