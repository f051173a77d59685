//! A disk that writes down every change in the order in which it happens: the contents of a
//! directory at any moment, and the part of them that is on the device, follow from it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use levada_io::map::WriteMap;
use parking_lot::{Condvar, Mutex};

use crate::disk::{DirEntry, Disk, Kind, ReadFiles, RealDisk};

/// One change. A crash can tear none of them but a write. Files are numbered in the order of their
/// creation: names change.
#[derive(Clone, Debug)]
pub enum Op {
    /// A new file.
    Create {
        /// Path of the file or directory.
        path: PathBuf,
        /// Number of the file.
        file: usize,
    },
    /// Bytes written to a file.
    Write {
        /// Number of the file.
        file: usize,
        /// Position of the first byte.
        position: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file truncated, or extended by zeroes.
    Truncate {
        /// Number of the file.
        file: usize,
        /// New length of the file, bytes.
        len: usize,
    },
    /// Contents of a file synced to the device.
    Sync {
        /// Number of the file.
        file: usize,
    },
    /// A new directory.
    CreateDir {
        /// Path of the file or directory.
        path: PathBuf,
    },
    /// Names in a directory synced to the device.
    SyncDir {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file or directory renamed.
    Rename {
        /// Previous path.
        from: PathBuf,
        /// New path.
        to: PathBuf,
    },
    /// A file or an empty directory removed.
    Remove {
        /// Path of the file or directory.
        path: PathBuf,
    },
}

/// A disk below one directory that records its changes. Paths in them are relative to the
/// directory; nothing waits for a device.
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    state: Mutex<State>,
    /// Listing a directory of this name waits.
    held: Mutex<Vec<&'static str>>,
    let_go: Condvar,
    /// Writes to a log in a directory of this name find the disk full.
    full: Mutex<Option<&'static str>>,
    refused: AtomicUsize,
    /// Listing a directory of this name, or a sync of a file in it, panics.
    broken: Mutex<Option<&'static str>>,
    /// A write to a file in a directory of this name panics.
    unwritable: Mutex<Option<&'static str>>,
}

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    files: usize,
    /// By inode, which is another file's once its file is gone.
    numbers: HashMap<u64, usize>,
    /// Files that may be written through a mapping, and their contents at the last reading.
    mapped: BTreeMap<usize, (File, Vec<u8>)>,
}

impl Recorder {
    /// Records what happens below `root`. What is there already is said first, as if it had just
    /// been written and synced.
    pub fn new(root: &Path) -> Self {
        let recorder = Self {
            root: root.to_owned(),
            state: Mutex::default(),
            held: Mutex::default(),
            let_go: Condvar::new(),
            full: Mutex::default(),
            refused: AtomicUsize::new(0),
            broken: Mutex::default(),
            unwritable: Mutex::default(),
        };
        recorder.take_over(root);
        recorder
    }

    fn take_over(&self, dir: &Path) {
        let mut entries = RealDisk.list(dir).unwrap();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        for DirEntry { path, kind } in entries {
            if kind == Kind::Dir {
                let dir = self.relative(&path);
                self.state.lock().ops.push(Op::CreateDir { path: dir });
                self.take_over(&path);
                continue;
            }
            let (mut state, bytes) = (self.state.lock(), RealDisk.read_file(&path).unwrap());
            let file = state.number(&path, true).unwrap();
            let path = self.relative(&path);
            let write = Op::Write { file, position: 0, bytes };
            state.ops.extend([Op::Create { path, file }, write, Op::Sync { file }]);
        }
        let dir = self.relative(dir);
        self.state.lock().ops.push(Op::SyncDir { path: dir });
    }

    /// Delays threads that list a directory of this name or sync a file in it; `None` ends the
    /// delay.
    pub fn hold(&self, name: Option<&'static str>) {
        self.hold_each(name.as_slice());
    }

