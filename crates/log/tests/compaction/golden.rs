//! The result of Apache Kafka's own cleaner on the same log; `testdata/README.md` says how it was
//! obtained.

use std::fs;
use std::path::Path;

use levada_base::batch::BatchView;
use levada_base::compress::Compression;
use levada_log::LogConfig;
use levada_log::compact::DirtySection;

use crate::run::{Life, bases, items};
use crate::steps::{Batch, Step, Writing};

/// A log with everything in it: each codec, headers, both kinds of timestamps, tombstones, keyless
/// records, idempotent producers, transactions of either end, raised epochs.
fn everything() -> Life {
    let config = LogConfig { segment_ms: i64::MAX, delete_retention_ms: 1_000, ..LogConfig::default() };
    let mut life = Life::begin(config);
    let mut state = 1_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    for step in 0..360 {
        life.now_ms = 1_000 + step;
        if step % 60 == 59 {
            life.take(&Step::Roll);
        }
        let producer = random(6) as u8;
        if random(5) == 0 {
            let (commit, bump) = (random(2) == 0, random(3) == 0);
            life.take(&Step::End { producer: 3 + producer % 3, commit, bump });
            continue;
        }
        let writer = match producer {
            0..3 if random(3) == 0 => Writing::Idempotent(producer),
            0 if random(3) == 0 => Writing::Keyless,
            0..3 => Writing::Plain,
            _ => Writing::Transactional(producer),
        };
        let record = |_| (random(25) as u8, Some(random(250) as u8).filter(|value| value % 5 > 0));
        let records = (0..1 + step % 4).map(record).collect();
        life.take(&Step::Append(Batch { writer, codec: random(5) as u8, stamped: random(4) == 0, records }));
    }
    for producer in 3..6 {
        life.take(&Step::End { producer, commit: true, bump: false });
    }
    life.take(&Step::Roll);
    life
}

/// The bytes of the batches without compression.
fn plain(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        let batch = BatchView::parse(bytes).unwrap();
        if batch.compression().unwrap() == Compression::None {
            plain.push(batch.bytes());
        }
        bytes = &bytes[batch.size_bytes()..];
    }
    plain
}

#[test]
fn compaction_result_matches_kafkas_cleaner() {
    let mut life = everything();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kafka-4.3.1-compaction");
    let bases = bases(life.dir.path());
    if let Some(into) = std::env::var_os("LEVADA_GOLDEN") {
        println!("{bases:?}");
        for entry in fs::read_dir(life.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, Path::new(&into).join(path.file_name().unwrap())).unwrap();
        }
    }
    let rounds = [(0, bases[2], 2_000), (bases[2], bases[4], 3_500), (bases[4], bases[6], 5_000)];
    for (round, (first_dirty, end, now_ms)) in rounds.into_iter().enumerate() {
        life.now_ms = now_ms;
        let dirt = DirtySection { first_dirty, end, clean_bytes: 0, dirty_bytes: 0, overdue_ms: 0 };
        life.clean_dirt(dirt, 1 << 20).unwrap();
        // Everything fits in one segment.
        let ours = |ending: &str| fs::read(life.dir.path().join(format!("{:020}{ending}", 0))).unwrap();
        let kafkas = |ending: &str| fs::read(testdata.join(format!("{round}{ending}"))).unwrap();
        // Codecs may find other bytes for the same records.
        assert_eq!(items(&ours(".log")), items(&kafkas(".log")), "round {round}");
        assert_eq!(plain(&ours(".log")), plain(&kafkas(".log")), "round {round}");
        assert_eq!(ours(".txnindex"), kafkas(".txnindex"), "round {round}");
    }
}
