//! Damage to the files of one replica while its process is down.

use std::fs;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

/// Length of the header of a batch. A start after a clean stop goes by headers alone.
const HEADER_LEN: usize = 61;
/// Bytes of a batch before the field that counts those after it.
const LENGTH_AT: usize = 8;

/// Damage to the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// One bit of the last segment is another.
    Flip,
    /// The last segment is missing.
    RemoveLast,
    /// A segment between two others is missing, if there is one.
    RemoveMiddle,
    /// All segments are missing.
    RemoveAll,
    /// The last segment is empty, if it has been indexed.
    EmptyLast,
    /// A segment before the last one is empty, if there is one.
    EmptySealed,
    /// No damage.
    Spare,
}

/// Damage to one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Harm {
    pub(super) blow: Blow,
    /// True to truncate the offset checkpoints.
    pub(super) cuts_checkpoints: bool,
}

impl Harm {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        let blow = match random.random_range(0..10) {
            0..4 => Blow::Flip,
            4 => Blow::RemoveMiddle,
            5 => Blow::EmptySealed,
            6 => Blow::RemoveAll,
            7 => Blow::EmptyLast,
            8 => Blow::RemoveLast,
            _ => Blow::Spare,
        };
        Self { blow, cuts_checkpoints: random.random_bool(0.5) }
    }

    pub(super) fn befall(self, dir: &Path, random: &mut StdRng) {
        let segments = segments(dir);
        let Some((last, sealed)) = segments.split_last() else { return };
        let remove = |path: &PathBuf| fs::remove_file(path).unwrap();
        let empty = |path: &PathBuf| fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
        match self.blow {
            Blow::Flip => flip(last, random),
            Blow::RemoveLast => remove(last),
            Blow::RemoveMiddle if sealed.len() > 1 => remove(&sealed[random.random_range(1..sealed.len())]),
            Blow::RemoveAll => segments.iter().for_each(remove),
            Blow::EmptyLast if is_indexed(last) => empty(last),
            Blow::EmptySealed if !sealed.is_empty() => empty(&sealed[random.random_range(0..sealed.len())]),
            Blow::RemoveMiddle | Blow::EmptyLast | Blow::EmptySealed | Blow::Spare => {}
        }
    }
}

/// True if the index of a segment has an entry. Without one, an empty segment looks like a new one.
fn is_indexed(path: &Path) -> bool {
    fs::metadata(path.with_extension("index")).is_ok_and(|index| index.len() > 0)
}

/// The segments in a directory, in order.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    logs.sort();
    logs
}

/// Flips a bit of the records of one batch.
fn flip(path: &Path, random: &mut StdRng) {
    let mut bytes = fs::read(path).unwrap();
    let (mut batches, mut at) = (Vec::new(), 0);
    while let Some(length) = bytes.get(at + LENGTH_AT..at + LENGTH_AT + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        batches.push(at..at + LENGTH_AT + 4 + length);
        at += LENGTH_AT + 4 + length;
    }
    if batches.is_empty() {
        return;
    }
    let batch = batches.swap_remove(random.random_range(0..batches.len()));
    let at = random.random_range(batch.start + HEADER_LEN..batch.end);
    bytes[at] ^= 1 << random.random_range(0..8);
    fs::write(path, bytes).unwrap();
}
