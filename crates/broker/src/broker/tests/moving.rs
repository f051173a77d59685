//! Replicas move between data directories: as asked for, and with a crash at every change of the
//! files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use levada_config::{BrokerConfig, Sources};
use levada_log::crash_disk::{Crash, Recorder, World, lay_out};
use levada_log::disk::{Disk, RealDisk};
use levada_metadata::controller::TopicKey;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::crash::directory;
use super::directories::Life;
use crate::quota::MutationQuota;

impl Life {
    /// Carries out moves as a serving broker does, until `done`.
    pub(super) fn run_moves(&self, mut done: impl FnMut() -> bool) {
        let moves = self.runtime.spawn(self.broker.replicas().clone().run_moves());
        let records = self.runtime.spawn(self.broker.clone().run_directory_records());
        while !done() {
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(2)).await });
        }
        moves.abort();
        records.abort();
    }

    pub(super) fn move_to(&self, dir: PathBuf) -> Result<(), ErrorCode> {
        self.broker.replicas().move_to("t", 0, &dir)
    }

    pub(super) fn is_in(&self, home: &TempDir, dir: &str) -> bool {
        let found = self.partition(0).map(|found| found.log().dir());
        found.is_ok_and(|path| path.parent() == Some(&home.path().join(dir)))
    }

    pub(super) fn end(&self) -> i64 {
        self.partition(0).unwrap().log().log_end()
    }
}

