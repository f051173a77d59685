//! Texts of keys, and the partition of a key as Java computes it.

use levada_wire::Uuid;

use super::ShareKey;
use crate::machine::partition_for;

/// Texts, Java's hash of each made positive, and the partition of 50.
const HASHES: [(&str, i32, i32); 3] = [
    ("g:AAAAAAAAAAAAAAAAAAAAAA:0", 92_982_199, 49),
    ("orders:MDEyMzQ1Njc4OWFiY2RlZg:5", 794_613_984, 34),
    ("a:b:_____________________w:7", 1_325_871_418, 18),
];

fn key(group_id: &str, topic_id: u128, partition: i32) -> ShareKey {
    ShareKey { group_id: group_id.into(), topic_id: Uuid::from_bytes(topic_id.to_be_bytes()), partition }
}

#[test]
fn share_key_text_round_trips() {
    for (key, text) in [
        (key("g", 0, 0), "g:AAAAAAAAAAAAAAAAAAAAAA:0"),
        (key("a:b", u128::MAX, 7), "a:b:_____________________w:7"),
        (key("ü", 1, i32::MAX), "ü:AAAAAAAAAAAAAAAAAAAAAQ:2147483647"),
    ] {
        assert_eq!(key.to_string(), text);
        assert_eq!(ShareKey::parse(text), Some(key), "{text}");
    }
}

#[test]
fn invalid_share_key_texts_are_refused() {
    for text in [
        "",
        "g",
        "g:AAAAAAAAAAAAAAAAAAAAAA",
        ":AAAAAAAAAAAAAAAAAAAAAA:0",
        "  :AAAAAAAAAAAAAAAAAAAAAA:0",
        "g:AAAAAAAAAAAAAAAAAAAAA:0",
        "g:topic:0",
        "g:AAAAAAAAAAAAAAAAAAAAAA:",
        "g:AAAAAAAAAAAAAAAAAAAAAA:x",
        "g:AAAAAAAAAAAAAAAAAAAAAA:2147483648",
    ] {
        assert_eq!(ShareKey::parse(text), None, "{text}");
    }
}

#[test]
fn key_text_determines_its_partition() {
    for (text, hash, partition) in HASHES {
        assert!(ShareKey::parse(text).is_some(), "{text}");
        assert_eq!((partition_for(text, i32::MAX), partition_for(text, 50)), (hash, partition), "{text}");
    }
}
