//! Tests of the metrics that are kept.

use super::*;

const LIMITS: KeptLimits = KeptLimits { clients: 3, series: 4, bytes: 1 << 20 };

fn id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn origin(number: u8) -> Origin<'static> {
    Origin {
        instance_id: id(number),
        client_id: "orders",
        user: "alice",
        software: ("librdkafka", "2.6.0"),
        source: "127.0.0.1:4000".parse().expect("the text is an address"),
        interval_ms: 30_000,
        terminating: false,
    }
}

/// A field with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    [&[number << 3 | 2, length as u8 | 0x80, (length >> 7) as u8][..], content].concat()
}

fn attribute(name: &str, value: &str) -> Vec<u8> {
    [field(1, name.as_bytes()), field(2, &field(1, value.as_bytes()))].concat()
}

/// A metric with one point: field 5 is a gauge, field 7 a sum.
fn metric(name: &str, (kind, rest): (u8, &[u8]), value: f64, attributes: &[(&str, &str)]) -> Vec<u8> {
    let mut point = vec![4 << 3 | 1];
    point.extend(value.to_le_bytes());
    attributes.iter().for_each(|(name, value)| point.extend(field(7, &attribute(name, value))));
    let data = [field(1, &point), rest.to_vec()].concat();
    [field(1, name.as_bytes()), field(kind, &data)].concat()
}

fn gauge(name: &str, value: f64) -> Vec<u8> {
    metric(name, (5, &[]), value, &[])
}

/// A monotonic sum of changes.
fn delta(name: &str, value: f64) -> Vec<u8> {
    metric(name, (7, &[2 << 3, 1, 3 << 3, 1]), value, &[])
}

fn payload(metrics: &[Vec<u8>]) -> Vec<u8> {
    let scope: Vec<u8> = metrics.iter().flat_map(|metric| field(2, metric)).collect();
    let resource = field(1, &attribute("group_id", "readers"));
    field(1, &[field(1, &resource), field(2, &scope)].concat())
}

fn keep(kept: &mut KeptMetrics, number: u8, metrics: &[Vec<u8>]) {
    kept.keep(&origin(number), &payload(metrics), &LIMITS, 0).expect("the payload is whole");
}

/// Names, attributes and values of a client, sorted.
fn series_of(kept: &KeptMetrics, number: u8) -> Vec<(String, String, f64)> {
    let client = kept.client(id(number)).expect("the client is kept");
    let series =
        client.series().map(|(name, attributes, one)| (name.to_owned(), attributes.to_owned(), one.value));
    let mut series: Vec<_> = series.collect();
    series.sort_by(|one, other| one.partial_cmp(other).expect("no value is NaN"));
    series
}

#[test]
fn gauges_are_replaced_and_deltas_added() {
    let mut kept = KeptMetrics::default();
    keep(&mut kept, 1, &[gauge("a", 1.0), gauge("b", 2.0), delta("c", 3.0)]);
    keep(&mut kept, 1, &[gauge("a", 5.0), delta("c", 4.0), metric("d", (7, &[2 << 3, 2]), 8.0, &[])]);
    keep(&mut kept, 1, &[gauge("a", 6.0), metric("d", (7, &[2 << 3, 2]), 9.0, &[])]);
    let row = |name: &str, value| (name.to_owned(), String::new(), value);
    assert_eq!(series_of(&kept, 1), [row("a", 6.0), row("c", 7.0), row("d", 9.0)]);
    for _ in 0..SILENT_PUSHES_MAX {
        keep(&mut kept, 1, &[gauge("a", 6.0)]);
    }
    assert_eq!(series_of(&kept, 1), [row("a", 6.0)]);
    let about = kept.client(id(1)).expect("the client is kept").about;
    assert_eq!(about.labels.get("group_id").map(String::as_str), Some("readers"));
    assert_eq!((about.client_id.as_str(), about.version.as_str()), ("orders", "2.6.0"));
}

#[test]
fn each_attribute_set_is_a_series() {
    let mut kept = KeptMetrics::default();
    let with = |value| metric("a", (5, &[]), value, &[("topic", "t"), ("partition", "1")]);
    keep(&mut kept, 1, &[with(1.0), gauge("a", 3.0)]);
    let expected =
        [("a".to_owned(), String::new(), 3.0), ("a".to_owned(), "topic=t,partition=1".to_owned(), 1.0)];
    assert_eq!(series_of(&kept, 1), expected);
    let rows = kept.rows(10, &["a", "b"], |_| true);
    assert_eq!(rows[0].largest, [Some(3.0), None]);
}

