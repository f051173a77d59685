//! Arbitrary bytes as a record batch, unchanged and with length and checksum corrected, so that the
//! later checks are reached. A batch that passes has as many records as it claims.

use levada_base::batch::{self, BatchView, HEADER_LEN};

/// Checks one input.
pub fn run(input: &[u8]) {
    check(input);
    if input.len() < HEADER_LEN {
        return;
    }
    let mut bytes = input.to_vec();
    let length = bytes.len() as i32 - 12;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    let crc = BatchView::parse(&bytes).expect("length and format are right").computed_crc();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    check(&bytes);
}

fn check(bytes: &[u8]) {
    let checked = batch::check(bytes).map(|view| view.record_count());
    let Ok(records) = batch::records(bytes) else {
        assert!(checked.is_err());
        return;
    };
    // A batch that was not checked may claim any count; it must end with an error then, not run on.
    let mut found = 0;
    for record in records {
        if record.is_err() {
            assert!(checked.is_err());
            return;
        }
        found += 1;
        if checked.is_err() && found > bytes.len() {
            return;
        }
    }
    if let Ok(count) = checked {
        assert_eq!(found as i32, count);
    }
}
