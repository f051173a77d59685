//! Sound directories, and each way in which one is not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::{Builder, EndMarker, Marker};
use tempfile::{TempDir, tempdir};

use super::{Checked, FINDINGS_MAX, Finding, RecordedState, Severity, partition};
use crate::checkpoint::PartitionMetadata;
use crate::disk::RealDisk;
use crate::disk::faulty::FaultyDisk;
use crate::{Append, LogConfig, OpenOptions, Writer};

const SECOND: &str = "00000000000000000008.log";
const LAST: &str = "00000000000000000016.log";

/// Three segments of four batches of two records: 0..8, 8..16, 16..24; the last two batches of the
/// second are an aborted transaction.
fn log() -> TempDir {
    let dir = tempdir().unwrap();
    let config = LogConfig { index_interval_bytes: 100, ..LogConfig::default() };
    let disk = Arc::new(FaultyDisk::default());
    let options = OpenOptions { leader_epoch: 3, config, disk, ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    for at in 0..12 {
        if at > 0 && at % 4 == 0 {
            writer.roll(0).unwrap();
        }
        let mut builder = Builder::new();
        if at == 6 {
            builder = builder.producer(5, 0, 0).transactional();
        }
        builder.push(at * 10, None, Some(&[9; 80])).push(at * 10 + 1, None, None);
        let mut group = match at {
            7 => vec![marker(), filler()],
            _ => vec![Append::client(builder.build().unwrap())],
        };
        for outcome in writer.append(&mut group, 0) {
            outcome.unwrap();
        }
    }
    writer.close().unwrap();
    PartitionMetadata { topic_id: [7; 16] }.store(&RealDisk, dir.path()).unwrap();
    dir
}

fn marker() -> Append {
    let marker = EndMarker {
        marker: Marker::Abort,
        producer_id: 5,
        producer_epoch: 0,
        coordinator_epoch: 0,
        timestamp_ms: 71,
    };
    Append::coordinator(marker.build().unwrap())
}

fn filler() -> Append {
    let mut builder = Builder::new();
    builder.push(72, None, None);
    Append::client(builder.build().unwrap())
}

fn check(dir: &Path, left: RecordedState) -> Checked {
    let mut read = 0;
    let checked = partition(&RealDisk, dir, &left, &mut |bytes| read += bytes).unwrap();
    assert!(read <= checked.bytes, "{read} of {} bytes", checked.bytes);
    checked
}

fn clean() -> RecordedState {
    RecordedState { clean: true, recovery_point: 24, high_watermark: Some(24), ..RecordedState::default() }
}

fn crashed(recovery_point: i64) -> RecordedState {
    RecordedState { clean: false, recovery_point, ..RecordedState::default() }
}

/// Changes a file of a sound log; the one finding that comes of it, in short.
#[track_caller]
fn finds(
    left: RecordedState,
    file: &str,
    change: impl FnOnce(&mut Vec<u8>),
    severity: Severity,
    words: &str,
) -> Finding {
    let dir = log();
    let path = dir.path().join(file);
    let mut bytes = fs::read(&path).unwrap_or_default();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let checked = check(dir.path(), left);
    let finding = checked.findings.iter().find(|finding| finding.what.contains(words));
    let finding = finding.unwrap_or_else(|| panic!("{words:?} is not among {:#?}", checked.findings)).clone();
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert_eq!(checked.severity(), Some(severity), "{:#?}", checked.findings);
    assert!(!finding.next.is_empty());
    finding
}

#[test]
fn sound_log_has_no_findings() {
    let dir = log();
    for left in [clean(), crashed(0), crashed(16)] {
        let checked = check(dir.path(), left);
        assert_eq!(checked.findings, []);
        assert_eq!((checked.segments, checked.batches, checked.records), (3, 13, 24));
        assert_eq!((checked.log_start, checked.log_end), (0, 24));
        assert_eq!(checked.severity(), None);
    }
}

#[test]
fn damage_is_reported_with_its_position() {
    let finding = finds(clean(), SECOND, |bytes| bytes[100] ^= 1, Severity::Damage, "checksum");
    assert_eq!((finding.position, finding.offset), (Some(0), Some(8)));
    assert!(finding.path.ends_with(SECOND) && finding.next.contains("restore the file"));
    // A mark of a clean stop that lies, and what lies after the recovery point.
    for left in [clean(), crashed(0)] {
        let cut = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
        let finding = finds(left, LAST, cut, Severity::Damage, "checksum");
        assert!(finding.next.contains("deletes the last"), "{finding:?}");
    }
    let finding =
        finds(clean(), LAST, |bytes| bytes.truncate(bytes.len() - 1), Severity::Damage, "cut short");
    assert_eq!(finding.offset, Some(22));
    finds(clean(), SECOND, |bytes| bytes.splice(0..0, [7; 61]).for_each(drop), Severity::Damage, "");
}

#[test]
fn torn_tail_is_mended_but_not_inner_damage() {
    let torn = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1);
    let finding = finds(crashed(16), LAST, torn, Severity::Mended, "cut short");
    assert!(finding.next.contains("truncates these"), "{finding:?}");
    // The length of the first batch is nonsense; the others are found without it.
    let nonsense = |bytes: &mut Vec<u8>| bytes[8..12].fill(0x7f);
    finds(crashed(16), LAST, nonsense, Severity::Damage, "");
    finds(crashed(16), LAST, |bytes| bytes.extend([0; 5000]), Severity::Note, "never written to");
}