#[test]
fn series_beyond_the_limit_are_counted() {
    let mut kept = KeptMetrics::default();
    let many: Vec<_> = (0..9).map(|number| gauge(&format!("m{number}"), 0.0)).collect();
    keep(&mut kept, 1, &many);
    assert_eq!((kept.series_count(), kept.left_out()), (LIMITS.series, 5));
    let odd = [gauge("", 0.0), gauge("a\nb", 0.0), gauge(&"x".repeat(600), 0.0)];
    keep(&mut kept, 2, &odd);
    keep(&mut kept, 3, &[metric("a", (5, &[]), 0.0, &[("x", &"y".repeat(600))])]);
    assert_eq!((kept.series_count(), kept.left_out()), (LIMITS.series, 9));
}

#[test]
fn oldest_telemetry_client_is_evicted() {
    let mut kept = KeptMetrics::default();
    for number in [1, 2, 3, 1, 4] {
        keep(&mut kept, number, &[gauge("a", 1.0)]);
    }
    let ids: Vec<u8> = kept.rows(10, &[], |_| true).iter().map(|row| row.instance_id.to_bytes()[0]).collect();
    assert_eq!(ids, [4, 1, 3]);
    assert_eq!(kept.evicted(), 1);
    let tight = KeptLimits { bytes: kept.bytes() - 1, ..LIMITS };
    kept.keep(&origin(4), &payload(&[gauge("a", 1.0)]), &tight, 0).expect("the payload is whole");
    assert_eq!((kept.len(), kept.evicted()), (2, 2));
    let none = KeptLimits { bytes: 0, ..LIMITS };
    kept.keep(&origin(4), &[], &none, 0).expect("the payload is whole");
    assert_eq!((kept.len(), kept.bytes()), (0, 0));
}

#[test]
fn silent_and_ended_telemetry_clients_are_dropped() {
    let mut kept = KeptMetrics::default();
    keep(&mut kept, 1, &[gauge("a", 1.0)]);
    let last = Origin { terminating: true, ..origin(2) };
    kept.keep(&last, &payload(&[gauge("a", 1.0)]), &LIMITS, 0).expect("the payload is whole");
    kept.expire(59_999);
    assert_eq!(kept.len(), 2);
    kept.expire(60_000);
    assert_eq!(kept.len(), 1);
    kept.expire(90_000);
    assert_eq!((kept.len(), kept.bytes()), (0, 0));
}

#[test]
fn exported_series_are_those_of_the_list() {
    let mut kept = KeptMetrics::default();
    keep(&mut kept, 1, &[gauge("a.x", 1.0), delta("a.y", 2.0), gauge("b", 3.0), gauge("a.z", f64::NAN)]);
    assert_eq!(kept.exported(&[], 10), (Vec::new(), 0));
    let (mut exported, beyond) = kept.exported(&["a.".to_owned()], 10);
    exported.sort_by(|one, other| one.name.cmp(&other.name));
    let found: Vec<_> = exported.iter().map(|one| (one.name.as_str(), one.value, one.is_counter)).collect();
    assert_eq!((found, beyond), (vec![("a.x", 1.0, false), ("a.y", 2.0, true)], 0));
    let (exported, beyond) = kept.exported(&["a.".to_owned()], 1);
    assert_eq!((exported.len(), beyond), (1, 1));
}

#[test]
fn long_names_are_cut_between_characters() {
    assert_eq!((cut("orders"), cut("")), ("orders".to_owned(), String::new()));
    assert_eq!(cut(&"é".repeat(200)), "é".repeat(128));
    assert_eq!(cut(&format!("x{}", "é".repeat(200))).len(), 255);
}

#[test]
fn damaged_payload_keeps_the_parts_before() {
    let mut kept = KeptMetrics::default();
    let mut damaged = payload(&[gauge("a", 1.0)]);
    damaged.push(0x0a);
    assert_eq!(kept.keep(&origin(1), &damaged, &LIMITS, 0), Err(Damaged::Truncated { bytes: 1, left: 0 }));
    assert_eq!(kept.series_count(), 1);
}
