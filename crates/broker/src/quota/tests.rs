//! The limit that holds, and its effect.

use levada_metadata::image::{Image, Position};
use levada_metadata::records::{ClientQuotaRecord, Record};
use levada_process::clock::skew;

use super::*;

type Named<'a> = (&'a str, Option<&'a str>);

fn limits(set: &[(&[Named<'_>], &str, f64)]) -> Accounts {
    let mut image = Image::empty();
    for (entity, key, value) in set {
        let part = |(kind, name): &Named<'_>| ((*kind).to_owned(), name.map(str::to_owned));
        let record = ClientQuotaRecord {
            entity: entity.iter().map(part).collect(),
            key: (*key).to_owned(),
            value: *value,
            remove: false,
        };
        image.apply(&Record::from(record), Position::default()).unwrap();
    }
    let mut accounts = Accounts::default();
    accounts.set_limits(image.quotas().clone());
    accounts
}

const ANN: Client<'_> = Client { user: "ann", client_id: "app" };

#[test]
fn most_specific_quota_applies() {
    let (user, app) = (("user", Some("ann")), ("client-id", Some("app")));
    let (any_user, any_client) = (("user", None), ("client-id", None));
    let levels: [&[Named<'_>]; 8] = [
        &[user, app],
        &[user, any_client],
        &[user],
        &[any_user, app],
        &[any_user, any_client],
        &[any_user],
        &[app],
        &[any_client],
    ];
    let set: Vec<_> = levels
        .iter()
        .zip(1_i32..)
        .map(|(level, value)| (*level, "producer_byte_rate", f64::from(value)))
        .collect();
    for first in 0..levels.len() {
        let accounts = limits(&set[first..]);
        assert_eq!(accounts.limit(Used::Produced, ANN), Some(f64::from(first as i32 + 1)), "{first}");
        assert_eq!(accounts.limit(Used::Fetched, ANN), None);
    }
    let other = Client { user: "bob", client_id: "tool" };
    assert_eq!(limits(&set).limit(Used::Produced, other), Some(5.0));
    assert_eq!(limits(&[(&[user], "producer_byte_rate", 1.0)]).limit(Used::Produced, other), None);
}

#[test]
fn non_numeric_quota_limits_nothing() {
    let (user, anyone, ip) = (("user", Some("ann")), ("user", None), ("ip", None));
    let mut accounts = limits(&[
        (&[user], "producer_byte_rate", f64::NAN),
        (&[anyone], "producer_byte_rate", 1.0),
        (&[ip], "connection_creation_rate", f64::NAN),
    ]);
    assert_eq!(accounts.book(Used::Produced, ANN, 1e9, 0), Duration::ZERO);
    let bob = Client { user: "bob", ..ANN };
    assert!(accounts.book(Used::Produced, bob, 1e9, 0) > Duration::ZERO);
    for _ in 0..100 {
        assert_eq!(accounts.book_connection(IpAddr::from([127, 0, 0, 1]), 0), Duration::ZERO);
    }
}

#[test]
fn client_over_quota_waits_until_rate_recovers() {
    let mut accounts = limits(&[(&[("client-id", None)], "producer_byte_rate", 1000.0)]);
    // Ten seconds' worth in a burst are within the limit.
    assert_eq!(accounts.book(Used::Produced, ANN, 10_000.0, 0), Duration::ZERO);
    // Half as much again takes five seconds to make up for.
    assert_eq!(accounts.book(Used::Produced, ANN, 5_000.0, 0), Duration::from_secs(5));
    // Limits for all clients count each client apart.
    let other = Client { client_id: "tool", ..ANN };
    assert_eq!(accounts.book(Used::Produced, other, 10_000.0, 0), Duration::ZERO);
    assert_eq!(accounts.book(Used::Produced, ANN, 0.0, 5_000), Duration::from_secs(5));
    assert_eq!(accounts.book(Used::Produced, ANN, 0.0, 15_000), Duration::ZERO);
    assert_eq!(accounts.book(Used::Produced, ANN, 10_001.0, 30_000), Duration::from_millis(1));
    accounts.take_back(Used::Produced, ANN, 10_001.0, 30_000);
    assert_eq!(accounts.book(Used::Produced, ANN, 10_000.0, 30_000), Duration::ZERO);
    assert_eq!(accounts.book(Used::Fetched, ANN, 1e9, 30_000), Duration::ZERO);
}

#[test]
fn request_time_throttle_never_exceeds_one_second() {
    let mut accounts = limits(&[(&[("user", Some("ann"))], "request_percentage", 1.0)]);
    assert_eq!(accounts.book(Used::Time, ANN, 10_000.0, 0), Duration::from_secs(1));
}

#[test]
fn strict_mutation_quota_refuses_client_in_debt() {
    let mut accounts = limits(&[(&[("user", Some("ann"))], "controller_mutation_rate", 2.0)]);
    let (granted, refused) =
        (|wait| Taking { is_refused: false, wait }, |wait| Taking { is_refused: true, wait });
    let none = Duration::ZERO;
    // Eleven seconds' worth, and it may take more than there is.
    assert_eq!(accounts.take_mutations(ANN, 21, true, 0), granted(none));
    assert_eq!(accounts.take_mutations(ANN, 11, true, 0), granted(none));
    assert_eq!(accounts.take_mutations(ANN, 1, true, 0), refused(Duration::from_secs(5)));
    assert_eq!(accounts.take_mutations(ANN, 1, true, 4_000), refused(Duration::from_secs(1)));
    assert_eq!(accounts.take_mutations(ANN, 1, true, 5_000), granted(none), "it owes nothing");
    assert_eq!(accounts.take_mutations(ANN, 0, true, 5_000), refused(Duration::from_millis(500)));
    // Unused tokens are kept for eleven seconds only.
    assert_eq!(accounts.take_mutations(ANN, 23, true, 3_600_000), granted(none));
    assert_eq!(accounts.take_mutations(ANN, 1, true, 3_600_000), refused(Duration::from_millis(500)));
    let bob = Client { user: "bob", ..ANN };
    assert_eq!(accounts.take_mutations(bob, 1_000, true, 0), granted(none), "it has no limit");
}

#[test]
fn permissive_mutation_quota_throttles_without_refusing() {
    let mut accounts = limits(&[(&[("client-id", None)], "controller_mutation_rate", 1.0)]);
    let mut take = |count, now_ms| accounts.take_mutations(ANN, count, false, now_ms);
    assert_eq!(take(11, 0), Taking::default());
    assert_eq!(take(2, 0), Taking { is_refused: false, wait: Duration::from_secs(2) });
    assert_eq!(take(1, 1_000), Taking { is_refused: false, wait: Duration::from_secs(2) });
    assert_eq!(take(1, 5_000), Taking::default());
}

#[test]
fn unused_quota_buckets_expire_and_are_bounded() {
    let mut accounts = limits(&[(&[("client-id", None)], "controller_mutation_rate", 1.0)]);
    let mut take = |number: usize, now_ms| {
        let client_id = number.to_string();
        let taking = accounts.take_mutations(Client { client_id: &client_id, ..ANN }, 7, true, now_ms);
        (taking.is_refused, accounts.buckets.len())
    };
    for number in 0..METERS_MAX {
        assert_eq!(take(number, 0), (false, number + 1));
    }
    assert_eq!(take(METERS_MAX, 1), (false, METERS_MAX / 2 + 1), "the oldest have made room");
    for number in 1..3 {
        assert_eq!(take(METERS_MAX + number, 1), (false, METERS_MAX / 2 + 1 + number), "none is shared");
    }
    assert_eq!(take(0, METER_KEPT_MS + 1), (false, 1));
}

#[test]
fn unused_quota_meters_expire_after_one_hour() {
    const HOUR_MS: i64 = 3_600_000;
    let mut accounts = limits(&[(&[("client-id", None)], "producer_byte_rate", 1000.0)]);
    for number in 0..5_000 {
        let client_id = format!("{number}{}", "x".repeat(30_000));
        accounts.book(Used::Produced, Client { client_id: &client_id, ..ANN }, 1.0, 0);
    }
    assert_eq!(accounts.meters.len(), 5_000);
    accounts.book(Used::Produced, ANN, 1.0, HOUR_MS - 1);
    assert_eq!(accounts.meters.len(), 5_001);
    accounts.book(Used::Produced, ANN, 1.0, HOUR_MS + 60_000);
    assert_eq!(accounts.meters.len(), 1);
    // Asking alone makes none.
    assert!(accounts.is_idle(Used::Fetched, ANN, HOUR_MS) && accounts.meters.len() == 1);
}

#[test]
fn many_client_ids_share_no_quota_meter() {
    let mut accounts = limits(&[(&[("client-id", None)], "producer_byte_rate", 1000.0)]);
    let mut book = |number: usize, bytes: f64, now_ms| {
        let client_id = number.to_string();
        let wait = accounts.book(Used::Produced, Client { client_id: &client_id, ..ANN }, bytes, now_ms);
        (wait, accounts.meters.len())
    };
    for number in 0..METERS_MAX {
        assert_eq!(book(number, 6_000.0, 0).0, Duration::ZERO);
    }
    book(7, 1.0, 1_000);
    assert_eq!(book(METERS_MAX, 6_000.0, 1_000), (Duration::ZERO, METERS_MAX / 2 + 1));
    assert_eq!(book(METERS_MAX + 1, 6_000.0, 1_000), (Duration::ZERO, METERS_MAX / 2 + 2), "a new client");
    assert!(!book(7, 6_000.0, 1_001).0.is_zero(), "a client that was active lately keeps its use");
}

#[test]
fn new_client_is_idle_despite_many_ids() {
    let mut accounts = limits(&[(&[("client-id", None)], "consumer_byte_rate", 1000.0)]);
    for number in 0..METERS_MAX + 10 {
        accounts.book(Used::Fetched, Client { client_id: &number.to_string(), ..ANN }, 6_000.0, 0);
    }
    let (further, another) = (Client { client_id: "further", ..ANN }, Client { client_id: "another", ..ANN });
    accounts.book(Used::Fetched, another, 6_000.0, 500);
    assert!(accounts.is_idle(Used::Fetched, further, 500));
    assert!(!accounts.is_idle(Used::Fetched, another, 500));
}

#[test]
fn many_addresses_share_no_quota_meter() {
    let mut accounts = limits(&[(&[("ip", None)], "connection_creation_rate", 0.1)]);
    let address = |number: usize| IpAddr::from((1 << 64 | number as u128).to_be_bytes());
    for number in 0..ADDRESSES_MAX + 500 {
        assert_eq!(accounts.book_connection(address(number), 0), Duration::ZERO);
        assert!(accounts.connections.len() <= ADDRESSES_MAX);
    }
    let idle_ms = SAMPLES as i64 * SAMPLE_MS;
    assert_eq!(accounts.book_connection(address(ADDRESSES_MAX + 500), idle_ms), Duration::ZERO);
    assert_eq!(accounts.connections.len(), 1, "the others opened none lately");
}

#[test]
fn excess_connection_waits_until_rate_recovers() {
    let address = IpAddr::from([127, 0, 0, 1]);
    for (limit, wait_ms) in [(2, 500), (5, 200), (10, 100)] {
        let mut accounts = limits(&[(&[("ip", None)], "connection_creation_rate", f64::from(limit))]);
        for _ in 0..10 * limit {
            assert_eq!(accounts.book_connection(address, 0), Duration::ZERO);
        }
        assert_eq!(accounts.book_connection(address, 0), Duration::from_millis(wait_ms));
        // The refused connection does not count.
        assert_eq!(accounts.book_connection(address, 0), Duration::from_millis(wait_ms));
    }
    let mut accounts = limits(&[(&[("ip", None)], "connection_creation_rate", 0.0)]);
    assert_eq!(accounts.book_connection(address, 0), Duration::from_secs(1));
}

#[test]
fn address_quota_holds_in_every_notation() {
    for name in ["2001:DB8:0:0:0:0:0:1", "2001:db8::1", "::ffff:10.0.0.1", "10.0.0.1"] {
        let mut accounts = limits(&[(&[("ip", Some(name))], "connection_creation_rate", 1.0)]);
        let address = name.parse::<IpAddr>().unwrap().to_canonical();
        let mut connect = |address| (0..100).any(|_| !accounts.book_connection(address, 0).is_zero());
        assert!(connect(address), "{name}");
        assert!(!connect(IpAddr::from([10, 0, 0, 2])), "{name}");
    }
}

#[test]
fn clock_change_neither_forgives_nor_prolongs_throttle() {
    let mut image = Image::empty();
    let record = ClientQuotaRecord {
        entity: vec![("user".to_owned(), Some("ann".to_owned()))],
        key: "producer_byte_rate".to_owned(),
        value: 1000.0,
        remove: false,
    };
    image.apply(&Record::from(record), Position::default()).unwrap();
    for skew_ms in [-86_400_000, 86_400_000] {
        let book = QuotaBook::default();
        book.set_limits(image.quotas());
        let wait = book.book(Used::Produced, ANN, 1_000_000.0);
        assert!(!wait.is_zero());
        let later = skew::by(skew_ms, || book.book(Used::Produced, ANN, 1.0));
        assert!(later > wait / 2 && later <= wait * 2, "{wait:?}, {later:?} by {skew_ms}");
    }
}

#[test]
fn quota_usage_names_sharing_clients() {
    let mut accounts = limits(&[
        (&[("user", None)], "producer_byte_rate", 1000.0),
        (&[("client-id", Some("app"))], "consumer_byte_rate", 500.0),
    ]);
    let long = "x".repeat(100);
    let client = |user| Client { user, client_id: "app" };
    accounts.book(Used::Produced, client("ann"), 1_000.0, 0);
    accounts.book(Used::Produced, client(&long), 5_000.0, 0);
    accounts.book(Used::Fetched, client("ann"), 4_000.0, 0);
    accounts.book(Used::Time, client("ann"), 50.0, 0);
    let uses = accounts.uses(10, 0);
    let named = |one: &QuotaUse| (one.quota, one.user.clone(), one.client_id.clone(), one.rate, one.limit);
    let expected = [
        ("consumer_byte_rate", String::new(), "app".to_owned(), 400.0, 500.0),
        ("producer_byte_rate", long[..64].to_owned(), String::new(), 500.0, 1000.0),
        ("producer_byte_rate", "ann".to_owned(), String::new(), 100.0, 1000.0),
    ];
    assert_eq!(uses.iter().map(named).collect::<Vec<_>>(), expected);
    assert_eq!(accounts.uses(1, 0), uses[..1]);
    // Two names that are equal where they are cut are one series.
    accounts.book(Used::Produced, client(&"x".repeat(99)), 9_000.0, 0);
    assert_eq!(accounts.uses(10, 0).len(), 3);
    assert!(accounts.uses(10, METER_KEPT_MS).is_empty(), "the use has ended");
}
