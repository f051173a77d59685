//! The broker's upkeep of its logs beside the requests: no segments by the clock, no producers for
//! ever, no searches on a shard.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use levada_base::Requester;
use levada_base::batch::Builder;
use levada_log::crash_disk::Recorder;
use levada_log::{Append, ProducerState};
use levada_metadata::controller::{AlterConfig, ConfigChange, NewTopic};
use levada_metadata::image::ConfigResource;
use levada_process::clock::now_ms;
use levada_testing::LogFields;
use parking_lot::Mutex;
use tracing::field::Field;
use tracing::subscriber::DefaultGuard;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use crate::controller::ConfigChanges;
use crate::quota::MutationQuota;
use crate::replica::Partition;

const DAY_MS: i64 = 86_400_000;

fn begin(home: &tempfile::TempDir) -> (Incarnation, Arc<Partition>) {
    begin_on(Arc::new(Recorder::new(home.path())), home, Ways::default())
}

/// A broker with a topic of one partition.
pub(super) fn begin_on(
    disk: Arc<Recorder>,
    home: &tempfile::TempDir,
    ways: Ways,
) -> (Incarnation, Arc<Partition>) {
    let now = Incarnation::begin(disk, home.path(), ways).unwrap();
    let topic =
        NewTopic { name: "t".to_owned(), partitions: 1, replication_factor: 1, ..NewTopic::default() };
    assert!(
        now.run(now.broker.controller().create_topics(vec![topic], MutationQuota::default(), false))
            .pop()
            .unwrap()
            .is_ok()
    );
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    (now, partition)
}

/// Counts the lines of this thread's log that begin so, for as long as the guard lives.
pub(super) fn lines_with(start: &'static str) -> (Arc<Mutex<usize>>, DefaultGuard) {
    let lines = Arc::new(Mutex::new(0));
    let counted = lines.clone();
    let count = move |field: &Field, value: &dyn std::fmt::Debug| {
        let begins = field.name() == "message" && format!("{value:?}").starts_with(start);
        *counted.lock() += usize::from(begins);
    };
    (lines, tracing::subscriber::set_default(LogFields(count)))
}

/// Appends one record of this time.
pub(super) fn append(now: &Incarnation, partition: &Arc<Partition>, mut batch: Builder, times: (i64, i64)) {
    batch.push(times.0, Some(b"key"), None);
    let append = Append::client(batch.build().unwrap());
    now.run(async { partition.append(append, times.1).wait().await }).unwrap();
}

#[test]
fn records_beyond_segment_age_share_one_segment() {
    let home = directory();
    let (now, partition) = begin(&home);
    for round in 0..5 {
        let month_ago = now_ms() - 30 * DAY_MS + round;
        append(&now, &partition, Builder::new(), (month_ago, now_ms()));
        now.run(now.broker.keep_house());
    }
    assert_eq!(partition.log().segment_count(), 1);
    append(&now, &partition, Builder::new(), (now_ms(), now_ms()));
    assert_eq!(partition.log().segment_count(), 2, "this one is a month later");
}

/// A log that grows loses what is acknowledged from now on: its files are looked for in every
/// round.
#[test]
fn growing_log_notices_lost_files_sooner_than_idle() {
    for grows in [true, false] {
        let home = directory();
        let (now, partition) = begin(&home);
        let grow = || append(&now, &partition, Builder::new(), (now_ms(), now_ms()));
        grow();
        now.run(now.broker.keep_house());
        std::fs::remove_file(partition.log().dir().join("00000000000000000000.log")).unwrap();
        if grows {
            grow();
        }
        let mut rounds = 0;
        while !partition.log().is_offline() {
            now.run(now.broker.keep_house());
            rounds += 1;
        }
        assert!(rounds <= if grows { 1 } else { 24 }, "{rounds}");
    }
}

#[test]
fn recurring_housekeeping_failure_is_logged_once() {
    let home = directory();
    let (now, partition) = begin(&home);
    append(&now, &partition, Builder::new(), (now_ms(), now_ms()));
    let (lines, logged) = lines_with("housekeeping failed");
    std::fs::remove_file(partition.log().dir().join("00000000000000000000.log")).unwrap();
    (0..30).for_each(|_| now.broker.keep_rooms());
    drop(logged);
    assert!(partition.log().is_offline());
    assert_eq!(*lines.lock(), 1);
}

