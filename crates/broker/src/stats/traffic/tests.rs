//! Tests of the rates of clients.

use super::*;

const STEP_MS: i64 = SAMPLE_STEP.as_millis() as i64;

/// A book that was sampled once, at the time 0.
fn book() -> TrafficBook {
    let book = TrafficBook::default();
    book.sample(0);
    book
}

fn rates(name: &str, produced: f64, fetched: f64) -> ByteRates {
    ByteRates { name: name.to_owned(), produced, fetched }
}

#[test]
fn rates_add_up_by_client_id_and_user() {
    let book = book();
    book.client("alice", "import").produced(3000);
    book.client("bob", "import").fetched(500);
    book.client("bob", "").produced(1000);
    let busiest = book.busiest(20, 10_000);
    assert_eq!(busiest.client_ids, [rates("import", 300.0, 50.0), rates("", 100.0, 0.0)]);
    assert_eq!(busiest.users, [rates("alice", 300.0, 0.0), rates("bob", 100.0, 50.0)]);
}

#[test]
fn a_rate_covers_the_last_minute() {
    let book = book();
    let client = book.client("alice", "import");
    client.produced(60_000);
    for sample in 1..=6 {
        book.sample(sample * STEP_MS);
        let seconds = (sample * 10) as f64;
        assert_eq!(book.busiest(1, sample * STEP_MS).users, [rates("alice", 60_000.0 / seconds, 0.0)]);
    }
    client.fetched(700);
    book.sample(7 * STEP_MS);
    assert_eq!(book.busiest(1, 8 * STEP_MS).users, [rates("alice", 0.0, 10.0)], "a minute and a step");
}

#[test]
fn each_direction_has_its_leaders() {
    let book = book();
    for number in 0..10 {
        let client = book.client("alice", &format!("reader-{number}"));
        client.fetched(1_000_000 + number);
        client.produced(1);
    }
    book.client("alice", "writer").produced(20_000);
    let busiest = book.busiest(2, 10_000);
    let names: Vec<&str> = busiest.client_ids.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["reader-9", "reader-8", "reader-0", "writer"], "the second writer is a reader");
    assert_eq!(busiest.users.len(), 1);
}

#[test]
fn idle_counters_without_connection_are_dropped() {
    let book = book();
    let open = book.client("alice", "open");
    book.client("alice", "closed").produced(100);
    for sample in 1..=7 {
        book.sample(sample * STEP_MS);
        assert_eq!(book.0.lock().clients.len(), 2, "sample {sample} shows the bytes");
    }
    book.sample(8 * STEP_MS);
    assert_eq!(book.0.lock().clients.len(), 1);
    open.produced(5);
    assert_eq!(book.busiest(20, 8 * STEP_MS).client_ids.len(), 1, "the open connection counts on");
}

#[test]
fn clients_without_room_count_as_others() {
    let book = book();
    let open: Vec<_> = (0..CLIENTS_MAX).map(|number| book.client("alice", &number.to_string())).collect();
    book.client("alice", "late").produced(10_000);
    book.client("bob", "later").produced(10_000);
    assert_eq!(book.client("alice", "7").client_id, open[7].client_id, "a known client has its counters");
    assert_eq!(book.busiest(20, 10_000).users, [rates(OTHER, 2000.0, 0.0)]);
    assert_eq!(book.0.lock().clients.len(), CLIENTS_MAX);
    drop(open);
    book.client("bob", "last").produced(70_000);
    assert_eq!(book.busiest(20, 10_000).users[0], rates("bob", 7000.0, 0.0), "closed connections make room");
}

#[test]
fn names_are_cut_between_characters() {
    let book = book();
    book.client("é", &"é".repeat(1000)).produced(10);
    book.client("é", &"é".repeat(NAME_MAX)).produced(10);
    let busiest = book.busiest(20, 10_000);
    assert_eq!(busiest.client_ids, [rates(&"é".repeat(NAME_MAX), 2.0, 0.0)]);
    assert_eq!(&*shortened("short"), "short");
}
