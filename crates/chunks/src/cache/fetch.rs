//! One fetch, or check, of a part: a single reader does it, and others wait for its result.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{Chunk, ChunkError};
use crate::ChunkKey;

/// The result of a fetch, once it is there.
pub(super) struct Fetch<E> {
    result: Mutex<Option<Result<Chunk, ChunkError<E>>>>,
    ended: Condvar,
}

impl<E> Default for Fetch<E> {
    fn default() -> Self {
        Self { result: Mutex::new(None), ended: Condvar::new() }
    }
}

impl<E> fmt::Debug for Fetch<E> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Fetch")
    }
}

impl<E: Clone> Fetch<E> {
    /// Blocks until the fetch has ended.
    pub(super) fn wait(&self) -> Result<Chunk, ChunkError<E>> {
        let mut result = self.result.lock();
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            self.ended.wait(&mut result);
        }
    }
}

impl<E> Fetch<E> {
    fn end(&self, result: Result<Chunk, ChunkError<E>>) {
        *self.result.lock() = Some(result);
        self.ended.notify_all();
    }
}

/// The obligation to end a fetch. If it is dropped by a panic, the waiting readers get an error.
pub(super) struct Turn<'a, E> {
    key: ChunkKey,
    fetch: Arc<Fetch<E>>,
    give_up: Option<Box<dyn FnOnce() + 'a>>,
}

impl<'a, E> Turn<'a, E> {
    /// A duty; `give_up` removes the part from the table.
    pub(super) fn new(key: ChunkKey, fetch: Arc<Fetch<E>>, give_up: impl FnOnce() + 'a) -> Self {
        Self { key, fetch, give_up: Some(Box::new(give_up)) }
    }

    /// Passes on the result, which is already in the table.
    pub(super) fn end(mut self, result: Result<Chunk, ChunkError<E>>) {
        self.give_up = None;
        self.fetch.end(result);
    }
}

impl<E> Drop for Turn<'_, E> {
    fn drop(&mut self) {
        if let Some(give_up) = self.give_up.take() {
            give_up();
            self.fetch.end(Err(ChunkError::Abandoned(self.key)));
        }
    }
}
