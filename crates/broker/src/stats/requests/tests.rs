//! Tests of the tables of requests.

use super::*;

fn totals(tables: &RequestTables, api: &str) -> ApiTotals {
    tables.totals().into_iter().find(|(name, _)| *name == api).expect("it was asked for").1
}

#[test]
fn every_api_and_every_code_has_a_counter() {
    let tables = RequestTables::default();
    let recorder = tables.recorder();
    for api in APIS {
        recorder.received(api.key, 10);
        for code in -1..ERROR_SLOTS as i16 - 1 {
            recorder.error(api.key, code);
        }
    }
    assert_eq!(tables.totals().len(), APIS.len());
    let counted: u64 = totals(&tables, "Fetch").errors.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, ERROR_SLOTS as u64);
    assert!(totals(&tables, "Fetch").errors.contains(&("INVALID_REGULAR_EXPRESSION", 1)));
}

#[test]
fn unnamed_error_code_counts_as_unknown_error() {
    let tables = RequestTables::default();
    let recorder = tables.recorder();
    recorder.received(ApiKey::Fetch, 1);
    for code in [-1, i16::MIN, i16::MAX, 150] {
        recorder.error(ApiKey::Fetch, code);
    }
    assert_eq!(totals(&tables, "Fetch").errors, [("UNKNOWN_SERVER_ERROR", 4)]);
}

#[test]
fn tables_of_all_threads_add_up() {
    let tables = RequestTables::default();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let recorder = tables.recorder();
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    recorder.received(ApiKey::Produce, 7);
                    recorder.error(ApiKey::Produce, 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let counted = totals(&tables, "Produce");
    assert_eq!((counted.requests, counted.request_bytes), (3000, 21_000));
    assert_eq!(counted.errors, [("NONE", 3000)]);
}

#[test]
fn request_time_is_split_into_phases() {
    let tables = RequestTables::default();
    let recorder = tables.recorder();
    recorder.received(ApiKey::Fetch, 1);
    let received = Instant::now();
    let answered = Answered {
        api: ApiKey::Fetch,
        received,
        there: received + Duration::from_millis(500),
        local: Duration::from_micros(100),
        bytes: 1234,
    };
    recorder.sent(&answered, received + Duration::from_millis(502));
    recorder.throttled(ApiKey::Fetch, Duration::from_secs(60));
    let counted = totals(&tables, "Fetch");
    assert_eq!(counted.response_bytes, 1234);
    let sums_us = Phase::ALL.map(|phase| counted.phases[phase as usize].sum_ns / 1000);
    assert_eq!(sums_us, [502_000, 100, 499_900, 60_000_000, 2_000]);
    let buckets = Phase::ALL.map(|phase| {
        counted.phases[phase as usize].buckets.iter().position(|count| *count == 1).expect("one")
    });
    // A bound belongs to its bucket; more than the last bound has a bucket of its own.
    assert_eq!(buckets, [12, 0, 11, 16, 4]);
}
