//! The cache: files of parts in a directory, a table of them, and one fetch at a time of each.
//!
//! A part is written under a temporary name and renamed when it is complete, without a sync: the
//! trailer has a checksum, which the first use after a start compares with the bytes. So any
//! remains of a crash, of a full disk or of another version are removed, never served.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use levada_base::IdBytes;
use parking_lot::Mutex;

use crate::ledger::{Ledger, Pattern};
use crate::trailer::TRAILER_LEN;
use crate::{CHUNK_BYTES, ChunkKey, Part};

mod fetch;
mod file;
#[cfg(test)]
mod tests;

use self::fetch::{Fetch, Turn};
use self::file::{PartWriter, is_intact};

/// Bytes that an index may have. An index of a Kafka segment of 2 GiB with the smallest interval
/// has fewer.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// A part in a local file. The file stays readable after the cache has removed its name.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The file, open for reading. Bytes beyond `len` belong to the cache.
    pub file: Arc<File>,
    /// Bytes of the part.
    pub len: u64,
}

/// A part is not available. `E` is the error of the fetch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChunkError<E> {
    /// The part cannot be fetched.
    #[error("{0}")]
    Fetch(E),
    /// The fetch ended without an error after another number of bytes than the part has.
    #[error("{key}: {found} bytes were received for a part of {expected} bytes")]
    Length {
        /// Key of the part.
        key: ChunkKey,
        /// Number of bytes received.
        found: u64,
        /// Bytes of the part, or the largest possible number of them.
        expected: u64,
    },
    /// The local file cannot be written or read.
    #[error("{path}: cannot {action} a part of the remote cache: {error}")]
    Disk {
        /// Operation that failed.
        action: &'static str,
        /// File of the failed operation.
        path: PathBuf,
        /// Error of the operating system.
        error: Arc<io::Error>,
    },
    /// The fetch of another reader ended by a panic.
    #[error("{0}: the fetch by another reader was abandoned")]
    Abandoned(ChunkKey),
}

impl<E> ChunkError<E> {
    fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Disk { action, path: path.to_owned(), error: Arc::new(error) }
    }
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Number of requests for parts that were present, or were being fetched.
    pub hits: u64,
    /// Number of requests for parts that were fetched.
    pub misses: u64,
    /// Number of bytes fetched.
    pub fetched_bytes: u64,
    /// Number of parts removed to free space.
    pub evictions: u64,
    /// Bytes of all parts at present.
    pub bytes: u64,
    /// Number of parts in the cache.
    pub parts: usize,
}

/// Contents of a directory when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Number of parts from the last run.
    pub parts: usize,
    /// Unfinished or impossible files removed.
    pub removed: usize,
}

