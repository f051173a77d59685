//! Batches of many threads enter in one order, none twice, and a writer that fails delays no other
//! batch.

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use levada_base::batch::Builder;
use levada_log::{Append, OpenOptions, Writer};

use super::{AppendLane, Backlog};
use crate::replica::submitted::Write;

fn lane(dir: &tempfile::TempDir) -> AppendLane {
    let (writer, _) = Writer::open(OpenOptions::new(dir.path().join("topic-0")), 1_000).unwrap();
    AppendLane::new(writer)
}

fn batch() -> Append {
    let mut batch = Builder::new();
    batch.push(1_000, None, Some(b"value"));
    Append::client(batch.build().unwrap())
}

/// Submits one batch and waits for its offset, draining what it is told to drain.
fn append(lane: &AppendLane) -> Option<i64> {
    let (submitted, mut left) = lane.submit(batch(), 1_000, || {});
    while left == Backlog::Remaining {
        left = lane.drain(1_000, || {});
    }
    let result = match submitted.write {
        Write::Done(result) => result,
        Write::Queued(result, _) => result.blocking_recv().ok()?,
    };
    result.ok().map(|appended| appended.base_offset)
}

#[test]
fn batches_of_many_threads_get_every_offset_once() {
    let dir = tempfile::tempdir().unwrap();
    let lane = lane(&dir);
    let offsets = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let offset = append(&lane).expect("the log takes every batch");
                    offsets.lock().unwrap().push(offset);
                }
            });
        }
    });
    let mut offsets = offsets.into_inner().unwrap();
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(0..1_600), "1 600 batches, 1 600 offsets");
}

#[test]
fn panicking_writer_closes_log_without_blocking_others() {
    let dir = tempfile::tempdir().unwrap();
    let lane = lane(&dir);
    let failing = AssertUnwindSafe(|| lane.submit(batch(), 1_000, || panic!("on purpose")));
    assert!(std::panic::catch_unwind(failing).is_err());
    assert_eq!(append(&lane), None, "the next batch is refused immediately");
}
