//! The file table of a ring: free slots, and released slots of which the kernel is not yet
//! notified.

use std::cell::RefCell;
use std::rc::Rc;

/// A slot in a ring's file table. Clones name the same slot.
#[derive(Debug, Clone)]
pub struct FileSlot(Rc<SlotGuard>);

impl FileSlot {
    /// A free slot of the table, if there is one. It is released when its last clone is dropped.
    pub(crate) fn take(table: &Rc<RefCell<FileTable>>) -> Option<Self> {
        let index = table.borrow_mut().free.pop()?;
        Some(Self(Rc::new(SlotGuard { index, table: Rc::clone(table) })))
    }

    /// True if it is a slot of this table.
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
    /// Marks the first `count` slots as free.
    pub(crate) fn fill(&mut self, count: u32) {
        self.free = (0..count).rev().collect();
    }

    /// Removes and returns the slots without references.
    pub(crate) fn take_retired(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.retired)
    }

    /// Records that the kernel has released the file in a slot.
    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Records that a slot is unreferenced.
    pub(crate) fn retire(&mut self, index: u32) {
        self.retired.push(index);
    }
}
