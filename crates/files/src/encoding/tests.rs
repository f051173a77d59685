//! Wishes of clients, and which of three files they get.

use super::{Encoding, choose};
use crate::request::{Parsed, parse, room};

fn chosen(wish: Option<&str>, there: &[Encoding]) -> Option<Encoding> {
    let field = wish.map(|wish| format!("Accept-Encoding: {wish}\r\n")).unwrap_or_default();
    let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{field}\r\n");
    let mut room = room();
    match parse(text.as_bytes(), &mut room) {
        Ok(Parsed::Whole(head, _)) => choose(&head, |encoding| there.contains(&encoding)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn best_accepted_available_encoding_is_sent() {
    use Encoding::{Brotli, Gzip, Zstd};
    let all = [Zstd, Brotli, Gzip];
    for (wish, there, expected) in [
        (None, &all[..], None),
        (Some(""), &all, None),
        (Some("gzip, deflate, br, zstd"), &all, Some(Zstd)),
        (Some("gzip, deflate, br, zstd"), &[Brotli, Gzip], Some(Brotli)),
        (Some("gzip;q=1.0, br;q=0.5"), &all, Some(Gzip)),
        (Some("gzip;q=0"), &all, None),
        (Some("br;q=0, *"), &[Brotli, Gzip], Some(Gzip)),
        (Some("*;q=0.5"), &[Gzip], Some(Gzip)),
        (Some("identity, gzip;q=0.5"), &all, None),
        (Some("identity;q=0.5, gzip;q=0.8"), &all, Some(Gzip)),
        (Some("X-GZIP"), &all, Some(Gzip)),
        (Some("br; q=0.001"), &all, Some(Brotli)),
        (Some("br;q=1.001, gzip;q=2, zstd;q=x"), &all, None),
    ] {
        assert_eq!(chosen(wish, there), expected, "{wish:?} of {there:?}");
    }
}