    /// Delays threads that list a directory of one of these names that has files, or sync a file of
    /// one of these names.
    pub fn hold_each(&self, names: &[&'static str]) {
        *self.held.lock() = names.to_vec();
        self.let_go.notify_all();
    }

    fn wait_while_held(&self, path: &Path) {
        let is_held = |held: &mut Vec<&str>| held.iter().any(|name| path.ends_with(name));
        self.let_go.wait_while(&mut self.held.lock(), |held| is_held(held));
    }

    /// Lets the disk be full for the log in a directory of this name, or for none any more.
    pub fn fill(&self, name: Option<&'static str>) {
        *self.full.lock() = name;
    }

    /// Number of writes that have found the disk full.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Makes threads panic that list a directory of this name or sync a file in it; `None` ends
    /// this.
    pub fn break_down(&self, name: Option<&'static str>) {
        *self.broken.lock() = name;
    }

    fn panic_if_broken(&self, dir: &Path) {
        let is_broken = self.broken.lock().is_some_and(|name| dir.ends_with(name));
        assert!(!is_broken, "on purpose");
    }

    /// Makes threads panic that write to a file in a directory of this name; `None` ends this.
    pub fn break_writes(&self, name: Option<&'static str>) {
        *self.unwritable.lock() = name;
    }

    fn panic_if_unwritable(&self, path: &Path) {
        let is_in = |name| path.parent().is_some_and(|dir| dir.ends_with(name));
        let is_unwritable = self.unwritable.lock().is_some_and(is_in);
        assert!(!is_unwritable, "on purpose");
    }

    /// Number of syncs of the names in the recorder's own directory.
    pub fn syncs_of_names(&self) -> usize {
        let is_root = |op: &&Op| matches!(op, Op::SyncDir { path } if path.as_os_str().is_empty());
        self.state.lock().ops.iter().filter(is_root).count()
    }

    /// Number of changes so far.
    pub fn count(&self) -> usize {
        let mut state = self.state.lock();
        state.look_at_mappings();
        state.ops.len()
    }

    /// Every change so far.
    pub fn ops(&self) -> Vec<Op> {
        self.state.lock().ops.clone()
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).expect("a path below the recorder's directory").to_owned()
    }

    /// Does something, and writes down what it was if it was done.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut State) -> io::Result<T>,
        ops: impl FnOnce(&T) -> Vec<Op>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        state.look_at_mappings();
        let done = act(&mut state)?;
        state.ops.extend(ops(&done));
        Ok(done)
    }
}

impl State {
    /// The number of a file, a new one if it `is_new`.
    fn number(&mut self, path: &Path, is_new: bool) -> io::Result<usize> {
        let inode = path.metadata()?.ino();
        Ok(self.number_of(inode, is_new))
    }

    fn number_of(&mut self, inode: u64, is_new: bool) -> usize {
        if is_new {
            self.files += 1;
            self.numbers.insert(inode, self.files);
        }
        self.numbers[&inode]
    }

    fn known(&mut self, file: &File) -> io::Result<usize> {
        Ok(self.number_of(file.metadata()?.ino(), false))
    }

    /// Writes down what mappings have done to their files since the last look.
    fn look_at_mappings(&mut self) {
        // Files without a name leave no trace.
        self.mapped.retain(|_, (file, _)| file.metadata().unwrap().nlink() > 0);
        for (number, (file, known)) in &mut self.mapped {
            let mut now = vec![0; file.metadata().unwrap().len() as usize];
            file.read_exact_at(&mut now, 0).unwrap();
            if now.len() != known.len() {
                known.resize(now.len(), 0);
            }
            let differs = |at: &usize| now[*at] != known[*at];
            let Some(first) = (0..now.len()).find(differs) else { continue };
            let last = (0..now.len()).rfind(differs).expect("there is a first");
            let bytes = now[first..=last].to_vec();
            self.ops.push(Op::Write { file: *number, position: first, bytes });
            *known = now;
        }
    }
}

impl ReadFiles for Recorder {
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.panic_if_broken(dir);
        if !RealDisk.list(dir)?.is_empty() {
            self.wait_while_held(dir);
        }
        RealDisk.list(dir)
    }
}

impl Disk for Recorder {
    fn create(&self, path: &Path) -> io::Result<File> {
        let create = |state: &mut State| {
            let file = RealDisk.create(path)?;
            Ok((file, state.number(path, true)?))
        };
        let created =
            self.change(create, |(_, file)| vec![Op::Create { path: self.relative(path), file: *file }]);
        created.map(|(file, _)| file)
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let write = |state: &mut State| {
            let is_new = RealDisk.len(path).is_err();
            RealDisk.write_file(path, bytes)?;
            Ok((state.number(path, is_new)?, is_new))
        };
        let ops = |&(file, is_new): &(usize, bool)| {
            let begin = if is_new {
                Op::Create { path: self.relative(path), file }
            } else {
                Op::Truncate { file, len: 0 }
            };
            let write = (!bytes.is_empty()).then(|| Op::Write { file, position: 0, bytes: bytes.to_vec() });
            [begin].into_iter().chain(write).collect()
        };
        self.change(write, ops).map(drop)
    }

    fn write_at(&self, file: &File, path: &Path, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        if self.full.lock().is_some_and(|name| path.parent().is_some_and(|dir| dir.ends_with(name))) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.panic_if_unwritable(path);
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let write = |state: &mut State| {
            RealDisk.write_at(file, path, parts, at)?;
            state.known(file)
        };
        self.change(write, |file| vec![Op::Write { file: *file, position: at as usize, bytes }]).map(drop)
    }

