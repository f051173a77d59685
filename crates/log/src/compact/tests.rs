//! The parts of compaction by themselves: the map of keys, what is due, which segments become one,
//! and each step of the swap.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::{Builder, EndMarker, Marker};
use tempfile::{TempDir, tempdir};

use super::key_map::KeyMap;
use super::{CleanError, Cleaned, Cleaning, DirtySection, Job, group};
use crate::disk::faulty::FaultyDisk;
use crate::disk::is_short;
use crate::segment::Segment;
use crate::{Append, LogConfig, LogError, OpenOptions, Partition, Writer};

const GO_ON: super::Throttle<'_> = &|_| ControlFlow::Continue(());

/// Segments of four batches of two keys each, and an empty one: every key is written once a
/// segment.
fn log(segments: u8) -> (TempDir, Arc<FaultyDisk>, Writer) {
    let (dir, disk) = (tempdir().unwrap(), Arc::new(FaultyDisk::default()));
    let mut writer = open(dir.path(), disk.clone());
    for segment in 0..segments {
        for batch in 0..4_u8 {
            let mut builder = Builder::new().producer(i64::from(batch), 0, i32::from(segment) * 2);
            for key in [batch, batch + 4] {
                builder.push(i64::from(segment) * 1_000, Some(&[key]), Some(&[segment; 60]));
            }
            writer.append(&mut [Append::client(builder.build().unwrap())], 0).pop().unwrap().unwrap();
        }
        writer.roll(0).unwrap();
    }
    disk.take_done();
    (dir, disk, writer)
}

fn open(dir: &Path, disk: Arc<FaultyDisk>) -> Writer {
    let config = LogConfig { index_interval_bytes: 100, ..LogConfig::default() };
    Writer::open(OpenOptions { config, leader_epoch: 0, disk, ..OpenOptions::new(dir) }, 0).unwrap().0
}

fn job(partition: &Arc<Partition>, memory_bytes: usize) -> Job {
    let config = LogConfig::default();
    let dirt = DirtySection::of(partition, &config, None, 0).unwrap();
    Job { partition: partition.clone(), config, dirt, memory_bytes, load_factor: 0.9, now_ms: 0 }
}

