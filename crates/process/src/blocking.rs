//! Runs blocking work on threads other than the shards, and keeps threads on which everything else
//! depends free of it.

use std::any::Any;
use std::cell::Cell;

thread_local! {
    static IS_KEPT_FREE: Cell<bool> = const { Cell::new(false) };
}

/// Declares that this thread never waits for a disk, so that it can detect disks that do not
/// respond. Work that may wait checks this with [`may_wait`].
pub fn keep_free() {
    IS_KEPT_FREE.set(true);
}

/// True if this thread may wait for a disk.
pub fn may_wait() -> bool {
    !IS_KEPT_FREE.get()
}

/// Work and its result without their types, so that the runtime's code for a task is compiled once,
/// not for each type of work.
type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Runs `work` on a thread that may block, so that no shard does. A panic of `work` propagates to
/// the caller.
pub async fn off_shard<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let result = execute(Box::new(move || Box::new(work()))).await;
    *result.downcast().expect("the work returns its own type")
}

async fn execute(work: Work) -> Box<dyn Any + Send> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
