//! A tiered broker under faults: its store fails, hangs, is slow, and loses answers; the broker is
//! killed at random and in the middle of requests, and its cache of remote records is lost, damaged
//! or full. Writers and readers go on meanwhile. In the end each acknowledged record that retention
//! keeps is read at its offset, and the store agrees with the metadata. The plan of faults follows
//! from the seed.
//!
//! Suite: long; 30 s; needs s3; share tiers
//! Soak: lasts 15 s

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use levada_testing::{lasting, seed};
use levada_tests::sick_store::{ObjectServer, SickStore, Sickness};
use levada_tests::tiers::ledger::Retention;
use levada_tests::tiers::load::{Place, TieredLoad};
use levada_tests::tiers::{EARLIEST, LATEST_TIERED, TieredNode};
use levada_tests::{await_some, not_run, paths, process};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Duration of the run at scale 1.
const RUN: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(90);
const READERS: usize = 2;
const SEGMENT_BYTES: u64 = 64 << 10;
const RETENTION_BYTES: u64 = 600_000;
const RETENTION_MS: i64 = 6_000;
/// Batches of each writer and replays of all readers before the next fault.
const PROGRESS: (usize, u64) = (10, 2);
/// Size of a cache that the run fills soon.
const SMALL_CACHE: &str = "256k";
/// Runs a broker whose cache directory is a small separate file system.
const ON_SMALL_CACHE: &str = r#"mkdir -p "$0" && mount -t tmpfs -o size=$1 tmpfs "$0" && shift && exec "$@""#;
/// Requests of the broker to its store: method, and part of the path.
const REQUESTS: [(&str, &str); 8] = [
    ("PUT", ".log"),
    ("PUT", ".indexes"),
    ("PUT", ".rsm-manifest"),
    ("GET", ".log"),
    ("GET", ".indexes"),
    ("GET", ".rsm-manifest"),
    ("POST", "?delete"),
    ("GET", "cluster.json"),
];

/// Creates the topics. Local retention is small, or a part of the whole.
fn create_topics(tiered: &TieredNode) -> Vec<Place> {
    let common = format!(
        "-c internal.segment.bytes={SEGMENT_BYTES} -c file.delete.delay.ms=0 -c remote.storage.enable=true"
    );
    for (topic, partitions, own) in [
        ("plain", 2, "-c retention.ms=-1 -c local.retention.bytes=1".to_owned()),
        (
            "sized",
            1,
            format!(
                "-c retention.ms=-1 -c retention.bytes={RETENTION_BYTES} -c local.retention.bytes=250000"
            ),
        ),
        ("timed", 1, format!("-c retention.ms={RETENTION_MS} -c local.retention.bytes=1")),
    ] {
        tiered.node.levada(&format!("topic create {topic} -p {partitions} {common} {own}")).run();
    }
    let sized = Retention { bytes: Some(RETENTION_BYTES), ms: None };
    let timed = Retention { bytes: None, ms: Some(RETENTION_MS) };
    vec![
        Place::new(("plain", 0), 0, Retention::default()),
        Place::new(("plain", 1), 1, Retention::default()).transactional(),
        Place::new(("sized", 0), 2, sized),
        Place::new(("timed", 0), 3, timed).transactional(),
    ]
}

struct Stage {
    _server: ObjectServer,
    sick: SickStore,
    tiered: TieredNode,
    load: Arc<TieredLoad>,
    writers: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    plan: StdRng,
    done: BTreeMap<&'static str, u32>,
}