/// A broker with a partition of some records, and the names of its directory and of the other one.
fn moving(home: &TempDir) -> (Life, [&'static str; 2]) {
    moving_on(Arc::new(RealDisk), home)
}

/// Like [`moving`], with the given access to files.
pub(super) fn moving_on(disk: Arc<dyn Disk>, home: &TempDir) -> (Life, [&'static str; 2]) {
    let life = Life::open_on(disk, home, &["a", "b"]).unwrap();
    life.create("t", 1);
    (0..20).for_each(|_| life.append(0));
    let dirs = if life.is_in(home, "a") { ["a", "b"] } else { ["b", "a"] };
    (life, dirs)
}

pub(super) fn names(home: &TempDir, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(home.path().join(dir)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("t-0")).collect();
    names.sort();
    names
}

#[test]
fn a_replica_moves_to_another_directory_and_back() {
    let home = directory();
    let (life, [from, to]) = moving(&home);
    let held = life.partition(0).unwrap();
    life.move_to(home.path().join(to)).unwrap();
    life.run_moves(|| life.is_in(&home, to));
    assert_eq!(names(&home, to), ["t-0"]);
    life.append(0);
    assert_eq!((held.log().log_end(), life.end()), (21, 21), "those who hold the partition keep it");
    assert_eq!(life.recorded(), life.actual());
    life.run_moves(|| names(&home, from).is_empty());
    life.broker.close();
    drop((life, held));

    let life = Life::open(&home, &["a", "b"]).unwrap();
    assert!(life.is_in(&home, to) && life.end() == 21);
    life.move_to(home.path().join(from)).unwrap();
    life.run_moves(|| life.is_in(&home, from) && names(&home, to).is_empty());
    assert_eq!(life.end(), 21);
    life.broker.close();
}

#[test]
fn move_is_cancelled_by_reversal_or_topic_deletion() {
    let home = directory();
    let (life, [from, to]) = moving(&home);
    life.move_to(home.path().join(to)).unwrap();
    let shown = life.broker.replicas().moves().to(&home.path().join(to));
    assert_eq!(shown.iter().map(|one| (&*one.topic, one.lag)).collect::<Vec<_>>(), [("t", 20)]);
    life.move_to(home.path().join(from)).unwrap();
    assert!(life.broker.replicas().moves().to(&home.path().join(to)).is_empty());
    assert_eq!(life.move_to(home.path().join("c")), Err(ErrorCode::LogDirNotFound));
    let unknown = life.broker.replicas().move_to("u", 0, &home.path().join(to));
    assert_eq!(unknown, Err(ErrorCode::UnknownTopicOrPartition));

    life.move_to(home.path().join(to)).unwrap();
    let key = TopicKey { name: Some("t".to_owned()), topic_id: Uuid::ZERO };
    let deleted = life.broker.controller().delete_topics(vec![key], MutationQuota::default());
    assert!(life.runtime.block_on(deleted).pop().unwrap().1.is_ok());
    life.run_moves(|| life.broker.replicas().moves().to(&home.path().join(to)).is_empty());
    assert_eq!((names(&home, to), names(&home, from)), (vec![], vec![]));
    life.broker.close();
}

#[test]
fn failed_target_directory_ends_and_refuses_moves() {
    let home = directory();
    let (life, [_, to]) = moving(&home);
    if to == "a" {
        // The directory with the metadata must not fail.
        life.move_to(home.path().join("a")).unwrap();
        life.run_moves(|| life.is_in(&home, "a"));
    }
    life.move_to(home.path().join("b")).unwrap();
    life.fail_directory(&home.path().join("b"));
    life.run_moves(|| life.broker.replicas().moves().to(&home.path().join("b")).is_empty());
    assert!(life.is_in(&home, "a"));
    life.append(0);
    assert_eq!(life.end(), 21);
    assert_eq!(life.move_to(home.path().join("b")), Err(ErrorCode::KafkaStorageError));
    life.broker.close();
}

#[test]
fn directory_requested_before_topic_creation_is_used() {
    let home = directory();
    let (life, [fuller, emptier]) = moving(&home);
    let ask = |dir: &str| life.broker.replicas().move_to("u", 0, &home.path().join(dir));
    for dir in [emptier, fuller] {
        assert_eq!(ask(dir), Err(ErrorCode::UnknownTopicOrPartition), "the latest request counts");
    }
    life.create("u", 1);
    assert!(home.path().join(fuller).join("u-0").exists());
    life.broker.close();
}

#[test]
fn replica_does_not_move_to_cordoned_directory() {
    let home = directory();
    let (life, [from, to]) = moving(&home);
    let paths = ["a", "b"].map(|name| home.path().join(name).display().to_string());
    let cordon = |dir: &str| {
        let member = [
            "process.roles=broker".to_owned(),
            format!("node.id={}", life.broker.node_id()),
            "controller.quorum.bootstrap.servers=127.0.0.1:9093".to_owned(),
            "controller.listener.names=CONTROLLER".to_owned(),
            format!("log.dirs={}", paths.join(",")),
            format!("cordoned.log.dirs={}", home.path().join(dir).display()),
        ];
        life.broker.live_config().replace(BrokerConfig::load(&Sources::flags(member)).unwrap());
    };
    cordon(to);
    assert_eq!(life.move_to(home.path().join(to)), Err(ErrorCode::InvalidReplicaAssignment));
    cordon(from);
    assert_eq!(life.move_to(home.path().join(to)), Ok(()));
}

/// The log's end at certain numbers of changes of the files, and the part of it that is synced.
#[derive(Default)]
struct Promises(Vec<(usize, i64, i64)>);

impl Promises {
    fn note(&mut self, recorder: &Recorder, life: &Life) {
        let held = life.partition(0).unwrap();
        self.0.push((recorder.count(), held.log().log_end(), held.log().durable()));
    }

    /// The smallest end that a crash at this moment may leave.
    fn at(&self, moment: usize, crash: Crash) -> i64 {
        let known = self.0.iter().take_while(|(count, ..)| *count <= moment).last().unwrap();
        if crash == Crash::Killed { known.1 } else { known.2 }
    }
}

fn count_records(life: &Life) -> i64 {
    let log = life.partition(0).unwrap().shared_log();
    let (mut at, end) = (log.log_start(), log.log_end());
    while at < end {
        let bytes = log.read_batches(at, 1).unwrap();
        let batch = levada_base::batch::BatchView::parse(&bytes).unwrap();
        assert_eq!(batch.base_offset(), at);
        at = batch.last_offset() + 1;
    }
    end
}

/// A life with one move while records come in: the changes of the files from its beginning on, and
/// the ends that were promised.
fn moving_life(home: &TempDir, recorder: &Arc<Recorder>) -> (usize, Promises, [&'static str; 2]) {
    let life = Life::open_on(recorder.clone(), home, &["a", "b"]).unwrap();
    life.create("t", 1);
    (0..20).for_each(|_| life.append(0));
    let held = life.partition(0).unwrap();
    held.log().flush().unwrap();
    held.lane().with_writer(|writer| writer.advance_log_start(5).unwrap().remove().unwrap());
    life.broker.replicas().checkpoints().store();
    let dirs = if life.is_in(home, "a") { ["a", "b"] } else { ["b", "a"] };
    let (begun, mut promises) = (recorder.count(), Promises::default());
    promises.note(recorder, &life);
    life.move_to(home.path().join(dirs[1])).unwrap();
    life.run_moves(|| {
        let is_over = life.is_in(home, dirs[1]) && names(home, dirs[0]).is_empty();
        if !is_over {
            life.append(0);
            promises.note(recorder, &life);
        }
        is_over
    });
    life.append(0);
    held.log().flush().unwrap();
    promises.note(recorder, &life);
    (begun, promises, dirs)
}

/// The directories have names by which a start finishes the move, whatever the metadata has.
#[test]
fn log_offline_after_move_is_reported_lost() {
    let home = tempfile::tempdir().unwrap();
    let (life, [_, other]) = moving(&home);
    life.move_to(home.path().join(other)).unwrap();
    let (replicas, recorded) = (life.broker.replicas(), life.recorded()[&0]);
    let at = || replicas.directory_of("t", 0);
    let moves = life.runtime.spawn(replicas.clone().run_moves());
    while at() == Some(recorded) {
        life.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(2)).await });
    }
    life.partition(0).unwrap().log().abandon();
    assert_eq!(at(), Some(LOST_DIRECTORY));
    assert_eq!(replicas.lost(uptime_ms()), [("t".to_owned(), 0)]);
    moves.abort();
}

