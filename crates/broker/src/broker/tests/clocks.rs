//! The wall clock is set while the broker runs: durations follow the steady clock.

use std::sync::Arc;

use levada_base::Requester;
use levada_base::batch::Builder;
use levada_log::crash_disk::Recorder;
use levada_process::clock::{now_ms, skew, steady_ms};

use super::crash::directory;
use super::crash::life::Ways;
use super::upkeep::{append, begin_on};
use crate::fetch_session::{FetchSession, SessionPlan, SessionRequest};

const DAY_MS: i64 = 86_400_000;

#[test]
fn wall_clock_jump_keeps_fetch_sessions_and_files() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let mut ways = Ways::default();
    ways.late = true;
    let (now, partition) = begin_on(disk, &home, ways);
    for time_ms in [now_ms() - 30 * DAY_MS, now_ms()] {
        append(&now, &partition, Builder::new(), (time_ms, now_ms()));
    }
    assert_eq!(now.broker.replicas().delete_records(&partition, 1), Ok(1));
    let marked = || {
        let entries = std::fs::read_dir(&*partition.log().dir()).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "deleted"))
            .count()
    };
    let files = marked();
    assert!(files > 0, "the first segment waits for its removal");
    assert_eq!(
        now.broker.fetch_sessions().open(
            &Requester::Broker,
            FetchSession::of(true, Vec::new()),
            || 1,
            steady_ms()
        ),
        1
    );
    skew::by(DAY_MS, || now.broker.keep_rooms());
    assert_eq!(marked(), files);
    let next = SessionRequest { session_id: 1, epoch: 1, by_id: true };
    let continued = now.broker.fetch_sessions().begin(next, Vec::new, &[], steady_ms());
    assert!(matches!(continued, Ok(SessionPlan::Sessionless)), "a session of no partition that was there");
}