fn first_cleaned(writer: &Writer) -> Cleaned {
    let mut cleaning = Cleaning::begin(job(writer.partition(), 1 << 20), GO_ON).unwrap();
    cleaning.next_segment(&writer.last_records(), GO_ON).unwrap().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn offsets(partition: &Partition) -> Vec<i64> {
    let mut found = Vec::new();
    for segment in partition.segments.load().iter() {
        let mut scan = segment.scan(&*partition.disk, 0..segment.size(), 4096).unwrap();
        while let Some(head) = scan.next().unwrap() {
            let bytes = scan.batch(&head).unwrap();
            let records = levada_base::batch::records(bytes).unwrap();
            found.extend(records.map(|one| head.base_offset + i64::from(one.unwrap().offset_delta)));
        }
    }
    found
}

#[test]
fn key_map_keeps_last_offsets_until_full() {
    let mut keys = KeyMap::new(24 * 10, 0.8, 1_000);
    for offset in 0..8_u8 {
        assert!(keys.put(&[offset % 3, 0], i64::from(offset)));
    }
    assert_eq!((keys.last(&[0, 0]), keys.last(&[1, 0]), keys.last(&[2, 0])), (Some(6), Some(7), Some(5)));
    assert_eq!((keys.last(&[3, 0]), keys.last(&[]), keys.latest()), (None, None, 7));
    let more = (0..).take_while(|at: &u8| keys.put(&[9, *at], 8 + i64::from(*at))).count();
    assert_eq!((more, keys.latest()), (5, 12));
    assert_eq!(keys.last(&[9, 4]), Some(12));
    // No more room than there are records.
    assert_eq!(KeyMap::new(1 << 40, 0.5, 0).fill(), 0.0);
}

#[test]
fn small_key_map_compacts_in_several_rounds() {
    let (_dir, _, mut writer) = log(3);
    let (partition, config) = (writer.partition().clone(), LogConfig::default());
    let (mut checkpoint, mut rounds) = (None, 0);
    while DirtySection::of(&partition, &config, checkpoint, 0).unwrap().dirty_bytes > 0 {
        let dirt = DirtySection::of(&partition, &config, checkpoint, 0).unwrap();
        let mut cleaning = Cleaning::begin(Job { dirt, ..job(&partition, 24 * 5) }, GO_ON).unwrap();
        while let Some(cleaned) = cleaning.next_segment(&writer.last_records(), GO_ON).unwrap() {
            writer.replace(cleaned).unwrap().unwrap().remove().unwrap();
        }
        assert!(cleaning.end() > dirt.first_dirty);
        (checkpoint, rounds) = (Some(cleaning.end()), rounds + 1);
    }
    assert!(rounds > 2);
    assert_eq!(offsets(&partition), (16..24).collect::<Vec<_>>());
    assert_eq!((partition.log_start(), partition.log_end(), partition.segment_count()), (0, 24, 2));
}

#[test]
fn dirty_section_excludes_young_unstable_and_active_records() {
    let (_dir, _, mut writer) = log(3);
    let partition = writer.partition().clone();
    let size = partition.segments.load()[0].size();
    let check = |change: &dyn Fn(&mut LogConfig), checkpoint, wanted: (i64, i64, u64, u64, i64)| {
        let mut config = LogConfig::default();
        change(&mut config);
        let dirt = DirtySection::of(&partition, &config, checkpoint, 5_000).unwrap();
        let found = (dirt.first_dirty, dirt.end, dirt.clean_bytes / size, dirt.dirty_bytes / size);
        assert_eq!((found.0, found.1, found.2, found.3, dirt.overdue_ms), wanted);
    };
    check(&|_| {}, None, (0, 24, 0, 3, 0));
    check(&|_| {}, Some(8), (8, 24, 1, 2, 0));
    check(&|_| {}, Some(24), (24, 24, 3, 0, 0));
    // In the middle of a segment, which counts on both sides.
    check(&|_| {}, Some(11), (11, 24, 2, 2, 0));
    // After a truncation, or from another log.
    check(&|_| {}, Some(25), (0, 24, 0, 3, 0));
    check(&|_| {}, Some(-1), (0, 24, 0, 3, 0));
    check(&|config| config.min_compaction_lag_ms = 3_500, None, (0, 16, 0, 2, 0));
    check(&|config| config.min_compaction_lag_ms = 3_000, None, (0, 24, 0, 3, 0));
    check(&|config| config.min_compaction_lag_ms = 9_000, Some(8), (8, 8, 1, 0, 0));
    check(&|config| config.max_compaction_lag_ms = 1_000, None, (0, 24, 0, 3, 3_000));
    check(&|config| config.max_compaction_lag_ms = 1_000, Some(16), (16, 24, 2, 1, 2_000));
    let mut builder = Builder::new().producer(9, 0, 0).transactional();
    let open = builder.push(0, Some(b"t"), None).build().unwrap();
    writer.append(&mut [Append::client(open)], 0).pop().unwrap().unwrap();
    writer.roll(0).unwrap();
    check(&|_| {}, Some(16), (16, 24, 2, 1, 0));
}

#[test]
fn compaction_persists_commit_markers_before_removing_values() {
    let (_dir, _, mut writer) = log(3);
    let partition = writer.partition().clone();
    let mut builder = Builder::new().producer(9, 0, 0).transactional();
    let later = builder.push(0, Some(&[1]), Some(b"later")).build().unwrap();
    writer.append(&mut [Append::client(later)], 0).pop().unwrap().unwrap();
    writer.roll(0).unwrap();
    let end = EndMarker {
        marker: Marker::Commit,
        producer_id: 9,
        producer_epoch: 0,
        coordinator_epoch: 0,
        timestamp_ms: 0,
    };
    let commit = Append::coordinator(end.build().unwrap());
    writer.append(&mut [commit], 0).pop().unwrap().unwrap();
    assert!(partition.durable() < partition.log_end());
    Cleaning::begin(job(&partition, 1 << 20), GO_ON).unwrap();
    assert_eq!(partition.durable(), partition.log_end(), "the marker is on the device");
}

#[test]
fn compaction_is_due_by_ratio_or_age() {
    let dirt = DirtySection { first_dirty: 5, end: 9, clean_bytes: 50, dirty_bytes: 50, overdue_ms: 0 };
    let is_due = [(0.5, 0, 50), (0.49, 0, 50), (0.5, 1, 50), (0.0, 1, 0), (0.0, 0, 1)].map(
        |(ratio, overdue_ms, dirty_bytes)| DirtySection { overdue_ms, dirty_bytes, ..dirt }.is_due(ratio),
    );
    assert_eq!(is_due, [false, true, true, false, true]);
    assert_eq!(DirtySection { clean_bytes: 0, dirty_bytes: 0, ..dirt }.ratio(), 0.0);
}

#[test]
fn groups_fit_in_one_segment() {
    let (_dir, disk, writer) = log(5);
    let segments = writer.partition().segments.load_full();
    let size = segments[0].size() as u32;
    let check = |segment_bytes, segment_index_bytes, wanted: &[usize]| {
        let config = LogConfig { segment_bytes, segment_index_bytes, ..LogConfig::default() };
        let groups = group::groups(&segments[..5], &*disk, &config, 40).unwrap();
        assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), wanted);
    };
    check(1 << 30, 1 << 20, &[5]);
    check(size * 2, 1 << 20, &[2, 2, 1]);
    check(size - 1, 1 << 20, &[1; 5]);
    // By the offset index.
    let entries = segments[0].offsets.count(&*disk).unwrap() as u32;
    check(1 << 30, entries * 8 * 3, &[3, 2]);
}