/// A bounded directory of parts of remote segments.
#[derive(Debug)]
pub struct Cache<E> {
    dir: PathBuf,
    table: Mutex<Table<E>>,
    hits: AtomicU64,
    misses: AtomicU64,
    fetched_bytes: AtomicU64,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct Table<E> {
    ledger: Ledger,
    slots: HashMap<ChunkKey, Slot<E>>,
}

#[derive(Debug)]
enum Slot<E> {
    /// A thread fetches or checks the part.
    Busy(Arc<Fetch<E>>),
    Ready {
        len: u64,
        /// True if this process has fetched or checked the bytes.
        is_checked: bool,
        /// The open file, as long as a reader uses it.
        file: Weak<File>,
    },
}

impl<E: Clone> Cache<E> {
    /// Opens a directory, which is created if it does not exist, for up to `capacity_bytes` of
    /// parts. Removes unfinished files, and parts beyond the capacity, the oldest first. Files with
    /// other names stay.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(dir: PathBuf, capacity_bytes: u64) -> io::Result<(Self, Opened)> {
        fs::create_dir_all(&dir)?;
        let (mut opened, mut found) = (Opened::default(), Vec::new());
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if ChunkKey::is_unfinished(&name) {
                fs::remove_file(entry.path())?;
                opened.removed += 1;
            }
            let Some(key) = ChunkKey::of_file(&name) else { continue };
            let data = entry.metadata()?;
            match data.len().checked_sub(TRAILER_LEN as u64).filter(|len| *len <= bytes_max(key.part)) {
                Some(len) => found.push((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), key, len)),
                None => {
                    fs::remove_file(entry.path())?;
                    opened.removed += 1;
                }
            }
        }
        found.sort_unstable();
        let mut table = Table { ledger: Ledger::new(capacity_bytes), slots: HashMap::new() };
        for (_, key, len) in found {
            let mut leaving = table.ledger.reserve(key, len);
            leaving.extend(table.ledger.settle(key, len));
            table.slots.insert(key, Slot::Ready { len, is_checked: false, file: Weak::new() });
            for key in leaving {
                table.slots.remove(&key);
                fs::remove_file(dir.join(key.file_name()))?;
                opened.removed += 1;
            }
        }
        opened.parts = table.slots.len();
        let count = || AtomicU64::new(0);
        let cache = Self {
            dir,
            table: Mutex::new(table),
            hits: count(),
            misses: count(),
            fetched_bytes: count(),
            evictions: count(),
        };
        Ok((cache, opened))
    }

    /// The part, from its file, or fetched by `fetch`, which writes its bytes in order. `len` is
    /// its length if that is known. Readers that request it in the meantime wait for the same
    /// fetch, and get its error. Blocks on the disk and on the fetch.
    ///
    /// # Errors
    /// The fetch, or a disk that fails or is full. The next request fetches again.
    pub fn obtain(
        &self,
        key: ChunkKey,
        len: Option<u64>,
        fetch: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Chunk, ChunkError<E>> {
        let turn = match self.begin(key, len) {
            Begun::There(chunk) => return Ok(chunk),
            Begun::Waits(other) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return other.wait();
            }
            Begun::Checks(turn) => {
                let checked = self.check(key);
                if let Some(chunk) = checked {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                    self.finish(key, turn, &Ok(chunk.clone()));
                    return Ok(chunk);
                }
                turn
            }
            Begun::Fetches(turn) => turn,
        };
        self.misses.fetch_add(1, Ordering::Relaxed);
        let fetched = self.fetch(key, len, fetch);
        self.finish(key, turn, &fetched);
        fetched
    }

    /// The part if it is present and needs no check. Opens its file if no other reader has it open.
    pub fn there(&self, key: ChunkKey) -> Option<Chunk> {
        let chunk = {
            let mut table = self.table.lock();
            self.ready(&mut table, key, None)?
        };
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    /// True if the part is present, checked or not, or is being fetched.
    pub fn has(&self, key: ChunkKey) -> bool {
        self.table.lock().slots.contains_key(&key)
    }

    /// Records that the bytes from `from` to `to` of a segment's records were read, and returns how
    /// that read relates to earlier ones.
    pub fn note_read(&self, segment: IdBytes, from: u64, to: u64) -> Pattern {
        self.table.lock().ledger.read(segment, from, to)
    }

    /// Removes all parts of a deleted segment. A part that is being fetched stays, and is evicted
    /// like any unused part.
    pub fn forget(&self, segment: IdBytes) {
        let mut table = self.table.lock();
        for key in table.ledger.of_segment(segment) {
            if matches!(table.slots.get(&key), Some(Slot::Ready { .. })) {
                table.ledger.remove(&key);
                self.drop_slots(&mut table, vec![key]);
            }
        }
    }

    /// Sums since the start, and present sizes.
    pub fn counts(&self) -> CacheCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let table = self.table.lock();
        CacheCounts {
            hits: of(&self.hits),
            misses: of(&self.misses),
            fetched_bytes: of(&self.fetched_bytes),
            evictions: of(&self.evictions),
            bytes: table.ledger.bytes(),
            parts: table.ledger.len(),
        }
    }

    fn begin(&self, key: ChunkKey, len: Option<u64>) -> Begun<'_, E> {
        let mut table = self.table.lock();
        if let Some(chunk) = self.ready(&mut table, key, len) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Begun::There(chunk);
        }
        match table.slots.get(&key) {
            Some(Slot::Busy(other)) => return Begun::Waits(other.clone()),
            // Its length is right, so its bytes are to be compared.
            Some(Slot::Ready { is_checked: false, len: found, .. })
                if len.is_none_or(|len| len == *found) =>
            {
                table.ledger.pin(key);
                return Begun::Checks(self.turn(&mut table, key));
            }
            Some(Slot::Ready { .. }) => {
                table.ledger.remove(&key);
                self.drop_slots(&mut table, vec![key]);
            }
            None => {}
        }
        let leaving = table.ledger.reserve(key, len.unwrap_or(0));
        self.evict(&mut table, leaving);
        Begun::Fetches(self.turn(&mut table, key))
    }

    fn turn(&self, table: &mut Table<E>, key: ChunkKey) -> Turn<'_, E> {
        let fetch = Arc::new(Fetch::default());
        table.slots.insert(key, Slot::Busy(fetch.clone()));
        let give_up = move || {
            let mut table = self.table.lock();
            table.ledger.remove(&key);
            table.slots.remove(&key);
        };
        Turn::new(key, fetch, give_up)
    }

    /// A checked part of this length, with its file open.
    fn ready(&self, table: &mut Table<E>, key: ChunkKey, wanted: Option<u64>) -> Option<Chunk> {
        let Some(Slot::Ready { len, is_checked: true, file }) = table.slots.get_mut(&key) else {
            return None;
        };
        let len = *len;
        if wanted.is_some_and(|wanted| wanted != len) {
            return None;
        }
        let held = file.upgrade();
        let open = held.or_else(|| File::open(self.dir.join(key.file_name())).ok().map(Arc::new));
        match open {
            Some(open) => {
                *file = Arc::downgrade(&open);
                table.ledger.touch(&key);
                Some(Chunk { file: open, len })
            }
            // The file has been removed, or there are no descriptors.
            None => {
                table.ledger.remove(&key);
                self.drop_slots(table, vec![key]);
                None
            }
        }
    }

    /// Compares the bytes of a part with its trailer. None if they are damaged; the file is removed
    /// then.
    fn check(&self, key: ChunkKey) -> Option<Chunk> {
        let path = self.dir.join(key.file_name());
        let checked = File::open(&path).and_then(|file| Ok((is_intact(&file, key)?, file)));
        match checked {
            Ok((Some(len), file)) => Some(Chunk { file: Arc::new(file), len }),
            _ => {
                // A file that cannot be removed is replaced.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    fn fetch(
        &self,
        key: ChunkKey,
        len: Option<u64>,
        fetch: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Chunk, ChunkError<E>> {
        let path = self.dir.join(key.unfinished_name());
        let written = self.write(key, len, fetch);
        if written.is_err() {
            // The next start removes it otherwise.
            let _ = fs::remove_file(&path);
        }
        written
    }

    fn write(
        &self,
        key: ChunkKey,
        len: Option<u64>,
        fetch: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Chunk, ChunkError<E>> {
        let path = self.dir.join(key.unfinished_name());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(ChunkError::disk("create", &path))?;
        let expected = len.unwrap_or_else(|| bytes_max(key.part));
        let mut writer = PartWriter::new(&file, expected);
        let fetched = fetch(&mut writer);
        let (found, failed) = (writer.offered(), writer.take_failure());
        if let Some(error) = failed {
            return Err(ChunkError::disk("write", &path)(error));
        }
        fetched.map_err(ChunkError::Fetch)?;
        if found > expected || len.is_some_and(|len| len != found) {
            return Err(ChunkError::Length { key, found, expected });
        }
        writer.finish(key).map_err(ChunkError::disk("write", &path))?;
        fs::rename(&path, self.dir.join(key.file_name())).map_err(ChunkError::disk("rename", &path))?;
        self.fetched_bytes.fetch_add(found, Ordering::Relaxed);
        Ok(Chunk { file: Arc::new(file), len: found })
    }

    /// Ends a fetch or a check, and passes its result to the waiting readers.
    fn finish(&self, key: ChunkKey, turn: Turn<'_, E>, result: &Result<Chunk, ChunkError<E>>) {
        match result {
            Ok(chunk) => {
                let mut table = self.table.lock();
                let (len, file) = (chunk.len, Arc::downgrade(&chunk.file));
                table.slots.insert(key, Slot::Ready { len, is_checked: true, file });
                let leaving = table.ledger.settle(key, len);
                self.evict(&mut table, leaving);
            }
            Err(_) => {
                let mut table = self.table.lock();
                table.ledger.remove(&key);
                table.slots.remove(&key);
            }
        }
        turn.end(result.clone());
    }

    fn evict(&self, table: &mut Table<E>, leaving: Vec<ChunkKey>) {
        self.evictions.fetch_add(leaving.len() as u64, Ordering::Relaxed);
        self.drop_slots(table, leaving);
    }

    fn drop_slots(&self, table: &mut Table<E>, keys: Vec<ChunkKey>) {
        for key in keys {
            table.slots.remove(&key);
            // A file that remains has its place again after the next start.
            let _ = fs::remove_file(self.dir.join(key.file_name()));
        }
    }
}

/// The state of a part that is requested.
enum Begun<'a, E> {
    There(Chunk),
    Waits(Arc<Fetch<E>>),
    Checks(Turn<'a, E>),
    Fetches(Turn<'a, E>),
}

fn bytes_max(part: Part) -> u64 {
    match part {
        Part::Records(_) => CHUNK_BYTES,
        Part::Offsets | Part::Times | Part::Aborted => INDEX_BYTES_MAX,
    }
}
