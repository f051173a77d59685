//! Contents of a recorded directory after a crash: of all changes up to a moment, those that were
//! synced, and a random part of the others.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::Op;

/// Part of the changes that a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Only the process died: everything that was done is there, the last write perhaps not to its
    /// end.
    Killed,
    /// The machine lost its power: nothing is there that was not synced.
    Dropped,
    /// The same, but of what was not synced the device got something: each file and each directory
    /// all of it, a beginning, or any part; writes torn, zeroes in the place of bytes that did not
    /// arrive.
    Torn,
}

/// A directory's contents, by relative path; `None` is a directory.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Writes a tree into an empty directory.
pub fn lay_out(tree: &Tree, dir: &Path) {
    for (path, contents) in tree {
        match contents {
            None => fs::create_dir(dir.join(path)).unwrap(),
            Some(bytes) => fs::write(dir.join(path), bytes).unwrap(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir(usize),
}

/// The directory as the recorded process saw it, and as the device has it.
#[derive(Debug)]
pub struct World {
    files: HashMap<usize, Contents>,
    dirs: Vec<Names>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Changes that lead from the one to the other.
    since: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

#[derive(Clone, Debug, Default)]
struct Names {
    now: BTreeMap<OsString, Node>,
    durable: BTreeMap<OsString, Node>,
    since: Vec<NameChange>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(OsString, Node),
    Unset(OsString),
    Move(OsString, OsString, Node),
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty directory.
    pub fn new() -> Self {
        Self { files: HashMap::new(), dirs: vec![Names::default()] }
    }

    /// Does one change.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, file } => {
                self.files.insert(*file, Contents::default());
                self.rename_in(path, |name| NameChange::Set(name, Node::File(*file)));
            }
            Op::CreateDir { path } => {
                self.dirs.push(Names::default());
                let dir = Node::Dir(self.dirs.len() - 1);
                self.rename_in(path, |name| NameChange::Set(name, dir));
            }
            Op::Remove { path } => self.rename_in(path, NameChange::Unset),
            Op::Rename { from, to } => {
                assert_eq!(from.parent(), to.parent(), "nothing is moved from one directory to another");
                let node = self.find(from);
                let to = to.file_name().unwrap().to_owned();
                self.rename_in(from, |name| NameChange::Move(name, to, node));
            }
            Op::Write { file, position, bytes } => self.write(*file, Change::Write(*position, bytes.clone())),
            Op::Truncate { file, len } => self.write(*file, Change::Truncate(*len)),
            Op::Sync { file } => {
                let contents = self.files.get_mut(file).unwrap();
                contents.durable.clone_from(&contents.now);
                contents.since.clear();
            }
            Op::SyncDir { path } => {
                let dir = self.dir(path);
                let names = &mut self.dirs[dir];
                names.durable.clone_from(&names.now);
                names.since.clear();
            }
        }
    }

    /// Contents after a crash; with `under_way`, in the middle of that change.
    pub fn crash(&mut self, crash: Crash, under_way: Option<&Op>, random: &mut StdRng) -> Tree {
        let torn = match under_way {
            Some(Op::Write { file, position, bytes }) if random.random_bool(0.5) => {
                let part = bytes[..random.random_range(0..=bytes.len())].to_vec();
                let before = self.files[file].clone();
                self.write(*file, Change::Write(*position, part));
                Some((*file, before))
            }
            _ => None,
        };
        let mut tree = Tree::new();
        self.collect((0, Path::new("")), crash, random, &mut tree);
        if let Some((file, before)) = torn {
            self.files.insert(file, before);
        }
        tree
    }

    fn collect(&self, (dir, path): (usize, &Path), crash: Crash, random: &mut StdRng, tree: &mut Tree) {
        for (name, node) in self.dirs[dir].after(crash, random) {
            let path = path.join(name);
            match node {
                Node::File(file) => {
                    tree.insert(path, Some(self.files[&file].after(crash, random)));
                }
                Node::Dir(dir) => {
                    tree.insert(path.clone(), None);
                    self.collect((dir, &path), crash, random, tree);
                }
            }
        }
    }

    fn write(&mut self, file: usize, change: Change) {
        let contents = self.files.get_mut(&file).unwrap();
        change.apply(&mut contents.now);
        contents.since.push(change);
    }

    fn rename_in(&mut self, path: &Path, change: impl FnOnce(OsString) -> NameChange) {
        let dir = self.dir(path.parent().unwrap());
        let change = change(path.file_name().unwrap().to_owned());
        change.apply(&mut self.dirs[dir].now);
        self.dirs[dir].since.push(change);
    }

    fn find(&self, path: &Path) -> Node {
        let step = |dir, name: &std::ffi::OsStr| match dir {
            Node::Dir(dir) => self.dirs[dir].now[name],
            Node::File(_) => panic!("{} leads through a file", path.display()),
        };
        path.iter().fold(Node::Dir(0), step)
    }

    fn dir(&self, path: &Path) -> usize {
        match self.find(path) {
            Node::Dir(dir) => dir,
            Node::File(_) => panic!("{} is a file", path.display()),
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Truncate(len) => bytes.resize(*len, 0),
            Self::Write(position, part) => {
                let end = position + part.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position..end].copy_from_slice(part);
            }
        }
    }

    /// The part of it that reached the device.
    fn torn(&self, random: &mut StdRng) -> Self {
        let Self::Write(position, bytes) = self else { return self.clone() };
        let mut bytes = bytes.clone();
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..3) {
            0 => bytes.truncate(at),
            1 => bytes[at..].fill(0),
            _ => bytes[..at].fill(0),
        }
        Self::Write(*position, bytes)
    }
}

impl Contents {
    fn after(&self, crash: Crash, random: &mut StdRng) -> Vec<u8> {
        if crash == Crash::Killed {
            return self.now.clone();
        }
        let mut bytes = self.durable.clone();
        if crash == Crash::Dropped {
            return bytes;
        }
        let (kept, any) = share(self.since.len(), random);
        for (at, change) in self.since[..kept].iter().enumerate() {
            let whole = random.random_bool(if any { 0.5 } else { 1.0 });
            match () {
                () if whole && (at + 1 < kept || random.random_bool(0.5)) => change.apply(&mut bytes),
                () if whole || random.random_bool(0.5) => change.torn(random).apply(&mut bytes),
                () => {}
            }
        }
        bytes
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<OsString, Node>) {
        match self {
            Self::Set(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Unset(name) => drop(names.remove(name)),
            Self::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl Names {
    /// Names change in order: every file system that keeps a journal does that for one directory.
    fn after(&self, crash: Crash, random: &mut StdRng) -> BTreeMap<OsString, Node> {
        if crash == Crash::Killed {
            return self.now.clone();
        }
        let mut names = self.durable.clone();
        let kept = if crash == Crash::Dropped { 0 } else { share(self.since.len(), random).0 };
        self.since[..kept].iter().for_each(|change| change.apply(&mut names));
        names
    }
}

/// Number of the changes in order the device got, and whether it got any of them at all in no
/// order.
fn share(count: usize, random: &mut StdRng) -> (usize, bool) {
    match [0, 1, 2, 3].choose(random).copied() {
        Some(0) => (0, false),
        Some(1) => (count, false),
        Some(2) => (random.random_range(0..=count), false),
        _ => (count, true),
    }
}
