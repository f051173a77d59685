//! Damage to real files: edits, and checksums that are right again afterwards.

use levada_base::batch::BatchView;

/// Makes edits of four bytes: file and kind, place, value.
pub(crate) fn edit<N>(files: &mut [(N, Vec<u8>)], edits: &[u8]) {
    for edit in edits.chunks_exact(4) {
        let count = files.len();
        let bytes = &mut files[usize::from(edit[0]) % count].1;
        let at = usize::from(u16::from_be_bytes([edit[1], edit[2]]));
        match edit[0] / 64 {
            0 => bytes.truncate(at),
            1 => bytes.extend(std::iter::repeat_n(edit[3], at % 300)),
            _ if bytes.is_empty() => {}
            _ => {
                let len = bytes.len();
                bytes[at % len] = edit[3];
            }
        }
    }
}

/// Corrects the checksums of the batches at the front of a log file.
pub(crate) fn seal_batches(bytes: &mut [u8]) {
    let mut at = 0;
    while let Ok((len, crc)) =
        BatchView::parse(&bytes[at..]).map(|view| (view.size_bytes(), view.computed_crc()))
    {
        bytes[at + 17..at + 21].copy_from_slice(&crc.to_be_bytes());
        at += len;
    }
}