    fn copy(&self, from: &File, path: &Path, into: (&File, &Path), len: u64) -> io::Result<()> {
        let mut bytes = vec![0; len as usize];
        from.read_exact_at(&mut bytes, 0)?;
        let copy = |state: &mut State| {
            RealDisk.copy(from, path, into, len)?;
            state.known(into.0)
        };
        self.change(copy, |file| vec![Op::Write { file: *file, position: 0, bytes }]).map(drop)
    }

    fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        let truncate = |state: &mut State| {
            RealDisk.truncate(file, path, len)?;
            let number = state.known(file)?;
            state.mapped.remove(&number);
            Ok(number)
        };
        self.change(truncate, |file| vec![Op::Truncate { file: *file, len: len as usize }]).map(drop)
    }

    fn allocate(&self, file: &File, path: &Path, position: u64, len: u64) -> io::Result<()> {
        let allocate = |state: &mut State| {
            let before = file.metadata()?.len();
            RealDisk.allocate(file, path, position, len)?;
            let (number, after) = (state.known(file)?, file.metadata()?.len());
            let mut bytes = vec![0; after as usize];
            file.read_exact_at(&mut bytes, 0)?;
            state.mapped.insert(number, (file.try_clone()?, bytes));
            Ok((number, before, after))
        };
        let ops = |&(file, before, after): &(usize, u64, u64)| {
            (after > before).then_some(Op::Truncate { file, len: after as usize }).into_iter().collect()
        };
        self.change(allocate, ops).map(drop)
    }

    fn map(&self, file: &File, path: &Path, range: Range<u64>) -> io::Result<WriteMap> {
        let map = |state: &mut State| {
            let before = file.metadata()?.len();
            let map = RealDisk.map(file, path, range)?;
            Ok((map, state.known(file)?, before, file.metadata()?.len()))
        };
        let ops = |&(_, file, before, after): &(WriteMap, usize, u64, u64)| {
            (after > before).then_some(Op::Truncate { file, len: after as usize }).into_iter().collect()
        };
        self.change(map, ops).map(|(map, ..)| map)
    }

    fn write_mapped(&self, map: &mut WriteMap, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        self.panic_if_unwritable(path);
        let do_it = |state: &mut State| {
            RealDisk.write_mapped(map, path, bytes, at)?;
            // In a directory that will be removed, the bytes are in the file although it has no
            // name any more.
            Ok(state.number(path, false).ok())
        };
        let write = |file: usize| Op::Write { file, position: at as usize, bytes: bytes.to_vec() };
        let op = |file: &Option<usize>| file.map(write).into_iter().collect();
        self.change(do_it, op).map(drop)
    }

    fn set_modified(&self, file: &File, path: &Path, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, path, time)
    }

    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        path.parent().into_iter().for_each(|dir| self.panic_if_broken(dir));
        self.change(|state| state.known(file), |file| vec![Op::Sync { file: *file }]).map(drop)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.wait_while_held(path);
        self.change(|state| state.number(path, false), |file| vec![Op::Sync { file: *file }]).map(drop)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // The directory above the data directory is not part of the world.
        if !dir.starts_with(&self.root) {
            return Ok(());
        }
        // Another thread may have taken the name away.
        self.change(|_| is_dir(dir), |()| vec![Op::SyncDir { path: self.relative(dir) }])
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_name, to_name) = (self.relative(from), self.relative(to));
        self.change(|_| RealDisk.rename(from, to), |()| vec![Op::Rename { from: from_name, to: to_name }])
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|_| RealDisk.remove(path), |()| vec![Op::Remove { path: self.relative(path) }])
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let missing = |path: &Path| !path.exists() && path != self.root;
        let create = |_: &mut State| {
            let mut dirs: Vec<PathBuf> =
                path.ancestors().take_while(|path| missing(path)).map(|path| self.relative(path)).collect();
            dirs.reverse();
            RealDisk.create_dir(path).map(|()| dirs)
        };
        let op = |path: &PathBuf| Op::CreateDir { path: path.clone() };
        self.change(create, |dirs| dirs.iter().map(op).collect()).map(drop)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        // The directory does not change meanwhile: other changes wait.
        let remove = |_: &mut State| {
            let mut entries = RealDisk.list(dir)?;
            entries.sort_by(|one, other| one.path.cmp(&other.path));
            RealDisk.remove_dir(dir).map(|()| entries)
        };
        let ops = |entries: &Vec<DirEntry>| {
            let paths = entries.iter().map(|entry| &*entry.path).chain([dir]);
            paths.map(|path| Op::Remove { path: self.relative(path) }).collect()
        };
        self.change(remove, ops).map(drop)
    }

    fn protect(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn is_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}