#[test]
fn a_group_spans_offsets_of_one_index() {
    let (dir, disk) = (tempdir().unwrap(), FaultyDisk::default());
    let widest = i64::from(i32::MAX);
    let check = |segments: &[(i64, u64)], wanted: &[usize]| {
        let segment = |(base, size): &(i64, u64)| Arc::new(Segment::on_disk(dir.path(), *base, *size));
        let segments: Vec<_> = segments.iter().map(segment).collect();
        let groups = group::groups(&segments, &disk, &LogConfig::default(), widest + 50).unwrap();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), wanted);
    };
    check(&[(0, 100), (10, 100), (widest + 1, 100)], &[2, 1]);
    check(&[(0, 100), (10, 100), (widest + 2, 100)], &[1, 1, 1]);
    check(&[(0, 100), (10, 0), (widest + 2, 100)], &[2, 1]);
    check(&[(40, 100), (50, 100), (widest + 2, 100)], &[2, 1]);
    check(&[(60, 100), (70, 100), (widest + 2, 100)], &[3]);
}

#[test]
fn every_compaction_swap_step_leaves_whole_log() {
    // Five names that the new segment may have, twice; four of each old one, and a snapshot.
    let renames = 5 + 2 * 4 + 1 + 5;
    for step in 0..40 {
        for operation in ["rename", "remove"] {
            let (dir, disk, mut writer) = log(2);
            let cleaned = first_cleaned(&writer);
            disk.fail_after(operation, step);
            let replaced = writer.replace(cleaned);
            drop(writer);
            let found = names(dir.path());
            let writer = open(dir.path(), Arc::new(FaultyDisk::default()));
            let offsets = offsets(writer.partition());
            let whole = offsets == (0..16).collect::<Vec<_>>();
            assert!(whole || offsets == (8..16).collect::<Vec<_>>(), "{operation} {step}: {offsets:?}");
            assert_eq!(whole, step < 5 && operation == "rename", "{operation} {step}: {found:?}");
            assert_eq!(replaced.is_ok(), operation == "remove" || step >= renames, "{step}");
            let over =
                |name: &String| [".cleaned", ".swap", ".deleted"].iter().any(|end| name.ends_with(end));
            assert!(!names(dir.path()).iter().any(over));
            assert_eq!(writer.partition().log_end(), 16);
        }
    }
}

#[test]
fn compacted_segment_does_not_replace_removed_records() {
    let (dir, _, mut writer) = log(3);
    let cleaned = first_cleaned(&writer);
    writer.advance_log_start(10).unwrap().remove().unwrap();
    assert!(writer.replace(cleaned).unwrap().is_none());
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".cleaned")));
    assert_eq!(offsets(writer.partition())[0], 8);
    let cleaned = first_cleaned(&writer);
    writer.truncate(20, 0).unwrap();
    assert!(writer.replace(cleaned).unwrap().is_none());
    assert_eq!(offsets(writer.partition()), (8..20).collect::<Vec<_>>());
}

#[test]
fn compacted_group_does_not_replace_changed_segment() {
    let (_dir, _, mut writer) = log(3);
    let mut single = job(writer.partition(), 1 << 20);
    single.config.segment_bytes = 1;
    let mut cleaning = Cleaning::begin(single, GO_ON).unwrap();
    let mut next = || cleaning.next_segment(&writer.last_records(), GO_ON).unwrap().unwrap();
    next().discard().unwrap();
    let second = next();
    let whole = first_cleaned(&writer);
    assert_eq!((second.base, second.old.len(), whole.base, whole.old.len()), (8, 1, 0, 3));
    writer.replace(second).unwrap().unwrap().remove().unwrap();
    assert!(writer.replace(whole).unwrap().is_none(), "the second of the three is another segment");
    assert_eq!(offsets(writer.partition()), (0..8).chain(16..24).collect::<Vec<_>>());
}

