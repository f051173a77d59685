//! Tests of the schedule, the limits and the percentiles.

use std::time::Instant;

use super::load::{Records, Schedule};
use super::meter::{Done, Meter};
use super::*;

fn extent(records: Option<u64>, warm_up: i64) -> Extent {
    Extent { records, duration: None, warm_up, format: FormatArgs::default() }
}

#[test]
fn bench_due_time_is_independent_of_responses() {
    let start = Instant::now();
    let schedule = Schedule::new(start, 1000.0);
    assert_eq!(schedule.due(0), start);
    assert_eq!(schedule.due(5000), start + Duration::from_secs(5));
}

#[test]
fn bench_counts_records_exactly_without_warm_up() {
    let meter = Meter::new(&extent(Some(10), 0));
    let now = Instant::now();
    assert_eq!([meter.claim(now, 7), meter.claim(now, 7), meter.claim(now, 7)], [7, 3, 0]);
    let meter = Meter::new(&extent(Some(10), 60_000));
    let now = Instant::now();
    assert_eq!(meter.claim(now, 100), 100, "the warm-up has no limit");
    meter.note(&Done { since: now, records: 100, bytes: 1, is_answered: true });
    assert_eq!(meter.records(), 0, "the warm-up is not counted");
}

#[test]
fn bench_latency_starts_at_due_time() {
    let meter = Meter::new(&extent(None, 0));
    let due = Instant::now();
    let sent_late = Done { since: due, records: 1, bytes: 1, is_answered: true };
    while due.elapsed() < Duration::from_millis(3) {
        std::hint::spin_loop();
    }
    meter.note(&sent_late);
    let measured = meter.run(Vec::new()).unwrap();
    assert!(measured.tally.latencies.max() >= 3000, "{:?}", measured.tally.latencies.max());
}

#[test]
fn bench_batch_has_requested_record_size() {
    let records = Records::new(100, levada_base::compress::Compression::None);
    let batch = records.batch(3, 7).unwrap();
    let values: Vec<_> =
        levada_base::batch::records(&batch).unwrap().map(|one| one.unwrap().value.unwrap()).collect();
    assert_eq!(values.len(), 7);
    assert!(values.iter().all(|value| value.len() == 100));
    assert_ne!(values[0], values[1]);
    let batch = records.marked(0, [7; 16]).unwrap();
    let value = levada_base::batch::records(&batch).unwrap().next().unwrap().unwrap().value.unwrap();
    assert_eq!((&value[..16], value.len()), (&[7; 16][..], 100));
}