#[test]
fn idle_producers_expire_unless_in_transaction() {
    let home = directory();
    let (now, partition) = begin(&home);
    let known = || -> Vec<i64> {
        let states: Vec<ProducerState> =
            partition.lane().with_writer(|writer| writer.producer_states()).unwrap();
        states.into_iter().map(|state| state.producer_id).collect()
    };
    let present = now_ms();
    append(&now, &partition, Builder::new().producer(1, 0, 0), (present, present - 30 * DAY_MS));
    append(
        &now,
        &partition,
        Builder::new().producer(2, 0, 0).transactional(),
        (present, present - 30 * DAY_MS),
    );
    // The producer was active a moment ago, in spite of the timestamps of its records.
    append(&now, &partition, Builder::new().producer(3, 0, 0), (present - 30 * DAY_MS, present));
    assert_eq!(known(), [1, 2, 3]);
    now.broker.replicas().housekeeping().expire_producers(present);
    assert_eq!(known(), [2, 3]);
    let shorter = AlterConfig {
        key: "producer.id.expiration.ms".to_owned(),
        change: ConfigChange::Set("1000".to_owned()),
    };
    let changes = ConfigChanges::Single(vec![(ConfigResource::all_brokers(), vec![shorter])]);
    assert!(now.run(now.broker.controller().change_configs(changes, false)).pop().unwrap().is_ok());
    now.broker.replicas().housekeeping().expire_producers(present + 999);
    assert_eq!(known(), [2, 3]);
    now.broker.replicas().housekeeping().expire_producers(present + 1_000);
    assert_eq!(known(), [2]);
}

#[test]
fn search_by_time_does_not_block_shard() {
    let home = directory();
    let (now, partition) = begin(&home);
    append(&now, &partition, Builder::new(), (5, 5));
    let (others, waits) = mpsc::channel();
    let (requester, log) = (Requester::at([127, 0, 0, 1].into()), partition.shared_log());
    let search = now.broker.turns().searches.large.run(requester, move || {
        // Comes only if the requesting thread continues meanwhile.
        waits.recv_timeout(Duration::from_secs(60)).expect("the shard goes on");
        log.times().first_at(1)
    });
    let (found, ()) = now.run(async { tokio::join!(search, async { others.send(()).unwrap() }) });
    assert_eq!(found.unwrap().unwrap().offset, 0);
}

#[test]
fn housekeeping_panic_does_not_skip_other_tasks() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let (now, partition) = begin_on(disk.clone(), &home, Ways::default());
    for time_ms in [now_ms() - 30 * DAY_MS, now_ms()] {
        append(&now, &partition, Builder::new(), (time_ms, now_ms()));
    }
    assert_eq!(partition.log().segment_count(), 2, "one is sealed, and has to be flushed");
    let checkpoint = home.path().join("replication-offset-checkpoint");
    let written = || std::fs::read_to_string(&checkpoint).unwrap_or_default().contains("t 0 2");
    assert!(!written());
    disk.break_down(Some("t-0"));
    assert!(
        std::panic::catch_unwind(AssertUnwindSafe(|| now.broker.replicas().housekeeping().keep_logs()))
            .is_err()
    );
    now.run(now.broker.keep_house());
    assert!(written(), "checkpoints come after the room that panics");
    disk.break_down(None);
}

#[test]
fn append_panic_takes_log_offline_without_clean_shutdown() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let (now, partition) = begin_on(disk.clone(), &home, Ways::default());
    append(&now, &partition, Builder::new(), (1, 1));
    disk.break_writes(Some("t-0"));
    let failing = AssertUnwindSafe(|| append(&now, &partition, Builder::new(), (2, 2)));
    assert!(std::panic::catch_unwind(failing).is_err());
    disk.break_writes(None);
    assert!(partition.log().is_offline());
    assert_eq!(now.broker.replicas().offline(), 1);
    now.broker.close();
    assert!(!home.path().join(".kafka_cleanshutdown").exists());
}
