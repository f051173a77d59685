//! The file table of a ring: free slots, and released slots that the kernel has not been told
//! about.

use std::cell::RefCell;
use std::rc::Rc;

/// A place in a ring's table of files. Clones name the same place.
#[derive(Debug, Clone)]
pub struct FileSlot(Rc<SlotGuard>);

impl FileSlot {
    /// A free place of the table, if there is one. It is released when the last clone of the slot
    /// is dropped.
    pub(crate) fn take(table: &Rc<RefCell<FileTable>>) -> Option<Self> {
        let index = table.borrow_mut().free.pop()?;
        Some(Self(Rc::new(SlotGuard { index, table: Rc::clone(table) })))
    }

    /// True if it is a place in this table.
    pub(crate) fn is_of(&self, table: &Rc<RefCell<FileTable>>) -> bool {
        Rc::ptr_eq(&self.0.table, table)
    }

    pub(crate) fn index(&self) -> u32 {
        self.0.index
    }

    /// The index in the form of a descriptor.
    pub(crate) fn number(&self) -> i32 {
        i32::try_from(self.0.index).expect("the kernel's limit is far below")
    }
}

#[derive(Debug)]
struct SlotGuard {
    index: u32,
    table: Rc<RefCell<FileTable>>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.table.borrow_mut().retire(self.index);
    }
}

/// Indexes into the kernel's table.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    free: Vec<u32>,
    retired: Vec<u32>,
}

impl FileTable {
    /// Makes the first `count` places free.
    pub(crate) fn fill(&mut self, count: u32) {
        self.free = (0..count).rev().collect();
    }

    /// Removes and returns the places without references.
    pub(crate) fn take_retired(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.retired)
    }

    /// Notes that the kernel has released the file in a place.
    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Records that a place is unreferenced.
    pub(crate) fn retire(&mut self, index: u32) {
        self.retired.push(index);
    }
}
