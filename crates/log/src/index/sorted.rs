//! Memory-mapped indexes with ascending entries: common code of the index of offsets and the index
//! of timestamps.

use std::marker::PhantomData;
use std::path::PathBuf;

use levada_io::map::FileMap;

use super::{Entries, View};
use crate::LogError;
use crate::disk::{Disk, ReadFiles};

/// An entry of a fixed width. Entries of an index ascend.
pub(crate) trait Entry: Copy + PartialEq {
    /// Bytes of an entry.
    const WIDTH: usize;

    /// The entry's bytes, as many as [`Entry::WIDTH`].
    type Bytes: AsRef<[u8]> + IntoIterator<Item = u8>;

    fn encode(self) -> Self::Bytes;

    fn read(map: &FileMap, slot: usize) -> Self;

    /// False if the entry adds nothing to an index.
    fn is_new(&self, _: &Index<Self>, _: &dyn ReadFiles) -> Result<bool, LogError> {
        Ok(true)
    }
}

/// An index of one kind of entries.
#[derive(Debug)]
pub(crate) struct Index<E> {
    entries: Entries,
    kind: PhantomData<fn() -> E>,
}

impl<E: Entry> Index<E> {
    pub(crate) fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self, LogError> {
        Ok(Self { entries: Entries::create(disk, path, E::WIDTH)?, kind: PhantomData })
    }

    pub(crate) fn on_disk(path: PathBuf) -> Self {
        Self { entries: Entries::on_disk(path, E::WIDTH), kind: PhantomData }
    }

    /// Number of entries that fit in `segment.index.bytes`, at which the segment is rolled; never
    /// none.
    pub(crate) fn limit(index_bytes: u32) -> usize {
        (index_bytes as usize / E::WIDTH).max(1)
    }

    /// Number of entries that fit into the file: the limit, and at least two, because the only slot
    /// of a file counts as used.
    pub(crate) fn capacity(index_bytes: u32) -> usize {
        Self::limit(index_bytes).max(2)
    }

    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }

    pub(crate) fn count(&self, disk: &dyn ReadFiles) -> Result<usize, LogError> {
        Ok(self.entries.view(disk)?.count)
    }

    pub(crate) fn last(&self, disk: &dyn ReadFiles) -> Result<Option<E>, LogError> {
        let view = self.entries.view(disk)?;
        view.unless_lost(before(&view, view.count))
    }

    /// The entries from the first on, up to one for which `is_below` does not hold.
    pub(super) fn head(
        &self,
        disk: &dyn ReadFiles,
        is_below: impl Fn(&E) -> bool,
    ) -> Result<Vec<E>, LogError> {
        let view = self.entries.view(disk)?;
        let Some(map) = view.map() else { return Ok(Vec::new()) };
        let all = (0..view.count).map(|slot| E::read(map, slot));
        view.unless_lost(all.take_while(is_below).collect())
    }

    /// Replaces the entries. An index on disk that begins with these entries and has no others is
    /// kept, any other one is replaced.
    pub(crate) fn with_entries(
        self,
        disk: &dyn Disk,
        entries: &[E],
        capacity: usize,
    ) -> Result<Self, LogError> {
        let have = self.head(disk, |_| true)?;
        let whole = have.len() == self.count(disk)? && disk.len(self.entries.path()).is_ok();
        let kept = whole && entries.starts_with(&have) && self.entries.ends_in_zeroes(disk)?;
        let index = if kept { self } else { Self::create(disk, self.entries.replaced(disk)?)? };
        for entry in &entries[index.count(disk)?..] {
            index.append(disk, *entry, capacity)?;
        }
        Ok(index)
    }

    /// Appends an entry, if it is a new one.
    pub(crate) fn append(&self, disk: &dyn Disk, entry: E, capacity: usize) -> Result<(), LogError> {
        if entry.is_new(self, disk)? {
            self.entries.append(disk, entry.encode().as_ref(), capacity)?;
        }
        Ok(())
    }

    /// The bytes of an index file with these entries.
    pub(crate) fn file_of(entries: &[E]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.encode()).collect()
    }

    pub(super) fn view<'a>(&'a self, disk: &dyn ReadFiles) -> Result<View<'a>, LogError> {
        self.entries.view(disk)
    }
}

/// The entry of a slot, if there is one.
pub(super) fn at<E: Entry>(view: &View<'_>, slot: usize) -> Option<E> {
    let map = view.map().filter(|_| slot < view.count)?;
    Some(E::read(map, slot))
}

/// The entry before that of a slot.
pub(super) fn before<E: Entry>(view: &View<'_>, slot: usize) -> Option<E> {
    at(view, slot.checked_sub(1)?)
}

/// The first slot for whose entry `is_before` does not hold.
pub(super) fn partition_point<E: Entry>(view: &View<'_>, is_before: impl Fn(&E) -> bool) -> usize {
    let Some(map) = view.map() else { return 0 };
    let (mut low, mut high) = (0, view.count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(&E::read(map, middle)) { low = middle + 1 } else { high = middle }
    }
    low
}
