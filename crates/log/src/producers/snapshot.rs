//! Producer snapshots: `<offset>.snapshot` contains the state of [`Producers`] at that offset, so
//! that opening a log need not read all of it. Layout in `docs/format/producer-snapshot.md`.

use std::path::{Path, PathBuf};

use levada_base::batch::crc32c;

use super::{Producer, Producers, Written};
use crate::LogError;
use crate::disk::{At, Disk};
use crate::segment::file_name;

const VERSION: i16 = 1;
const HEAD_LEN: usize = 10;
const ENTRY_LEN: usize = 46;
const _: () = assert!(ENTRY_LEN == 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8, "the fields of an entry");

/// The file of the snapshot at an offset.
pub(crate) fn path(dir: &Path, offset: i64) -> PathBuf {
    dir.join(file_name(offset, ".snapshot"))
}

/// Waits until the snapshot at `offset` is on the device.
pub(crate) fn sync(disk: &dyn Disk, dir: &Path, offset: i64) -> Result<(), LogError> {
    let path = path(dir, offset);
    disk.sync_file(&path).at("sync", &path)
}

impl Producers {
    /// Writes the snapshot at `offset`; the previous snapshot stays until this one is complete.
    pub(crate) fn store(&self, disk: &dyn Disk, dir: &Path, offset: i64) -> Result<(), LogError> {
        let path = path(dir, offset);
        disk.write_file(&path, &self.encode()).at("write", &path)
    }

    /// Reads the snapshot at `offset`.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path, offset: i64, now_ms: i64) -> Result<Self, LogError> {
        let path = path(dir, offset);
        let bytes = disk.read_file(&path).at("read", &path)?;
        let damaged = |detail: String| LogError::corrupt(&path, detail);
        let producers = Self::decode(&bytes, now_ms).map_err(damaged)?;
        if producers.reach() >= offset {
            return Err(damaged(format!("it contains offset {}", producers.reach())));
        }
        Ok(producers)
    }

    /// The bytes of a snapshot. Of each producer's batches only the last is kept.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut ids: Vec<i64> = self.known.keys().copied().collect();
        ids.sort_unstable();
        let mut bytes = Vec::with_capacity(HEAD_LEN + ids.len() * ENTRY_LEN);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(ids.len() as u32).to_be_bytes());
        for id in ids {
            let producer = &self.known[&id];
            let none = Written { last_sequence: -1, last_offset: -1, offset_delta: 0, timestamp: -1 };
            let last = producer.last().unwrap_or(&none);
            bytes.extend_from_slice(&id.to_be_bytes());
            bytes.extend_from_slice(&producer.epoch.to_be_bytes());
            bytes.extend_from_slice(&last.last_sequence.to_be_bytes());
            bytes.extend_from_slice(&last.last_offset.to_be_bytes());
            bytes.extend_from_slice(&last.offset_delta.to_be_bytes());
            bytes.extend_from_slice(&producer.last_timestamp.to_be_bytes());
            bytes.extend_from_slice(&producer.coordinator_epoch.to_be_bytes());
            bytes.extend_from_slice(&producer.transaction_start.unwrap_or(-1).to_be_bytes());
        }
        let crc = crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Decodes a snapshot, or describes its damage.
    pub(crate) fn decode(bytes: &[u8], now_ms: i64) -> Result<Self, String> {
        let (head, entries) = bytes.split_at_checked(HEAD_LEN).ok_or("shorter than its head")?;
        let version = i16::from_be_bytes([head[0], head[1]]);
        if version != VERSION {
            return Err(format!("version is {version}, not {VERSION}"));
        }
        let stored = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
        if stored != crc32c(&bytes[6..]) {
            return Err("checksum does not match".to_owned());
        }
        let count = u32::from_be_bytes([head[6], head[7], head[8], head[9]]);
        if u64::from(count) * ENTRY_LEN as u64 != entries.len() as u64 {
            return Err(format!("{count} entries do not fill {} bytes", entries.len()));
        }
        let mut producers = Self::default();
        for entry in entries.chunks_exact(ENTRY_LEN) {
            let (id, producer) = decode_entry(entry, now_ms);
            if producer.transaction_start.is_some_and(|start| producers.open.contains_key(&start)) {
                return Err("two transactions begin at the same offset".to_owned());
            }
            producers.put(id, Some(producer));
        }
        Ok(producers)
    }

    /// The last offset in this state, -1 for none.
    pub(crate) fn reach(&self) -> i64 {
        let last =
            self.known.values().filter_map(|producer| producer.last()).map(|written| written.last_offset);
        last.chain(self.open.keys().copied()).max().unwrap_or(-1)
    }
}

fn decode_entry(entry: &[u8], now_ms: i64) -> (i64, Producer) {
    let long = |at: usize| i64::from_be_bytes(entry[at..at + 8].try_into().expect("eight bytes of an entry"));
    let int = |at: usize| i32::from_be_bytes(entry[at..at + 4].try_into().expect("four bytes of an entry"));
    let mut producer = Producer::new(i16::from_be_bytes([entry[8], entry[9]]), now_ms);
    let (last_sequence, last_offset, offset_delta) = (int(10), long(14), int(22));
    producer.last_timestamp = long(26);
    // The format has no other field for the time of the last batch. A time ahead of the clock is
    // wrong.
    if producer.last_timestamp >= 0 {
        producer.seen_ms = producer.last_timestamp.min(now_ms);
    }
    producer.coordinator_epoch = int(34);
    producer.transaction_start = Some(long(38)).filter(|offset| *offset >= 0);
    if last_offset >= 0 {
        producer.push(Written {
            last_sequence,
            last_offset,
            offset_delta,
            timestamp: producer.last_timestamp,
        });
    }
    (long(0), producer)
}
