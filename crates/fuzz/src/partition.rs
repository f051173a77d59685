//! A partition's directory with arbitrary damage: a real one with edits, or files of any bytes.
//! Checksums may be corrected after the edits. It must open, with its marks in order; every
//! question gets an answer or an error; appended batches can be read, before and after another
//! opening. Batches before the first changed byte of their file are served unchanged. A log that
//! follows a leader takes the same files as answers of the leader: no batch with a wrong checksum
//! is published.

use std::fs;
use std::path::Path;

use levada_base::batch::{self, BatchView, Builder};
use levada_log::{Append, LogConfig, OpenOptions, Partition, ReadError, ReplicaSource, Writer};

use crate::{damage, scratch};

macro_rules! golden {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../log/testdata/kafka-4.3.1/golden-0/", $name)))
    };
}

const GOLDEN: [(&str, &[u8]); 10] = [
    golden!("00000000000000000000.log"),
    golden!("00000000000000000000.index"),
    golden!("00000000000000000000.timeindex"),
    golden!("00000000000000000096.log"),
    golden!("00000000000000000096.index"),
    golden!("00000000000000000096.timeindex"),
    golden!("00000000000000000096.txnindex"),
    golden!("00000000000000000096.snapshot"),
    golden!("00000000000000000121.snapshot"),
    golden!("leader-epoch-checkpoint"),
];

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some(([flags, recovery_point, log_start], rest)) = input.split_first_chunk() else { return };
    let dir = scratch::path().join("t-0");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).expect("a directory of our own");
    let clean = flags & 1 != 0;
    // Without trusted segments an opening has truncated damaged batches.
    let trusts = clean || *recovery_point > 0;
    let files = Files::of(contents(rest, *flags));
    files.lay_out(&dir);
    let whole = !(files.is_changed() && trusts);
    let mut writer = open(&dir, clean, (i64::from(*recovery_point), i64::from(*log_start)));
    question(writer.partition());
    // Batches from here on, which an opening may have truncated, make room for new ones.
    let found_end = writer.partition().log_end();
    files.compare(writer.partition(), (found_end, clean));
    if flags & 32 != 0 {
        return follow(&mut writer, &files);
    }
    if !append(&mut writer, &files, whole) {
        return;
    }
    files.compare(writer.partition(), (found_end, clean));
    let end = writer.partition().log_end();
    if flags & 16 != 0 {
        let partition = writer.partition().clone();
        let middle = partition.log_start().midpoint(end);
        if writer.truncate(middle, 0).is_ok() {
            assert!(partition.log_end() <= middle);
            question(&partition);
            files.compare(&partition, (found_end, clean));
        }
    }
    let end = writer.partition().log_end();
    let closed = writer.close().is_ok();
    let writer = open(&dir, closed, (0, 0));
    // Damage in the present last segment makes a start check more, and ends the log there.
    assert!(!closed || !whole || writer.partition().log_end() == end);
    question(writer.partition());
    files.compare(writer.partition(), (found_end, clean && closed));
}

