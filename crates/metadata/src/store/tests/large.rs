//! Changes of many bytes, and files that cannot be made.

use std::fs::File;
use std::io::{self, IoSlice};
use std::time::SystemTime;

use levada_log::disk::{Disk, ReadFiles};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::*;
use crate::records::ConfigRecord;

/// A setting of a group whose name and value have this number of bytes together.
fn config(index: usize, bytes: usize) -> Record {
    let record = ConfigRecord {
        resource_type: 32,
        resource_name: "g".repeat(bytes / 2),
        name: format!("key{index}"),
        value: Some("v".repeat(bytes / 2)),
    };
    record.into()
}

fn configs(count: usize, bytes: usize) -> Decision<()> {
    Decision { records: (0..count).map(|index| config(index, bytes)).collect(), outcome: () }
}

fn found(store: &Store) -> usize {
    store
        .image()
        .config_resources()
        .filter(|(one, _)| one.name.starts_with('g'))
        .map(|(_, all)| all.len())
        .sum()
}

#[test]
fn unreadably_large_change_is_refused_before_write() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let log = fs::read(dir.path().join(SEGMENT)).unwrap();
    // The keys of one group with a name of eight megabytes.
    for (count, bytes) in [(17, 16 << 20), (1, 10 << 20), (100, 1 << 20)] {
        let refused = store.update(2_000, |_, _| configs(count, bytes)).unwrap_err().to_string();
        assert!(refused.contains("more than"), "{refused}");
    }
    assert_eq!(fs::read(dir.path().join(SEGMENT)).unwrap(), log);
    add(&mut store, "a", 1);
    drop(store);
    assert_eq!(names(open(dir.path()).0.image()), ["a"]);
}

#[test]
fn written_metadata_batch_of_any_size_is_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let (offset, epoch) = (store.image().offset() + 1, store.image().epoch());
    drop(store);
    let list: Vec<Record> = (0..17).map(|index| config(index, 8 << 20)).collect();
    let path = dir.path().join(SEGMENT);
    let mut log = fs::read(&path).unwrap();
    log.extend_from_slice(&metadata_batch(&path, &values(&list), offset, epoch, 1_000).unwrap());
    fs::write(&path, &log).unwrap();
    let (mut store, _) = open(dir.path());
    assert_eq!(found(&store), 17);
    // Nor is it too large for a snapshot, in batches that Kafka takes.
    store.limits.snapshot_bytes = 1;
    store.due_snapshot(2_000).unwrap().unwrap().write(2_000).unwrap();
    drop(store);
    assert_eq!(found(&open(dir.path()).0), 17);
}

#[test]
fn multi_batch_change_is_atomic() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    add(&mut store, "a", 1);
    let path = dir.path().join(SEGMENT);
    let before = contents(&path).len();
    store.update(2_000, |_, _| configs(30, 1 << 20)).unwrap();
    assert_eq!(found(&store), 30);
    drop(store);
    let log = fs::read(&path).unwrap();
    let batches: Vec<usize> = contents(&path)[before..].iter().map(|(.., list)| list.len()).collect();
    assert!(batches.len() >= 6 && batches.iter().sum::<usize>() == 32, "{batches:?}");
    assert_eq!(found(&open(dir.path()).0), 30);
    // The process ended in the middle.
    for keep in [log.len() - 1, log.len() / 2] {
        fs::write(&path, &log[..keep]).unwrap();
        let (mut store, _) = open(dir.path());
        assert_eq!((found(&store), names(store.image())), (0, vec!["a".to_owned()]));
        add(&mut store, "b", 2);
        drop(store);
        assert_eq!(names(open(dir.path()).0.image()), ["a", "b"]);
    }
}

