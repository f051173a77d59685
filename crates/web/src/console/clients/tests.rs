//! Tests of the rows of clients.

use std::collections::BTreeMap;

use super::*;

#[test]
fn client_metrics_are_shown_in_short_form() {
    let table = [(0.0, "0"), (2.5, "2.5"), (1e6, "1000000"), (0.123_456, "0.123"), (f64::NAN, "—")];
    for (value, expected) in table {
        assert_eq!(number(value), expected);
    }
    assert_eq!((millis(Some(1.25)), millis(None)), ("1.2 ms".to_owned(), "—".to_owned()));
}

#[test]
fn rows_show_the_clients_latencies() {
    let about = About {
        client_id: "<orders>".to_owned(),
        user: "alice".to_owned(),
        software: "librdkafka".to_owned(),
        version: "2.6.0".to_owned(),
        source: ([127, 0, 0, 1], 4000).into(),
        labels: BTreeMap::new(),
        interval_ms: 1000,
        pushed_ms: steady_ms(),
        ended: true,
        left_out: 0,
    };
    let mut largest = vec![None; SHOWN.len()];
    (largest[1], largest[3], largest[8]) = (Some(12.34), Some(99.0), Some(0.5));
    let row = ClientRow { instance_id: Uuid::from_bytes([7; 16]), about, series_count: 42, largest };
    let text = rows(&[row]).into_string();
    for part in
        ["&lt;orders&gt;", "id=BwcHBwcHBwcHBwcHBwcHBw", "12.3 ms", "99.0 ms", "50 %", ">42<", "the last one"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