#[test]
fn indexes_must_agree_with_the_batches() {
    let (offsets, times) = ("00000000000000000008.index", "00000000000000000008.timeindex");
    for (left, severity) in [(clean(), Severity::Damage), (crashed(0), Severity::Mended)] {
        finds(left, offsets, |bytes| bytes[7] ^= 1, severity, "where no batch begins");
        finds(left, offsets, |bytes| bytes[3] = 0, severity, "");
        finds(left, offsets, |bytes| bytes[8..16].fill(0xff), severity, "");
        finds(left, offsets, |bytes| bytes.extend([1, 2, 3]), severity, "not a whole entry");
        finds(left, times, |bytes| bytes[7] = 0, severity, "has time");
        finds(left, times, |bytes| bytes.truncate(12), severity, "latest time");
        finds(left, times, |bytes| bytes[..8].fill(0x7f), severity, "");
    }
    let finding = finds(clean(), offsets, |bytes| bytes[7] ^= 1, Severity::Damage, "");
    assert!(finding.next.contains("remove the file"), "{finding:?}");
    // Room for later is not an entry.
    let dir = log();
    let path = dir.path().join("00000000000000000016.index");
    let mut bytes = fs::read(&path).unwrap();
    bytes.resize(10 << 20, 0);
    fs::write(path, bytes).unwrap();
    assert_eq!(check(dir.path(), clean()).findings, []);
}

#[test]
fn aborted_transactions_must_be_indexed() {
    let path = "00000000000000000008.txnindex";
    let finding = finds(clean(), path, Vec::clear, Severity::Damage, "aborted at offset 14");
    assert!(finding.next.contains("recovery-point-offset-checkpoint"), "{finding:?}");
    finds(clean(), path, |bytes| bytes[1] = 9, Severity::Damage, "no known version");
    finds(crashed(8), path, Vec::clear, Severity::Mended, "aborted at offset 14");
}

#[test]
fn checkpoint_and_metadata_files_are_checked() {
    let left = clean();
    finds(left, "leader-epoch-checkpoint", |bytes| bytes.push(b'x'), Severity::Mended, "");
    let other = |bytes: &mut Vec<u8>| *bytes = b"0\n1\n9 0\n".to_vec();
    finds(left, "leader-epoch-checkpoint", other, Severity::Damage, "leader epoch 3");
    finds(left, "00000000000000000016.snapshot", |bytes| bytes[4] ^= 1, Severity::Mended, "checksum");
    finds(left, "00000000000000000099.snapshot", |_| {}, Severity::Mended, "beyond the log's end");
    finds(left, "partition.metadata", |bytes| bytes.truncate(20), Severity::Damage, "");
    finds(left, "00000000000000000004.index", |_| {}, Severity::Mended, "without a segment");
    finds(left, "00000000000000000000.log.deleted", |_| {}, Severity::Note, "being deleted");
    finds(left, "00000000000000000000.log.cleaned", |_| {}, Severity::Mended, "put in place");
    finds(left, "notes.txt", |_| {}, Severity::Note, "not a file of a log");
}