impl Stage {
    fn set(seed: u64) -> Option<Self> {
        let server = ObjectServer::start();
        let sick = SickStore::before(server.address());
        let mut tiered = TieredNode::in_bucket(&sick.url())?
            .with_option("levada.remote.request.timeout.ms", "1000")
            .with_option("levada.remote.cache.bytes", "67108864");
        tiered.node.start();
        let places = create_topics(&tiered);
        let (plan, mut seeds) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(!seed));
        let load = TieredLoad::new(tiered.node.address(), places);
        let (writers, readers) = (load.write(&mut seeds), load.read(&mut seeds, READERS));
        let (_server, done) = (server, BTreeMap::new());
        Some(Self { _server, sick, tiered, load, writers, readers, plan, done })
    }

    fn cache(&self) -> PathBuf {
        self.tiered.node.data().join("remote-log-index-cache")
    }

    fn drawn_request(&mut self) -> (&'static str, &'static str) {
        REQUESTS[self.plan.random_range(0..REQUESTS.len())]
    }

    /// Has some requests to the store fail from now on.
    fn sicken(&mut self) {
        let (method, path) = self.drawn_request();
        let bytes = self.plan.random_range(0..20_000);
        let (sickness, most) = match self.plan.random_range(0..6) {
            0 => (Sickness::Status([500, 503, 429][self.plan.random_range(0..3)]), 12),
            1 => (Sickness::Silence, 3),
            2 => (Sickness::Stall(bytes), 3),
            3 => (Sickness::Cut(bytes), 12),
            4 => (Sickness::LostAnswer, 12),
            _ => (Sickness::Slow(Duration::from_millis(self.plan.random_range(10..200))), 12),
        };
        let count = self.plan.random_range(1..=most);
        println!("{count} of {method} {path}: {sickness:?}");
        self.sick.fail(method, path, sickness, count);
    }

    fn restart_killed(&mut self, between: impl FnOnce(&mut Self)) {
        self.tiered.node.kill();
        between(self);
        self.tiered.node.start();
    }

    /// Kills the broker while it waits for the response to a request, or when it does not send one.
    fn kill_at_request(&mut self) {
        let ((method, path), before) = (self.drawn_request(), self.plan.random_range(0..4));
        println!("killed at {method} {path} after {before}");
        self.sick.heal();
        if before > 0 {
            // Whole answers.
            self.sick.fail(method, path, Sickness::Cut(1 << 20), before);
        }
        self.sick.fail(method, path, Sickness::Silence, 1);
        let start = Instant::now();
        while self.sick.left() > 0 && start.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
        self.restart_killed(|_| ());
    }

    fn files_of_cache(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    /// Changes a byte of each second file of the cache, or removes the file's end.
    fn damage_cache(&mut self) {
        for path in self.files_of_cache().into_iter().step_by(2) {
            let mut bytes = fs::read(&path).expect("a file of the cache");
            if bytes.is_empty() {
                continue;
            }
            let at = self.plan.random_range(0..bytes.len());
            if self.plan.random_bool(0.5) {
                bytes[at] ^= 1;
            } else {
                bytes.truncate(at);
            }
            fs::write(&path, bytes).expect("a file of the cache");
        }
    }

    /// Runs the broker for a while with a cache whose file system is soon full.
    fn fill_cache(&mut self) {
        if !process::namespaces_allowed() {
            return not_run("a full cache: there are no user namespaces");
        }
        let shown = self.cache().display().to_string();
        let namespace = ["unshare", "--user", "--map-root-user", "--mount", "--fork", "sh", "-c"];
        let mount = [ON_SMALL_CACHE, &shown, SMALL_CACHE];
        self.restart_killed(|own| own.tiered.node.wrap(&[&namespace[..], &mount].concat()));
        thread::sleep(Duration::from_millis(self.plan.random_range(300..2_000)));
        self.restart_killed(|own| own.tiered.node.wrap(&[]));
    }

    /// Deletes the records before a random offset of one of the partitions.
    fn trim(&mut self) {
        let load = self.load.clone();
        let place = &load.places[self.plan.random_range(0..load.places.len())];
        let (start, end) = (load.offset_at(place, EARLIEST).expect("a start"), place.ledger().settled());
        if start < end {
            load.trim(place, self.plan.random_range(start..end));
        }
    }

    /// Does something to the broker or to its cache.
    fn strike(&mut self) {
        let what = match self.plan.random_range(0..12) {
            0..2 => "killed",
            2..5 => "killed at a request",
            5 => "stopped",
            6 => "cache lost",
            7 => "cache damaged",
            8 => "cache files removed",
            9 => "cache full",
            _ => "trimmed",
        };
        println!("{what}");
        *self.done.entry(what).or_default() += 1;
        match what {
            "killed" => self.restart_killed(|_| ()),
            "killed at a request" => self.kill_at_request(),
            "stopped" => self.tiered.node.restart(),
            "cache lost" => self.restart_killed(|own| {
                fs::remove_dir_all(own.cache()).expect("the broker has a cache");
            }),
            "cache damaged" => self.restart_killed(Self::damage_cache),
            // The broker may have removed a file first.
            "cache files removed" => {
                self.files_of_cache().iter().for_each(|path| drop(fs::remove_file(path)))
            }
            "cache full" => self.fill_cache(),
            _ => self.trim(),
        }
    }

    fn disturb(&mut self) {
        for _ in 0..self.plan.random_range(0..4) {
            self.sicken();
        }
        thread::sleep(Duration::from_millis(self.plan.random_range(0..500)));
        self.strike();
        thread::sleep(Duration::from_millis(self.plan.random_range(0..500)));
        self.sick.heal();
    }

    /// Number of batches, and last copied offset, of each partition.
    fn reached(&self) -> Vec<(usize, i64)> {
        let copied = |place| self.load.offset_at(place, LATEST_TIERED).expect("an answer");
        self.load.places.iter().map(|place| (place.ledger().len(), copied(place))).collect()
    }

    /// Waits until each partition got records and copies, and readers have read.
    fn await_progress(&mut self) {
        let (before, replays) = (self.reached(), self.load.replays());
        let (batches, more) = PROGRESS;
        await_some(&format!("progress after {before:?}: {}", self.tiered.node.talk()), LIMIT, || {
            self.load.assert_fine();
            thread::sleep(Duration::from_millis(50));
            let reached = self.reached();
            let moved = |((count, copied), old): (&(usize, i64), &(usize, i64))| {
                *count >= old.0 + batches && *copied > old.1
            };
            let all = reached.iter().zip(&before).all(moved);
            (all && self.load.replays() >= replays + more).then_some(())
        });
        self.tiered.node.assert_running("under faults");
    }

    fn read_all(&self) -> Vec<i64> {
        self.load.read_all().unwrap_or_else(|complaint| panic!("{complaint}\n{}", self.tiered.node.talk()))
    }

    fn await_soundness(&self) -> usize {
        let mut last = String::new();
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            match self.tiered.sound_segments() {
                Ok(count) => return count,
                Err(differences) => last = differences,
            }
        }
        panic!("{last}\n{}", self.tiered.node.talk());
    }

    /// Ends writers and readers, and compares all records and objects.
    fn judge(mut self) {
        self.sick.heal();
        self.load.end_writers();
        self.writers.drain(..).for_each(|writer| writer.join().expect("no panic of a writer"));
        self.load.end_readers();
        self.readers.drain(..).for_each(|reader| reader.join().expect("no panic of a reader"));
        self.load.assert_fine();
        self.read_all();
        self.restart_killed(|_| ());
        self.read_all();
        // In the end, old segments are gone.
        for (at, most) in [(2, RETENTION_BYTES), (3, 0)] {
            let place = &self.load.places[at];
            await_some(&format!("the end of old segments of {}", place.topic), LIMIT, || {
                let start = self.load.offset_at(place, EARLIEST).expect("an answer");
                let left = place.ledger().bytes_from(start);
                (left < most + 2 * SEGMENT_BYTES).then_some(())
            });
        }
        let segments = self.await_soundness();
        let starts = self.read_all();
        let batches: Vec<_> = self.load.places.iter().map(|place| place.ledger().len()).collect();
        let aborted: usize = self.load.places.iter().map(|place| place.ledger().aborted()).sum();
        println!("{:?}, {} replays, {aborted} aborted batches", self.done, self.load.replays());
        println!("{batches:?} batches, from {starts:?} on; {segments} segments");
        assert!(aborted > 0 && segments > 0, "too little happened");
        self.tiered.node.stop();
    }
}

#[test]
fn promised_records_survive_whatever_goes_wrong() {
    if !paths::object_server().exists() {
        return not_run("a server of the S3 protocol is not installed: cargo xtask deps s3");
    }
    let duration = lasting(RUN);
    let Some(mut stage) = Stage::set(seed()) else { return };
    stage.await_progress();
    let start = Instant::now();
    while start.elapsed() < duration {
        stage.disturb();
        stage.await_progress();
    }
    stage.judge();
}
