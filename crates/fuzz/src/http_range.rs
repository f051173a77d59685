//! An arbitrary Range field, for a file of any length: the served bytes are in the file and at most
//! its length.

use levada_files::range::{RANGES_MAX, Ranges, resolve};

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((len, field)) = input.split_first_chunk::<8>() else { return };
    let len = u64::from_le_bytes(*len);
    let whole = [b"bytes=", field].concat();
    for field in [field, &whole] {
        let spans = match resolve(field, len) {
            Ranges::Whole | Ranges::Unsatisfiable => continue,
            Ranges::One(span) => vec![span],
            Ranges::Many(spans) => {
                assert!(spans.len() > 1 && spans.len() <= RANGES_MAX);
                spans
            }
        };
        assert!(spans.iter().all(|span| span.start < span.end && span.end <= len));
        assert!(spans.iter().map(|span| u128::from(span.len())).sum::<u128>() <= u128::from(len));
    }
}
