//! Logs that a real Kafka wrote open as they are, and Levada builds from their records the bytes
//! that Kafka wrote.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use levada_base::batch::{self, BatchView};
use levada_base::id_text;
use levada_log::checkpoint::{CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata};
use levada_log::disk::RealDisk;
use levada_log::{LogConfig, OpenOptions, OpenReport, Writer};
use tempfile::TempDir;

const END: i64 = 121;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kafka-4.3.1")
}

fn copy(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden().join(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

fn open(dir: &Path, clean: bool) -> (Writer, OpenReport) {
    let config = LogConfig { index_interval_bytes: 300, ..LogConfig::default() };
    Writer::open(OpenOptions { config, clean, ..OpenOptions::new(dir) }, 0).unwrap()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_clean_directory_opens_untouched() {
    let dir = copy("golden-0");
    let (writer, report) = open(dir.path(), true);
    assert_eq!(report, OpenReport::default());
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.last_stable(), partition.latest_epoch()), (END, 118, 0));
    assert_eq!(partition.segment_count(), 2);
    writer.close().unwrap();
    assert_eq!(files(dir.path()), files(&golden().join("golden-0")));
}

#[test]
fn every_golden_batch_is_valid_and_found() {
    let dir = copy("golden-0");
    let (writer, _) = open(dir.path(), true);
    let partition = writer.partition();
    let (mut at, mut codecs, mut latest) = (0, [0; 5], -1);
    while at < END {
        let bytes = partition.read_batches(at, 1).unwrap();
        let view = if BatchView::parse(&bytes).unwrap().is_control() {
            batch::check_stored(&bytes).unwrap()
        } else {
            batch::check(&bytes).unwrap()
        };
        assert_eq!(view.base_offset(), at);
        codecs[usize::from(view.compression().unwrap().id())] += 1;
        for offset in at..=view.last_offset() {
            assert_eq!(partition.read(offset, 1, END, true).unwrap().base_offset, at);
        }
        let record = batch::records(&bytes).unwrap().next().unwrap().unwrap();
        let timestamp = view.base_timestamp() + record.timestamp_delta;
        if timestamp > latest {
            assert_eq!(partition.times().first_at(timestamp).unwrap().unwrap().offset, at);
        }
        latest = latest.max(view.max_timestamp());
        at = view.last_offset() + 1;
    }
    assert!(codecs.iter().all(|count| *count > 0), "{codecs:?}");
    assert_eq!(partition.times().latest().unwrap().unwrap().timestamp, latest);
    let aborted = partition.aborted(0, partition.last_stable()).unwrap();
    let aborted: Vec<(i64, i64)> = aborted.iter().map(|one| (one.producer_id, one.first_offset)).collect();
    assert_eq!(aborted, [(6, 97), (8, 111)]);
}

#[test]
fn golden_indexes_are_rebuilt_byte_for_byte() {
    let dir = copy("golden-0");
    for name in
        files(dir.path()).keys().filter(|name| !name.ends_with(".log") && *name != "partition.metadata")
    {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let (writer, report) = open(dir.path(), false);
    assert_eq!((report.cut, report.rebuilt_segments), (None, 2));
    assert_eq!(writer.partition().last_stable(), 118);
    writer.close().unwrap();
    let (rebuilt, wanted) = (files(dir.path()), files(&golden().join("golden-0")));
    assert_eq!(rebuilt.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, bytes) in wanted {
        assert_eq!(rebuilt[&name], bytes, "{name}");
    }
}

#[test]
fn kafka_checkpoint_files_are_read_and_rewritten() {
    let dir = copy(".");
    let path = dir.path();
    let offsets = OffsetCheckpoint::RecoveryPoint.load(&RealDisk, path).unwrap();
    assert_eq!(offsets[&("golden".to_owned(), 0)], END);
    for checkpoint in
        [OffsetCheckpoint::RecoveryPoint, OffsetCheckpoint::Replication, OffsetCheckpoint::LogStart]
    {
        let sorted = || {
            let text = fs::read_to_string(path.join(checkpoint.file_name())).unwrap();
            let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let before = sorted();
        let offsets = checkpoint.load(&RealDisk, path).unwrap();
        checkpoint.store(&RealDisk, path, &offsets).unwrap();
        // Kafka's lines come in no order.
        assert_eq!(sorted(), before);
    }
    let properties = MetaProperties::load(&RealDisk, path).unwrap().unwrap();
    assert_eq!((&*properties.cluster_id, properties.node_id), ("hprChpSvTTmd6965_zmw2Q", 1));
    assert_eq!(id_text(properties.directory_id), "U10ZUtggiBEB6afSHvYURQ");
    properties.store(&RealDisk, path).unwrap();
    assert_eq!(MetaProperties::load(&RealDisk, path).unwrap().unwrap(), properties);
    let mark = CleanShutdown::take(&RealDisk, path).unwrap().unwrap();
    assert_eq!(CleanShutdown::take(&RealDisk, path).unwrap(), None);
    mark.store(&RealDisk, path).unwrap();
    assert_eq!(
        fs::read(path.join(".kafka_cleanshutdown")).unwrap(),
        fs::read(golden().join(".kafka_cleanshutdown")).unwrap()
    );
    let partition = copy("golden-0");
    let metadata = PartitionMetadata::load(&RealDisk, partition.path()).unwrap().unwrap();
    metadata.store(&RealDisk, partition.path()).unwrap();
    assert_eq!(files(partition.path()), files(&golden().join("golden-0")));
}