#[test]
fn missing_data_is_reported() {
    for (file, severity, words) in [
        (SECOND, Severity::Mended, "index without a segment"),
        ("00000000000000000008.index", Severity::Mended, "is missing"),
        ("leader-epoch-checkpoint", Severity::Mended, "is missing"),
        ("partition.metadata", Severity::Mended, "is missing"),
        (LAST, Severity::Damage, "8 offsets are missing at its end"),
    ] {
        let dir = log();
        fs::remove_file(dir.path().join(file)).unwrap();
        let checked = check(dir.path(), clean());
        assert!(
            checked.findings.iter().any(|finding| finding.what.contains(words)),
            "{:#?}",
            checked.findings
        );
        assert_eq!(checked.severity(), Some(severity), "{file}: {:#?}", checked.findings);
    }
    // A segment in the midst leaves a gap, which compaction explains.
    let dir = log();
    for suffix in ["log", "index", "timeindex", "txnindex", "snapshot"] {
        let _ = fs::remove_file(dir.path().join(SECOND).with_extension(suffix));
    }
    let told =
        |left| check(dir.path(), left).findings.iter().any(|finding| finding.what.contains("no records"));
    assert!(told(clean()));
    assert!(!told(RecordedState { compacted: true, ..clean() }));
}

#[test]
fn high_watermark_beyond_log_end_is_a_note() {
    let dir = log();
    let left = RecordedState { high_watermark: Some(30), ..crashed(24) };
    let checked = check(dir.path(), left);
    assert_eq!(checked.severity(), Some(Severity::Note));
    assert!(checked.findings[0].what.contains("up to 30"), "{:#?}", checked.findings);
}

#[test]
fn log_truncated_before_crash_is_not_damaged() {
    let dir = log();
    let left = |high_watermark| RecordedState { high_watermark, ..crashed(30) };
    // Records that were not committed, and that the leader does not have.
    let checked = check(dir.path(), left(Some(24)));
    assert_eq!(checked.severity(), Some(Severity::Note), "{:#?}", checked.findings);
    let what = &checked.findings[0].what;
    assert!(what.ends_with("later one, 30; the high watermark, 24, is not after the end"), "{what}");
    // A clean stop writes the checkpoint last; and committed records are lost.
    let stopped = RecordedState { clean: true, ..left(Some(24)) };
    for lost in [stopped, left(Some(25)), left(None)] {
        assert_eq!(check(dir.path(), lost).severity(), Some(Severity::Damage), "{lost:?}");
    }
}

#[test]
fn empty_epoch_file_is_valid_for_empty_log() {
    // As Kafka leaves a partition that never had a record.
    let dir = tempdir().unwrap();
    Writer::open(OpenOptions::new(dir.path()), 0).unwrap().0.close().unwrap();
    let path = dir.path().join("leader-epoch-checkpoint");
    fs::write(&path, "").unwrap();
    let checked = check(dir.path(), RecordedState { clean: true, ..RecordedState::default() });
    assert!(!checked.findings.iter().any(|finding| finding.path == path), "{:#?}", checked.findings);
    finds(clean(), "leader-epoch-checkpoint", Vec::clear, Severity::Mended, "is empty");
}

#[test]
fn bounded_findings_still_include_damage() {
    let mut checked = Checked::default();
    let finding = |severity| Finding {
        severity,
        path: "p".into(),
        position: None,
        offset: None,
        what: String::new(),
        next: String::new(),
    };
    for _ in 0..FINDINGS_MAX + 5 {
        checked.push(finding(Severity::Note));
    }
    checked.push(finding(Severity::Damage));
    assert_eq!((checked.findings.len(), checked.unlisted), (FINDINGS_MAX, 6));
    assert_eq!(checked.severity(), Some(Severity::Damage));
}
