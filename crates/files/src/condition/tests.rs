//! Conditions by themselves and in the order of RFC 9110.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Validators, Verdict, evaluate, range_applies};
use crate::request::{Parsed, parse, room};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn modified() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn verdict(fields: &[(&str, &str)]) -> Verdict {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let mut room = room();
    match parse(text.as_bytes(), &mut room) {
        Ok(Parsed::Whole(head, _)) => {
            evaluate(&head, Validators { etag: b"\"a\"", modified: Some(modified()) })
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn entity_tags_precede_dates() {
    use Verdict::{Failed, NotModified, Proceed};
    for (fields, expected) in [
        (&[][..], Proceed),
        (&[("If-None-Match", "\"a\"")], NotModified),
        (&[("If-None-Match", "W/\"a\"")], NotModified),
        (&[("If-None-Match", "\"b\", \"a\"")], NotModified),
        (&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], NotModified),
        (&[("If-None-Match", "*")], NotModified),
        (&[("If-None-Match", "\"b\"")], Proceed),
        (&[("If-None-Match", "\"b,*,c\"")], Proceed),
        (&[("If-None-Match", "\"b,c\" , , W/\"a\"")], NotModified),
        (&[("If-Match", "\"b, *\"")], Failed),
        (&[("If-None-Match", "\"b\""), ("If-Modified-Since", DATE)], Proceed),
        (&[("If-Modified-Since", DATE)], NotModified),
        (&[("If-Modified-Since", LATER)], Proceed),
        (&[("If-Modified-Since", EARLIER)], Proceed),
        (&[("If-Modified-Since", "yesterday")], Proceed),
        (&[("If-Match", "\"a\"")], Proceed),
        (&[("If-Match", "*")], Proceed),
        (&[("If-Match", "W/\"a\"")], Failed),
        (&[("If-Match", "\"b\"")], Failed),
        (&[("If-Match", "\"a\""), ("If-Unmodified-Since", EARLIER)], Proceed),
        (&[("If-Unmodified-Since", DATE)], Proceed),
        (&[("If-Unmodified-Since", EARLIER)], Failed),
        (&[("If-Unmodified-Since", EARLIER), ("If-None-Match", "\"a\"")], Failed),
        (&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified),
    ] {
        assert_eq!(verdict(fields), expected, "{fields:?}");
    }
}

#[test]
fn if_range_applies_only_to_the_named_version() {
    let current = Validators { etag: b"\"a\"", modified: Some(modified()) };
    let (late, soon) = (modified() + Duration::from_secs(60), modified() + Duration::from_millis(500));
    let applies = |value: &str, now| range_applies(Some(value.as_bytes()), current, now);
    assert!(range_applies(None, current, late));
    assert!(applies("\"a\"", soon) && applies(DATE, late));
    assert!(!applies(DATE, soon), "another version of the same second would have the same date");
    for other in ["\"b\"", "W/\"a\"", LATER, EARLIER, "x", ""] {
        assert!(!applies(other, late), "{other}");
    }
}