#[test]
fn crash_during_move_keeps_one_whole_log() {
    let home = directory();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(home.path().join(dir)).unwrap());
    let recorder = Arc::new(Recorder::new(home.path()));
    let (begun, promises, [from, to]) = moving_life(&home, &recorder);
    let (mut world, mut random) = (World::new(), StdRng::seed_from_u64(7));
    let mut places = [0, 0];
    for (moment, op) in recorder.ops().iter().enumerate() {
        if moment >= begun {
            let crash = [Crash::Killed, Crash::Dropped, Crash::Torn][random.random_range(0..3)];
            let tree = world.crash(crash, Some(op), &mut random);
            let remains = directory();
            lay_out(&tree, remains.path());
            let life = Life::open(&remains, &["a", "b"]).unwrap_or_else(|error| {
                panic!("moment {moment}, {op:?}, {crash:?}: {error}");
            });
            life.broker.replicas().recovery().wait(Duration::from_secs(60));
            let (found, wanted) = (count_records(&life), promises.at(moment, crash));
            assert!(found >= wanted, "moment {moment}, {op:?}, {crash:?}: {found}, not {wanted}");
            assert_eq!(life.partition(0).unwrap().log().log_start(), 5, "{moment}, {op:?}, {crash:?}");
            places[usize::from(life.is_in(&remains, to))] += 1;
            if random.random_range(0..4) == 0 {
                let is_whole = |dir| names(&remains, dir).iter().all(|name| name == "t-0");
                life.run_moves(|| is_whole(from) && is_whole(to));
                life.append(0);
                assert_eq!(count_records(&life), found + 1);
            }
            life.broker.close();
        }
        world.apply(op);
    }
    assert!(places[0] > 20 && places[1] > 5, "crashes before and after the switch: {places:?}");
}
