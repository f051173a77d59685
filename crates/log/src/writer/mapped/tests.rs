//! Mapped appends: what is asked of the disk, what a full or failing one leaves, and what a crash
//! does.

use std::fs;
use std::path::PathBuf;

use bytes::BytesMut;
use levada_base::batch::Builder;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::background::Work;
use crate::disk::faulty::FaultyDisk;
use crate::recover::OpenReport;
use crate::{Append, AppendBy, AppendError, LogConfig, OpenOptions, Writer};

const NOW_MS: i64 = 1_000;
const ENOSPC: i32 = 28;
const LOG: &str = "00000000000000000000.log";

struct Kit {
    dir: TempDir,
    disk: Arc<FaultyDisk>,
}

impl Kit {
    fn new() -> Self {
        Self { dir: tempdir().unwrap(), disk: Arc::default() }
    }

    fn open(&self, segment_bytes: u32, clean: bool) -> (Writer, OpenReport) {
        let config = LogConfig { append_by: AppendBy::Mapped, segment_bytes, ..LogConfig::default() };
        let (disk, leader_epoch) = (self.disk.clone(), 0);
        let options = OpenOptions { config, leader_epoch, clean, disk, ..OpenOptions::new(self.dir.path()) };
        let opened = Writer::open(options, NOW_MS).unwrap();
        self.disk.take_done();
        opened
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn len(&self, name: &str) -> u64 {
        fs::metadata(self.path(name)).unwrap().len()
    }
}

fn records(value_bytes: usize) -> BytesMut {
    let mut builder = Builder::new();
    builder.push(5, None, Some(&vec![1; value_bytes]));
    builder.build().unwrap()
}

fn append(writer: &mut Writer, value_bytes: usize) -> Result<i64, AppendError> {
    let mut group = [Append::client(records(value_bytes))];
    writer.append(&mut group, NOW_MS).pop().unwrap().map(|appended| appended.base_offset)
}

fn contents(writer: &Writer) -> Vec<u8> {
    let partition = writer.partition();
    partition.read_batches(partition.log_start(), 1 << 30).unwrap().to_vec()
}

#[test]
fn windows_double_and_end_with_the_segment() {
    let mut at = 0;
    let mut ends = Vec::new();
    while at < 100_000 {
        at = window(at, at, 100_000).end;
        ends.push(at);
    }
    assert_eq!(ends, [4096, 8192, 16_384, 32_768, 65_536, 102_400]);
    assert_eq!(window(1 << 29, 1 << 29, 1 << 30).end, (1 << 29) + WINDOW_MAX);
}

#[test]
fn blocks_are_reserved_before_writes_and_trimmed_afterwards() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 30, false);
    append(&mut writer, 1_000).unwrap();
    let done = kit.disk.take_done();
    assert_eq!(
        done,
        [
            "write_file leader-epoch-checkpoint.tmp",
            "rename leader-epoch-checkpoint",
            "allocate 00000000000000000000.log",
            "write_mapped 00000000000000000000.log"
        ]
    );
    append(&mut writer, 1_000).unwrap();
    // Half of the window is used: there is another.
    assert_eq!(
        kit.disk.take_done(),
        ["write_mapped 00000000000000000000.log", "allocate 00000000000000000000.log"]
    );
    let written = contents(&writer);
    assert_eq!(written.len() as u64, writer.partition().size_bytes());
    assert_eq!(kit.len(LOG), 8192);
    writer.close().unwrap();
    assert_eq!(fs::read(kit.path(LOG)).unwrap(), written);
    let done = kit.disk.take_done();
    let (cut, synced) = ("truncate 00000000000000000000.log", "sync 00000000000000000000.log");
    let at = |what: &str| done.iter().position(|one| one == what).unwrap();
    assert!(at(cut) < at(synced), "{done:?}");
    let (writer, report) = kit.open(1 << 30, true);
    assert_eq!((report, writer.partition().log_end()), (OpenReport::default(), 2));
}

#[test]
fn a_batch_may_be_larger_than_any_window() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 30, false);
    for value_bytes in [100, 50_000, 3, 200_000] {
        append(&mut writer, value_bytes).unwrap();
    }
    let written = contents(&writer);
    drop(writer);
    let (writer, report) = kit.open(1 << 30, false);
    assert_eq!((report.cut, contents(&writer)), (None, written));
}

