//! Tests of `gather`.

use super::*;

#[track_caller]
fn check(bytes: &[u8], holes: &[(usize, &str)], expected: &[&str]) {
    let mut collected = Holes::new();
    for (position, hole) in holes {
        collected.push(*position, Bytes::copy_from_slice(hole.as_bytes()));
    }
    let gather = collected.into_gather(BytesMut::from(bytes));
    let shown: Vec<String> = gather
        .pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Piece::Hole(hole) => format!("<{}>", String::from_utf8(hole.to_vec()).unwrap()),
        })
        .collect();
    assert_eq!(shown, expected);
    let total: usize = shown.iter().map(|piece| piece.trim_matches(['<', '>']).len()).sum();
    assert_eq!(gather.len(), total as u64);
    assert_eq!(gather.is_empty(), total == 0);
}

#[test]
fn bytes_are_cut_at_holes() {
    check(b"", &[], &[]);
    check(b"abc", &[], &["abc"]);
    check(b"abcdef", &[(2, "xy"), (5, "z")], &["ab", "<xy>", "cde", "<z>", "f"]);
    check(b"abc", &[(3, "x")], &["abc", "<x>"]);
    check(b"abc", &[(1, "x"), (1, "y")], &["a", "<x>", "<y>", "bc"]);
    // A hole without content leaves its neighbours in one piece.
    check(b"abc", &[(0, "x"), (2, "")], &["<x>", "abc"]);
}
