//! Tests of how values are shown.

use super::*;

#[test]
fn sizes_counts_and_durations_have_the_fitting_unit() {
    assert_eq!(bytes(0), "0 B");
    assert_eq!(bytes(1023), "1023 B");
    assert_eq!(bytes(1536), "1.50 KiB");
    assert_eq!(bytes(u64::MAX), "16384 PiB");
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1_234_567), "1,234,567");
    assert_eq!(count(-1000), "-1,000");
    assert_eq!(duration(Duration::from_millis(12)), "12 ms");
    assert_eq!(duration(Duration::from_secs(3_725)), "1 h 2 min");
    assert_eq!(duration(Duration::from_secs(7 * 86_400)), "7 d");
    assert_eq!(duration(Duration::from_secs(90_000)), "1 d 1 h");
    assert_eq!((millis(60_000), millis(3_600_000)), ("1 min".to_owned(), "1 h".to_owned()));
    assert_eq!(millis(-1), "—");
}

#[test]
fn displayed_time_parses_to_itself() {
    assert_eq!(time(1_795_255_200_123), "2026-11-21 10:00:00.123");
    assert_eq!(parse_time("2026-11-21T10:00"), Some(1_795_255_200_000));
    assert_eq!(time(-1), "none");
    assert_eq!(parse_time("yesterday"), None);
}

#[test]
fn record_bytes_are_shown_in_fitting_form() {
    let json = shown(br#"{"a":[1,2]}"#, 100);
    assert_eq!((json.form, json.text.as_str()), ("json", "{\n  \"a\": [\n    1,\n    2\n  ]\n}"));
    let text = shown("<script>ü</script>".as_bytes(), 100);
    assert_eq!((text.form, text.text.as_str(), text.left_out), ("text", "<script>ü</script>", 0));
    let binary = shown(&[0, 255, 65], 100);
    assert_eq!(binary.form, "hex");
    assert!(
        binary.text.starts_with("000000  00 ff 41 ") && binary.text.ends_with("..A\n"),
        "{}",
        binary.text
    );
}

#[test]
fn shown_json_keeps_digits_order_and_repeated_fields() {
    let value = r#"{"z":12345678901234567890.10,"a":1e400, "z":[],"s":"{\"x\\\",[ 1]", "o":{ }}"#;
    let expected = [
        "{",
        "  \"z\": 12345678901234567890.10,",
        "  \"a\": 1e400,",
        "  \"z\": [],",
        "  \"s\": \"{\\\"x\\\\\\\",[ 1]\",",
        "  \"o\": {}",
        "}",
    ];
    let json = shown(value.as_bytes(), 4096);
    assert_eq!((json.form, json.text.as_str()), ("json", expected.join("\n").as_str()));
    assert_eq!(shown(b"{\"a\":1} x", 100).form, "text");
}

#[test]
fn deep_json_is_shown_as_text() {
    let deep = format!("{}{}1{}", "[".repeat(100), "1,".repeat(1000), "]".repeat(100));
    let shown = shown(deep.as_bytes(), 4096);
    assert_eq!((shown.form, shown.text, shown.left_out), ("text", deep, 0));
}

#[test]
fn a_long_value_is_cut_between_two_characters() {
    let long = "ü".repeat(100);
    let cut = shown(long.as_bytes(), 51);
    assert_eq!((cut.form, cut.text.as_str(), cut.left_out), ("text", "ü".repeat(25).as_str(), 150));
    let binary = shown(&[0; 100], 64);
    assert_eq!((binary.form, binary.left_out), ("hex", 84));
}

#[test]
fn linked_name_is_percent_encoded() {
    assert_eq!(linked("a.b-c_1"), "a.b-c_1");
    assert_eq!(linked("../x?y=\"<ü"), "..%2Fx%3Fy%3D%22%3C%C3%BC");
}

#[test]
fn a_noun_has_its_plural() {
    assert_eq!(counted(1, "group"), "1 group");
    assert_eq!((counted(0, "group"), counted(1000, "group")), ("0 groups".into(), "1,000 groups".into()));
}
