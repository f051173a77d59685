//! Shares of memory, taken and given back.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::RequestMemory;

#[test]
fn who_finds_none_left_waits_until_enough_is_given_back() {
    let memory = Arc::new(RequestMemory::default());
    let mut context = Context::from_waker(Waker::noop());
    let take = |bytes| memory.take(bytes, Some(100));
    let Poll::Ready(Some(first)) = pin!(take(60)).poll(&mut context) else { panic!("there is room") };
    // The last one may be larger than what is left, or no large request would ever come in.
    let Poll::Ready(Some(second)) = pin!(take(1000)).poll(&mut context) else {
        panic!("less than the limit is held")
    };
    assert_eq!(memory.held_bytes(), 1060);
    let mut third = pin!(take(1));
    assert!(third.as_mut().poll(&mut context).is_pending());
    drop(first);
    assert!(third.as_mut().poll(&mut context).is_pending(), "1000 are still held");
    drop(second);
    let Poll::Ready(Some(third)) = third.as_mut().poll(&mut context) else { panic!("all was given back") };
    assert_eq!(memory.held_bytes(), 1);
    drop(third);
    assert_eq!(memory.held_bytes(), 0);
    assert!(matches!(pin!(memory.take(5, None)).poll(&mut context), Poll::Ready(None)));
}