/// Files in the directory before it is opened.
struct Files(Vec<(&'static str, Vec<u8>)>);

impl Files {
    fn of(contents: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self(contents)
    }

    fn lay_out(&self, dir: &Path) {
        for (name, bytes) in &self.0 {
            fs::write(dir.join(name), bytes).expect("a file of our own");
        }
    }

    /// The log files: their bytes, and those of the real partition.
    fn logs(&self) -> impl Iterator<Item = (&[u8], &'static [u8])> {
        let pairs = self.0.iter().zip(GOLDEN).filter(|((name, _), _)| name.ends_with(".log"));
        pairs.map(|((_, bytes), (_, golden))| (&bytes[..], golden))
    }

    fn is_changed(&self) -> bool {
        self.logs().any(|(bytes, golden)| bytes != golden)
    }

    /// True if one of the log files has these bytes somewhere.
    fn hold(&self, wanted: &[u8]) -> bool {
        self.logs().any(|(bytes, _)| bytes.windows(wanted.len()).any(|window| window == wanted))
    }

    /// Checks that a partition serves the untouched batches below `found_end` unchanged. After an
    /// unclean stop, damage ends the log: segments after a damaged one are removed.
    fn compare(&self, partition: &Partition, (found_end, clean): (i64, bool)) {
        let end = partition.log_end().min(found_end);
        let mut is_damaged = false;
        for (bytes, golden) in self.logs() {
            if is_damaged && !clean {
                break;
            }
            is_damaged |= bytes != golden;
            let same = bytes.iter().zip(golden).take_while(|(one, other)| one == other).count();
            let mut at = 0;
            while let Ok(view) = BatchView::parse(&golden[at..]) {
                let (base, last) = (view.base_offset(), view.last_offset());
                let batch = &golden[at..at + view.size_bytes()];
                at += batch.len();
                if at > same {
                    break;
                }
                if base >= partition.log_start() && last < end {
                    let read = partition.read_batches(base, 1).map(|bytes| bytes.to_vec());
                    assert!(
                        read.as_ref().is_ok_and(|read| read.starts_with(batch)),
                        "offset {base} is untouched, and read as {read:?}"
                    );
                }
            }
        }
    }
}

fn open(dir: &Path, clean: bool, (recovery_point, log_start): (i64, i64)) -> Writer {
    let config = LogConfig { index_interval_bytes: 300, segment_index_bytes: 4096, ..LogConfig::default() };
    let options = OpenOptions { config, clean, recovery_point, log_start, ..OpenOptions::new(dir) };
    Writer::open(options, 0).expect("damage is repaired or served around").0
}

/// Files as edits of the golden ones (four bytes each: file, place, value), or of the input's
/// bytes.
fn contents(input: &[u8], flags: u8) -> Vec<(&'static str, Vec<u8>)> {
    let mut files: Vec<(&str, Vec<u8>)> =
        GOLDEN.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect();
    if flags & 2 != 0 {
        let part = input.len() / files.len() + 1;
        for (file, bytes) in files.iter_mut().zip(input.chunks(part)) {
            file.1 = bytes.to_vec();
        }
        return files;
    }
    damage::edit(&mut files, input);
    if flags & 4 != 0 {
        files
            .iter_mut()
            .filter(|(name, _)| name.ends_with(".log"))
            .for_each(|(_, bytes)| damage::seal_batches(bytes));
    }
    if flags & 8 != 0 {
        let snapshots =
            files.iter_mut().filter(|(name, bytes)| name.ends_with(".snapshot") && bytes.len() > 6);
        snapshots.for_each(|(_, bytes)| {
            let crc = crc_fast::crc32_iscsi(&bytes[6..]);
            bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        });
    }
    files
}

fn question(partition: &Partition) {
    let (start, end) = (partition.log_start(), partition.log_end());
    let stable = partition.last_stable();
    assert!(start <= stable && stable <= partition.high_watermark() && partition.high_watermark() <= end);
    assert!(partition.recovery_point() <= end);
    let stride = 1 + (end - start) / 40;
    let mut offset = start;
    while offset <= end && offset >= start {
        for max_bytes in [1, 500, 1 << 20] {
            if let Ok(slice) = partition.read(offset, max_bytes, end, true) {
                assert!(slice.len() <= partition.size_bytes());
            }
        }
        let _ = partition.aborted(offset, stable);
        offset += stride;
    }
    let _ = partition.read_batches(start, 1 << 20);
    for timestamp in [i64::MIN, -1, 0, 1_700_000_010_000, i64::MAX] {
        let _ = partition.times().first_at(timestamp);
    }
    let _ = partition.times().latest();
    for epoch in [-1, 0, 1, i32::MAX] {
        let (_, epoch_end) = partition.epoch_end_offset(epoch);
        assert!(epoch_end <= end);
    }
}

/// Appends the files as answers of a leader, after the present end and in an empty log.
fn follow(writer: &mut Writer, files: &Files) {
    writer.resign();
    let offset = writer.partition().log_end();
    for restarts in [false, true] {
        if restarts && writer.restart_at(offset % 97, 0).and_then(|files| files.remove()).is_err() {
            return;
        }
        let start = writer.partition().log_end();
        for (bytes, _) in files.logs() {
            for answer in [bytes, bytes.get(bytes.len() / 3..).unwrap_or_default()] {
                let before = writer.partition().log_end();
                let source = ReplicaSource { leader_epoch: 5, log_start: if restarts { before } else { 0 } };
                match writer.append_replica(answer, source, 0) {
                    Ok(appended) => {
                        assert!(appended.log_end >= before && appended.bytes <= answer.len() as u64)
                    }
                    Err(_) => assert_eq!(writer.partition().log_end(), before),
                }
            }
        }
        let partition = writer.partition().clone();
        question(&partition);
        let mut at = start.max(partition.log_start());
        while at < partition.log_end() {
            let bytes = partition.read_batches(at, 1).expect("it was appended just now");
            let batch = batch::check_stored(&bytes).expect("its checksum was checked");
            assert!(batch.last_offset() >= at && batch.leader_epoch() <= 5);
            at = batch.last_offset() + 1;
        }
    }
}

/// True if there was room for it.
fn append(writer: &mut Writer, files: &Files, whole: bool) -> bool {
    let end = writer.partition().log_end();
    let mut builder = Builder::new();
    builder.push(1, None, Some(b"new")).push(2, None, None);
    let mut group = [Append::client(builder.build().expect("two records"))];
    match writer.append(&mut group, 0).pop().expect("one batch, one outcome") {
        Ok(appended) => {
            assert_eq!(appended.base_offset, end);
            match writer.partition().read_batches(end, 1) {
                Ok(bytes) if bytes == group[0].records => {}
                // Damage in trusted segments: no index leads past it,
                Err(ReadError::Corrupt { .. }) if !whole => {}
                // or a base offset, which no checksum covers, leads to another batch of the damaged
                // files.
                Ok(bytes) if !whole && files.hold(&bytes) => {}
                other => panic!("it was written just now: {other:?}"),
            }
            true
        }
        Err(_) => false,
    }
}
