//! Batches of dead letters of records in a log, without a broker.

use levada_base::batch::{BatchView, EndMarker, Marker, Record, records};
use levada_base::compress::Compression;
use levada_log::{LogConfig, OpenOptions, ReplicaSource, Writer};
use tempfile::TempDir;

use super::*;

const NOW_MS: i64 = 1_000_000;
const LARGE: usize = 1 << 20;

fn letter(first: i64, last: i64, reason: DeadLetterReason) -> DeadLetter {
    DeadLetter { first, last, delivery_count: 5, reason }
}

fn source(log: Option<&Writer>) -> Source {
    Source {
        topic: "orders".to_owned(),
        partition: 3,
        group: "g".into(),
        log: log.map(|log| log.partition().clone()),
    }
}

fn log(home: &TempDir, batches: &[BytesMut]) -> Writer {
    let config = LogConfig { max_message_bytes: 64 << 20, ..LogConfig::default() };
    let path = home.path().join("orders-3");
    let options = OpenOptions { config, high_watermark: Some(0), ..OpenOptions::new(path) };
    let mut writer = Writer::open(options, NOW_MS).unwrap().0;
    writer.resign();
    for batch in batches {
        writer.append_replica(batch, ReplicaSource { leader_epoch: 0, log_start: 0 }, NOW_MS).unwrap();
    }
    writer.partition().raise_high_watermark(writer.partition().log_end());
    writer
}

/// A batch with these records, which have their offset as key.
fn stored(base: i64, values: &[&[u8]], codec: Compression) -> BytesMut {
    let mut batch = Builder::new().base_offset(base).leader_epoch(0).compression(codec);
    for (delta, value) in values.iter().enumerate() {
        let key = (base + delta as i64).to_string();
        batch.push_with_headers(7, Some(key.as_bytes()), Some(value), &[(b"own", Some(b"header"))]);
    }
    batch.build().unwrap()
}

/// All batches of the dead letters.
fn all(source: &Source, letters: &[DeadLetter], max_bytes: usize) -> Vec<Draft> {
    let (mut place, mut drafts) = (Place::begin(letters), Vec::new());
    while place.letter < letters.len() {
        let draft = compose(source, (letters, place), max_bytes, NOW_MS).unwrap();
        assert!(draft.count > 0, "no end");
        place = draft.next;
        drafts.push(draft);
    }
    drafts
}

/// The records of batches.
fn written(drafts: &[Draft]) -> Vec<Record> {
    drafts.iter().flat_map(|draft| records(&draft.records).unwrap().map(Result::unwrap)).collect()
}

/// The header of this name.
fn header<'a>(record: &'a Record, name: &str) -> &'a str {
    let mut headers = record.headers.iter().filter(|header| header.key == name.as_bytes());
    let value = headers.next().and_then(|header| header.value).unwrap();
    assert!(headers.next().is_none(), "{name} twice");
    std::str::from_utf8(value).unwrap()
}

/// Offset, and key and value if there is one, of each dead letter.
fn shown(drafts: &[Draft]) -> Vec<(i64, Option<(String, usize)>)> {
    let written = written(drafts);
    let shown = written.iter().map(|record| {
        let copy = record.key.as_ref().zip(record.value.as_ref());
        let copy = copy.map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.len()));
        (header(record, "__dlq.errors.offset").parse().unwrap(), copy)
    });
    shown.collect()
}