#[test]
fn full_disk_during_change_keeps_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Scarce::default());
    let (mut store, _) =
        Store::open(&StoreOptions { disk: disk.clone(), ..options(dir.path()) }, 1_000).unwrap();
    let log = fs::read(dir.path().join(SEGMENT)).unwrap();
    disk.fail("write", Errno::NOSPC, 2);
    assert!(matches!(
        store.update(2_000, |_, _| configs(30, 1 << 20)),
        Err(StoreError::File(LogError::Io { .. }))
    ));
    assert_eq!(fs::read(dir.path().join(SEGMENT)).unwrap(), log);
    add(&mut store, "a", 1);
    drop(store);
    assert_eq!(names(open(dir.path()).0.image()), ["a"]);
}

#[test]
fn segment_creation_shortage_leaves_nothing_in_doubt() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC] {
        for call in ["create", "sync_dir"] {
            let dir = tempfile::tempdir().unwrap();
            let disk = Arc::new(Scarce::default());
            let mut options = StoreOptions { disk: disk.clone(), ..options(dir.path()) };
            options.limits.segment_bytes = 1;
            let (mut store, _) = Store::open(&options, 1_000).unwrap();
            disk.fail(call, errno, 0);
            let refused = store.update(2_000, |_, _| Decision { records: topic("a", 1), outcome: () });
            assert!(matches!(refused, Err(StoreError::File(LogError::Io { .. }))), "{call} {errno}");
            // The process may end here.
            let (ended, image) = (tempfile::tempdir().unwrap(), dir.path());
            copy(image, ended.path());
            assert_eq!(names(open(ended.path()).0.image()), Vec::<String>::new());
            add(&mut store, "b", 2);
            drop(store);
            assert_eq!(names(open(dir.path()).0.image()), ["b"], "{call} {errno}");
        }
    }
}

#[test]
fn failed_segment_creation_breaks_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Scarce::default());
    let mut options = StoreOptions { disk: disk.clone(), ..options(dir.path()) };
    options.limits.segment_bytes = 1;
    let (mut store, _) = Store::open(&options, 1_000).unwrap();
    disk.fail("sync_dir", Errno::IO, 0);
    for _ in 0..2 {
        store.update(2_000, |_, _| Decision { records: topic("a", 1), outcome: () }).unwrap_err();
    }
    let refused = store.update(2_000, |_, _| Decision { records: topic("a", 1), outcome: () });
    assert!(matches!(refused, Err(StoreError::Broken { .. })));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to.join(METADATA_DIR)).unwrap();
    for dir in [PathBuf::new(), PathBuf::from(METADATA_DIR)] {
        for entry in fs::read_dir(from.join(&dir)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), to.join(&dir).join(entry.file_name())).unwrap();
            }
        }
    }
}

/// The real disk, on which one call fails once.
#[derive(Debug, Default)]
struct Scarce(Mutex<Option<(&'static str, Errno, usize)>>);

impl Scarce {
    /// The call of this name fails after this number of successes.
    fn fail(&self, call: &'static str, errno: Errno, after: usize) {
        *self.0.lock() = Some((call, errno, after));
    }

    fn ask(&self, call: &str) -> io::Result<()> {
        let mut planned = self.0.lock();
        match &mut *planned {
            Some((name, errno, 0)) if *name == call => {
                let error = io::Error::from(*errno);
                *planned = None;
                Err(error)
            }
            Some((name, _, after)) if *name == call => {
                *after -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl ReadFiles for Scarce {}

impl Disk for Scarce {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.ask("create")?;
        RealDisk.create(path)
    }
    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write_file(path, bytes)
    }
    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.ask("write")?;
        RealDisk.write_at(file, path, parts, position)
    }
    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        RealDisk.copy(from, path, into, len)
    }
    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        RealDisk.truncate(file, path, len)
    }
    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        RealDisk.allocate(file, path, position, len)
    }
    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, path, time)
    }
    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        RealDisk.sync(file, path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask("sync_dir")?;
        RealDisk.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir(dir)
    }
    fn protect(&self, path: &Path) -> io::Result<()> {
        RealDisk.protect(path)
    }
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_file(path)
    }
}
