//! Any bytes as HTTP requests: a head is whole at one length only however it arrives, ends with an
//! empty line, and has no second reading.

use levada_files::request::{BODY_BYTES_MAX, HEAD_BYTES_MAX, Method, Parsed, TARGET_BYTES_MAX, parse, room};
use levada_files::target::{self, Target};

/// Checks one input.
pub fn run(input: &[u8]) {
    let mut rest = input;
    // As a connection reads them: each from the end of the previous one.
    while let Some(used) = one(rest) {
        rest = &rest[used..];
    }
}

/// The length of the request at the front of `bytes`, with its body, if there is a valid one.
fn one(bytes: &[u8]) -> Option<usize> {
    let mut fields = room();
    let Ok(Parsed::Whole(head, used)) = parse(bytes, &mut fields) else { return None };
    assert!(bytes[..used].ends_with(b"\r\n\r\n") && used <= HEAD_BYTES_MAX + 8);
    let text = &bytes[..used];
    let lone = |at: usize| match text[at] {
        b'\n' => at == 0 || text[at - 1] != b'\r',
        b'\r' => text.get(at + 1) != Some(&b'\n'),
        byte => byte == 0,
    };
    assert!(!(0..used).any(lone), "a line end that others read in another way");
    assert!(head.target.len() <= TARGET_BYTES_MAX && head.body_bytes <= BODY_BYTES_MAX);
    assert!(head.host().is_some() || !head.is_1_1);
    assert_eq!(head.all("host").count(), usize::from(head.host().is_some()));
    assert_eq!(head.all("transfer-encoding").count(), 0);
    // No prefix of it was another request.
    for end in [used - 1, used - 2, used / 2] {
        let mut fields = room();
        assert!(matches!(parse(&bytes[..end], &mut fields), Ok(Parsed::Partial)), "whole at two lengths");
    }
    if let (Method::Get, Ok(Target::Path { authority, .. })) = (head.method, target::split(head.target))
        && let Some(host) = authority.or(head.host())
        && let Ok(Some(name)) = target::host(host)
    {
        assert!(!name.contains(['/', '\0']) && !name.starts_with('.') && name == name.to_ascii_lowercase());
    }
    let body = usize::try_from(head.body_bytes).expect("a small body");
    used.checked_add(body).filter(|end| *end <= bytes.len())
}