#[test]
fn dead_letters_have_kafkas_headers() {
    let letters = [
        letter(41, 41, DeadLetterReason::Rejected),
        DeadLetter { delivery_count: 1, ..letter(7, 8, DeadLetterReason::AttemptsExhausted) },
    ];
    let drafts = all(&source(None), &letters, LARGE);
    assert_eq!(drafts.len(), 1);
    let view = BatchView::parse(&drafts[0].records).unwrap();
    assert_eq!((view.base_timestamp(), view.max_timestamp()), (NOW_MS, NOW_MS));
    let records = written(&drafts);
    let headers = |record: &Record| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let pairs = record.headers.iter().map(|one| (text(one.key), text(one.value.unwrap())));
        pairs.collect::<Vec<_>>()
    };
    let expected = |offset: &str, count: &str, message: &str| {
        [
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.partition", "3"),
            ("__dlq.errors.offset", offset),
            ("__dlq.errors.group", "g"),
            ("__dlq.errors.delivery.count", count),
            ("__dlq.errors.message", message),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    assert_eq!(headers(&records[0]), expected("41", "5", "Offset rejected by client."));
    let exceeded = "Offset delivery count exceeded the threshold.";
    assert_eq!(headers(&records[1]), expected("7", "1", exceeded));
    assert_eq!(headers(&records[2]), expected("8", "1", exceeded));
    assert!(records.iter().all(|record| record.key.is_none() && record.value.is_none()));
}

#[test]
fn copies_have_the_key_and_the_value() {
    let home = TempDir::new().unwrap();
    let marker = EndMarker {
        marker: Marker::Commit,
        producer_id: 1,
        producer_epoch: 0,
        coordinator_epoch: 0,
        timestamp_ms: NOW_MS,
    };
    let mut end = marker.build().unwrap();
    batch_at(&mut end, 5);
    let batches = [
        stored(0, &[b"a", b"bb", b"ccc"], Compression::Zstd),
        stored(3, &[b"dddd", b"eeeee"], Compression::None),
        end,
        // Compaction has removed the offsets from 6 to 8.
        stored(9, &[b"ninth"], Compression::Lz4),
    ];
    let log = log(&home, &batches);
    let letters = [letter(1, 9, DeadLetterReason::Rejected), letter(20, 20, DeadLetterReason::Rejected)];
    let copy = |key: &str, bytes| Some((key.to_owned(), bytes));
    let expected = [
        (1, copy("1", 2)),
        (2, copy("2", 3)),
        (3, copy("3", 4)),
        (4, copy("4", 5)),
        (5, None),
        (6, None),
        (7, None),
        (8, None),
        (9, copy("9", 5)),
        (20, None),
    ];
    let drafts = all(&source(Some(&log)), &letters, LARGE);
    assert_eq!(shown(&drafts), expected);
    assert!(written(&drafts).iter().all(|record| record.headers.len() == HEADER_COUNT), "and no headers");
    // Batches begin anywhere.
    let small = all(&source(Some(&log)), &letters, 500);
    assert!(small.len() > 3);
    assert!(small.iter().all(|draft| draft.records.len() <= 500));
    assert_eq!(shown(&small), expected);
}

fn batch_at(batch: &mut [u8], offset: i64) {
    levada_base::batch::assign(batch, offset, 0);
}

#[test]
fn records_that_do_not_fit_are_not_copied() {
    let home = TempDir::new().unwrap();
    let (fits, large) = (vec![b'x'; 3_000], vec![b'x'; 4_000]);
    // Expands to more than is read.
    let zeros = vec![0; 9 << 20];
    let batches = [
        stored(0, &[b"first", &large, &fits, &fits], Compression::None),
        stored(4, &[&zeros, b"beside"], Compression::Zstd),
        stored(6, &[b"last"], Compression::None),
    ];
    let log = log(&home, &batches);
    let letters = [letter(0, 6, DeadLetterReason::AttemptsExhausted)];
    let drafts = all(&source(Some(&log)), &letters, 4_000);
    assert!(drafts.iter().all(|draft| draft.records.len() <= 4_000));
    let copied: Vec<_> = shown(&drafts).into_iter().map(|(offset, copy)| (offset, copy.is_some())).collect();
    let expected = [(0, true), (1, false), (2, true), (3, true), (4, false), (5, false), (6, true)];
    assert_eq!(copied, expected);
}

#[test]
fn batches_of_large_topics_are_bounded_too() {
    let letters = [letter(0, 20_000, DeadLetterReason::Rejected)];
    let drafts = all(&source(None), &letters, 100 << 20);
    assert!(drafts.len() > 1 && drafts.iter().all(|draft| draft.records.len() <= BATCH_BYTES));
    assert_eq!(drafts.iter().map(|draft| draft.count).sum::<u64>(), 20_001);
}

#[test]
fn dead_letter_batch_bounds_its_reads() {
    let home = TempDir::new().unwrap();
    let zeros = vec![0; 7 << 20];
    let batches: Vec<_> = (0..30).map(|base| stored(base, &[&zeros], Compression::Zstd)).collect();
    let log = log(&home, &batches);
    let letters = [letter(0, 29, DeadLetterReason::Rejected)];
    let drafts = all(&source(Some(&log)), &letters, LARGE);
    let counts: Vec<_> = drafts.iter().map(|draft| draft.count).collect();
    assert_eq!(counts, [10, 10, 10], "ten expanded batches each");
    let shown = shown(&drafts);
    assert_eq!(shown.len(), 30, "each once");
    assert!(shown.iter().all(|(_, copy)| copy.is_none()), "larger than the topic allows");
}
