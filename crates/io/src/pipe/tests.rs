//! Tests of the pipe pool and of what happens when there is no pipe.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::tests::{caps, child, content, deliver, engine, extent, file_of, role, sockets};
use crate::{Engine, Path, Transfer, Turn};

fn pool(pipes: usize) -> PipePool {
    PipePool::new(&Thresholds { pipes, ..Thresholds::default() })
}

#[test]
fn pipes_are_large_and_reused() {
    let mut pool = pool(1);
    let pipe = pool.take().unwrap();
    assert_eq!(pipe.capacity(), 1 << 20);
    pool.put_back(pipe);
    assert!(pool.take().is_ok());
}

#[test]
fn dropped_pipe_makes_room_for_another() {
    let mut pool = pool(1);
    let pipe = pool.take().unwrap();
    assert_eq!(pool.take().unwrap_err(), Fallback::PipesInUse);
    drop(pipe);
    assert!(pool.take().is_ok());
}

#[test]
fn foreign_pipe_is_closed_on_return() {
    let (mut here, mut there) = (pool(1), pool(1));
    there.put_back(here.take().unwrap());
    assert!(there.idle.is_empty());
    assert!(here.take().is_ok());
}

#[test]
#[should_panic(expected = "belongs to its transfer")]
fn pipe_with_bytes_is_not_reused() {
    let mut pool = pool(1);
    let mut pipe = pool.take().unwrap();
    pipe.put(1);
    pool.put_back(pipe);
}

#[test]
fn a_pipe_below_the_floor_is_not_used() {
    let thresholds = Thresholds { pipe_bytes: 4096, ..Thresholds::default() };
    let mut pool = PipePool::new(&thresholds);
    assert_eq!(pool.take().unwrap_err(), Fallback::SmallPipe);
    assert_eq!(pool.alive.load(Ordering::Relaxed), 0);
}

/// A transfer that got stuck with bytes in its pipe.
fn stuck(engine: &mut Engine, sender: BorrowedFd<'_>) -> Transfer {
    let bytes = content(8 << 20);
    let mut transfer = Transfer::new([extent(&file_of(&bytes), 0, bytes.len() as u64)]);
    assert_eq!(transfer.step(engine, sender, u64::MAX).unwrap(), Turn::Blocked);
    transfer
}

#[test]
fn transfers_beyond_the_last_pipe_go_by_sendfile() {
    if crate::tests::lacks(crate::Path::Splice, "transfers_beyond_the_last_pipe_go_by_sendfile") {
        return;
    }
    let mut engine = engine(&caps(true, true), Thresholds { pipes: 1, ..Thresholds::default() });
    let first = sockets(false, true);
    let holder = stuck(&mut engine, first.0.as_fd());

    let bytes = content(1 << 20);
    let second = || Transfer::new([extent(&file_of(&bytes), 0, bytes.len() as u64)]);
    let (arrived, outcome) = deliver(&mut engine, second(), sockets(true, true));
    outcome.unwrap();
    assert!(arrived == bytes);
    let counted = engine.counters().snapshot();
    assert_eq!(counted.bytes(Path::Sendfile), 1 << 20);
    assert_eq!(counted.fallbacks(Fallback::PipesInUse), 1);

    // The pipe of the stuck transfer is closed: its bytes must not reach another client.
    drop(holder);
    assert_eq!(engine.pipes.alive.load(Ordering::Relaxed), 0);
    let (arrived, outcome) = deliver(&mut engine, second(), sockets(true, true));
    outcome.unwrap();
    assert!(arrived == bytes);
    assert_eq!(engine.counters().snapshot().bytes(Path::Sendfile), 1 << 20);
}

#[test]
fn exhausted_descriptors_fall_back_to_sendfile() {
    if crate::tests::lacks(crate::Path::Splice, "exhausted_descriptors_fall_back_to_sendfile") {
        return;
    }
    const NAME: &str = "pipe::tests::exhausted_descriptors_fall_back_to_sendfile";
    if role().is_none() {
        let output = child(NAME, "starved");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("starved and delivered"));
        return;
    }
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let bytes = content(3 << 20);
    let transfer = Transfer::new([extent(&file_of(&bytes), 5, (3 << 20) - 5)]);
    let sockets = sockets(true, false);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) }).unwrap();
    let (arrived, outcome) = deliver(&mut engine, transfer, sockets);
    outcome.unwrap();
    assert!(arrived == bytes[5..]);
    let counted = engine.counters().snapshot();
    assert_eq!(counted.fallbacks(Fallback::NoPipe), 1);
    assert_eq!(counted.bytes(Path::Sendfile), (3 << 20) - 5);
    println!("starved and delivered");
}
