//! Tests of how lines become records.

use super::{batches::split_key, lines::Lines};

#[test]
fn lines_lose_their_end_and_nothing_else() {
    fn check(input: &[u8], expected: &[&[u8]]) {
        let mut lines = Lines::new(input);
        let mut found: Vec<Vec<u8>> = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
        assert_eq!(found, expected);
    }
    check(b"", &[]);
    check(b"a\nb", &[b"a", b"b"]);
    check(b"a\r\n\n\xff\n", &[b"a\r", b"", b"\xff"]);
}

#[test]
fn keys_end_at_the_first_separator() {
    assert_eq!(split_key(b"k::v::w", b"::"), (Some(&b"k"[..]), &b"v::w"[..]));
    assert_eq!(split_key(b":v", b":"), (Some(&b""[..]), &b"v"[..]));
    assert_eq!(split_key(b"v", b":"), (None, &b"v"[..]));
    assert_eq!(split_key(b"", b"::"), (None, &b""[..]));
}