#[test]
fn compaction_overtaken_by_retention_is_no_damage() {
    let (dir, disk, writer) = log(3);
    writer.close().unwrap();
    // After a clean stop, files are opened when they are read.
    let options = OpenOptions { clean: true, leader_epoch: 0, disk, ..OpenOptions::new(dir.path()) };
    let mut writer = Writer::open(options, 0).unwrap().0;
    let mut job = job(writer.partition(), 1 << 20);
    job.dirt = DirtySection::of(writer.partition(), &job.config, Some(16), 0).unwrap();
    let mut cleaning = Cleaning::begin(job, GO_ON).unwrap();
    writer.advance_log_start(10).unwrap().remove().unwrap();
    let failed = cleaning.next_segment(&writer.last_records(), GO_ON).unwrap_err();
    assert!(matches!(failed, CleanError::Overtaken), "{failed}");
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".cleaned")));
}

fn is_shortage(error: &CleanError) -> bool {
    matches!(error, CleanError::Log(error) if error.source_io().is_some_and(is_short))
}

#[test]
fn compaction_without_descriptors_is_shortage_not_damage() {
    let (_dir, disk, writer) = log(2);
    for errno in [24, 23, 12, 28] {
        disk.fail("create", ".cleaned", errno);
        let mut cleaning = Cleaning::begin(job(writer.partition(), 1 << 20), GO_ON).unwrap();
        let failed = cleaning.next_segment(&writer.last_records(), GO_ON).unwrap_err();
        assert!(is_shortage(&failed), "{failed}");
    }
    disk.fail("create", ".cleaned", 5);
    let mut cleaning = Cleaning::begin(job(writer.partition(), 1 << 20), GO_ON).unwrap();
    assert!(!is_shortage(&cleaning.next_segment(&writer.last_records(), GO_ON).unwrap_err()));
}

#[test]
fn truncating_later_values_keeps_earlier_ones() {
    let (dir, _, mut writer) = log(3);
    let mut job = job(writer.partition(), 1 << 20);
    // A group for each segment.
    job.config.segment_bytes = 1;
    let mut cleaning = Cleaning::begin(job, GO_ON).unwrap();
    writer.truncate(12, 0).unwrap();
    let cleaned = cleaning.next_segment(&writer.last_records(), GO_ON).unwrap().unwrap();
    assert_eq!((cleaned.base, cleaned.old.len()), (0, 1));
    assert!(writer.replace(cleaned).unwrap().is_none());
    assert_eq!(offsets(writer.partition()), (0..12).collect::<Vec<_>>());
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".cleaned")));
}

#[test]
fn a_damaged_batch_is_not_written_anew() {
    let (dir, _, writer) = log(2);
    let path = dir.path().join("00000000000000000008.log");
    let mut bytes = fs::read(&path).unwrap();
    let batch = bytes.len() / 4;
    bytes[batch + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let failed = Cleaning::begin(job(writer.partition(), 1 << 20), GO_ON).unwrap_err();
    let CleanError::Log(LogError::Corrupt { path: told, detail }) = failed else { panic!("{failed}") };
    assert_eq!(told, path);
    assert!(detail.contains(&format!("batch at {batch} with offset 10: batch checksum")), "{detail}");
}

#[test]
fn stopped_compaction_leaves_no_files() {
    let (dir, _, writer) = log(2);
    let before = names(dir.path());
    let stop: super::Throttle<'_> = &|_| ControlFlow::Break(());
    assert!(matches!(Cleaning::begin(job(writer.partition(), 1 << 20), stop), Err(CleanError::Stopped)));
    let mut cleaning = Cleaning::begin(job(writer.partition(), 1 << 20), GO_ON).unwrap();
    let stopped = cleaning.next_segment(&writer.last_records(), stop);
    assert!(matches!(stopped, Err(CleanError::Stopped)));
    assert_eq!(names(dir.path()), before);
}

#[test]
fn compaction_syncs_segments_before_removing_older_values() {
    let (_dir, disk, writer) = log(3);
    let _cleaned = first_cleaned(&writer);
    let done = disk.take_done();
    let begun = done.iter().position(|one| one.ends_with(".log.cleaned")).unwrap();
    for base in [0, 8, 16] {
        let synced = format!("sync {base:020}.log");
        assert!(done[..begun].contains(&synced), "{synced} is not among {:?}", &done[..begun]);
    }
}
