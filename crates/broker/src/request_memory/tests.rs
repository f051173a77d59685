//! Shares of memory, taken and given back.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Newcomers, RequestMemory};

#[test]
fn one_request_may_exceed_exhausted_memory() {
    let memory = Arc::new(RequestMemory::default());
    let mut context = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (memory.share(), memory.share());
    first.grow_to(60);
    assert!(memory.has_room(100));
    second.grow_to(30);
    second.grow_to(1000);
    assert_eq!(memory.held_bytes(), 1060);
    assert!(!memory.has_room(100));
    let Poll::Ready(Some(excess)) = pin!(memory.room(100)).poll(&mut context) else {
        panic!("nobody exceeds the limit yet")
    };
    let mut third = memory.share();
    third.may_exceed(excess);
    assert!(third.exceeds());
    let mut fourth = pin!(memory.room(100));
    assert!(fourth.as_mut().poll(&mut context).is_pending(), "one exceeds the limit already");
    drop(first);
    assert!(fourth.as_mut().poll(&mut context).is_pending(), "1000 are still held");
    drop(second);
    assert!(matches!(fourth.as_mut().poll(&mut context), Poll::Ready(None)), "all was given back");
    drop(third);
    assert!(
        matches!(pin!(memory.room(0)).poll(&mut context), Poll::Ready(Some(_))),
        "the right was given back"
    );
    assert_eq!(memory.held_bytes(), 0);
}

#[test]
fn unauthenticated_clients_memory_is_bounded_per_address() {
    let newcomers = Arc::new(Newcomers::default());
    let from = |last: u8| newcomers.share([10, 0, 0, last].into());
    let (mut one, mut other) = (from(1), from(1));
    assert!(one.grow_to(1 << 20, 512 << 10));
    assert!(one.grow_to(2 << 20, 512 << 10));
    assert!(!other.grow_to(1, 512 << 10), "2 MiB from one address");
    assert!(!newcomers.share("::ffff:10.0.0.1".parse().unwrap()).grow_to(1, 512 << 10));
    let others: Vec<_> = (2..9).map(from).collect();
    let others: Vec<_> = others.into_iter().map(|mut share| (share.grow_to(2 << 20, 1), share)).collect();
    assert!(others.iter().all(|(granted, _)| *granted));
    assert_eq!(newcomers.held_bytes(), 16 << 20);
    assert!(!from(9).grow_to(1, 1), "16 MiB in all");
    drop(one);
    assert!(from(9).grow_to(1, 1));
    drop(others);
    assert!(other.grow_to(30 << 20, 30 << 20), "one request always may");
    drop(other);
    assert_eq!(newcomers.held_bytes(), 0);
}
