//! Recompressed batches hold the same records and keep the same promises.

use super::*;
use crate::batch::{self, Builder};

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

#[test]
fn recompression_changes_only_the_codec() {
    for from in CODECS {
        for to in CODECS {
            let mut builder = Builder::new().compression(from).producer(7, 3, 11).transactional();
            builder.push(1_000, Some(b"key"), Some(&[b'v'; 500])).push(900, None, None);
            let before = builder.build().unwrap();
            let after = recompress(&before, to, None).unwrap();
            let (before, after) = (BatchView::parse(&before).unwrap(), batch::check(&after).unwrap());
            assert_eq!(after.compression().unwrap(), to);
            assert_eq!(
                (
                    after.producer_id(),
                    after.producer_epoch(),
                    after.base_sequence(),
                    after.is_transactional()
                ),
                (7, 3, 11, true)
            );
            assert_eq!((after.base_timestamp(), after.max_timestamp()), (1_000, 1_000));
            let records = |view: &BatchView<'_>| -> Vec<_> {
                batch::records(view.bytes()).unwrap().map(Result::unwrap).collect()
            };
            assert_eq!(records(&after), records(&before), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn higher_level_compresses_smaller() {
    let mut builder = Builder::new();
    for number in 0..2_000_u32 {
        builder.push(0, None, Some(format!("{} {}", number * number, number % 7).as_bytes()));
    }
    let plain = builder.build().unwrap();
    for (codec, weak, strong) in [(Compression::Gzip, 1, 9), (Compression::Zstd, -50, 19)] {
        let size = |level| recompress(&plain, codec, Some(level)).unwrap().len();
        assert!(size(strong) < size(weak), "{codec:?}");
    }
}