#[test]
fn full_disk_is_detected_before_mapped_write() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 30, false);
    append(&mut writer, 100).unwrap();
    kit.disk.fail("allocate", ".log", ENOSPC);
    assert!(matches!(append(&mut writer, 9_000), Err(AppendError::Storage(_))));
    let partition = writer.partition().clone();
    assert_eq!((partition.log_end(), partition.is_offline()), (1, false));
    assert_eq!(kit.len(LOG), partition.size_bytes(), "nothing of the failed append is left");
    kit.disk.heal();
    assert_eq!(append(&mut writer, 9_000).unwrap(), 1);
    drop(writer);
    let (writer, _) = kit.open(1 << 30, false);
    assert_eq!(writer.partition().log_end(), 2);
}

#[test]
fn externally_truncated_file_takes_partition_offline() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 30, false);
    append(&mut writer, 5_000).unwrap();
    fs::File::options().write(true).open(kit.path(LOG)).unwrap().set_len(0).unwrap();
    while append(&mut writer, 1_000).is_ok() {}
    assert!(writer.partition().is_offline());
}

#[test]
fn next_segment_is_preallocated_and_renamed_at_roll() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(10_000, false);
    append(&mut writer, 4_000).unwrap();
    assert!(!kit.path(SPARE).exists());
    append(&mut writer, 4_000).unwrap();
    assert_eq!(kit.len(SPARE), 12_288, "all that a segment can hold, in whole pages");
    kit.disk.take_done();
    assert_eq!(append(&mut writer, 4_000).unwrap(), 2);
    let done = kit.disk.take_done();
    assert!(done.contains(&"rename 00000000000000000002.log".to_owned()), "{done:?}");
    assert!(!done.contains(&"create 00000000000000000002.log".to_owned()), "{done:?}");
    assert!(!kit.path(SPARE).exists());
    assert_eq!(kit.len(LOG), 8_000 + 2 * 70, "a sealed segment has no room");
    append(&mut writer, 4_000).unwrap();
    assert!(kit.path(SPARE).exists());
    drop(writer);
    assert!(!kit.path(SPARE).exists(), "nobody is left to use it");
    let (writer, report) = kit.open(10_000, false);
    assert_eq!((writer.partition().log_end(), report.cut), (4, None));
}

#[test]
fn roll_does_not_wait_for_spare_segment() {
    let dir = tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::default());
    let late: Arc<Mutex<Vec<Work>>> = Arc::default();
    let queue = late.clone();
    let background = Background::new(move |work| queue.lock().push(work));
    let spare = Spare::begin(&disk, dir.path(), 10_000, &background);
    assert!(spare.take(&dir.path().join(LOG)).is_none());
    late.lock().drain(..).for_each(|work| work());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "what nobody wants is removed");
}

#[test]
fn zeroes_after_sealed_segment_lose_no_later_records() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 20, false);
    append(&mut writer, 1_000).unwrap();
    writer.roll(NOW_MS).unwrap();
    append(&mut writer, 1_000).unwrap();
    drop(writer);
    // The cut at the roll did not reach the device.
    fs::File::options().write(true).open(kit.path(LOG)).unwrap().set_len(8192).unwrap();
    let (writer, report) = kit.open(1 << 20, false);
    assert_eq!((writer.partition().log_end(), report.cut), (2, None));
    assert_eq!(kit.len(LOG), 1_000 + 70);
}

#[test]
fn roll_of_durable_log_syncs_its_truncation() {
    let kit = Kit::new();
    let (mut writer, _) = kit.open(1 << 20, false);
    append(&mut writer, 1_000).unwrap();
    assert_eq!(writer.flush().unwrap(), 1);
    kit.disk.take_done();
    writer.roll(NOW_MS).unwrap();
    let done = kit.disk.take_done();
    let synced = done.iter().position(|one| *one == format!("sync {LOG}"));
    let named = done.iter().position(|one| one.contains("00000000000000000001.log"));
    // A crash in between would leave a segment that another follows, with zeroes at its end that
    // the recovery point has trusted.
    assert!(synced.is_some() && synced < named, "{done:?}");
}
