//! Ids as Kafka prints them.

use proptest::prelude::*;

use super::*;

#[test]
fn id_text_matches_kafka() {
    let check = |hex: u128, expected: &str| {
        assert_eq!(text(Uuid::from_bytes(hex.to_be_bytes())), expected);
        assert_eq!(parse(expected), Some(Uuid::from_bytes(hex.to_be_bytes())));
    };
    check(0, "AAAAAAAAAAAAAAAAAAAAAA");
    check(1, "AAAAAAAAAAAAAAAAAAAAAQ");
    check(0x68ea_c729_3e77_41b7_9b98_d9b0_b5d4_79cf, "aOrHKT53QbebmNmwtdR5zw");
}

#[test]
fn invalid_text_is_not_an_id() {
    for text in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAA+A", "ÄAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn random_ids_differ_and_never_start_with_dash() {
    let ids: std::collections::HashSet<_> = (0..500).map(|_| random()).collect();
    assert_eq!(ids.len(), 500);
    assert!(ids.iter().all(|id| !text(*id).starts_with('-')));
}

proptest! {
    #[test]
    fn id_text_round_trips(bytes: [u8; 16]) {
        let id = Uuid::from_bytes(bytes);
        prop_assert_eq!(parse(&text(id)), Some(id));
    }
}
