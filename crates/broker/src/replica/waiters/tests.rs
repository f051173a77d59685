//! A wake-up is never lost, and a waiter that left is not woken.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Waiters;

fn woken(sleeper: &Notify) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::ZERO, sleeper.notified()).await.is_ok() })
}

#[test]
fn wake_after_registration_is_not_lost() {
    let waiters = Arc::new(Waiters::default());
    let sleeper = Arc::new(Notify::new());
    let _registration = waiters.register(&sleeper);
    waiters.wake();
    assert!(woken(&sleeper));
    assert!(!woken(&sleeper), "one change, one wake-up");
}

#[test]
fn only_registered_waiters_are_woken() {
    let waiters = Arc::new(Waiters::default());
    let (stays, leaves) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let _registration = waiters.register(&stays);
    drop(waiters.register(&leaves));
    waiters.wake();
    assert!(woken(&stays));
    assert!(!woken(&leaves));
}

#[test]
fn waiter_memory_shrinks_after_a_peak() {
    let waiters = Arc::new(Waiters::default());
    let sleeper = Arc::new(Notify::new());
    let crowd: Vec<_> = (0..5_000).map(|_| waiters.register(&sleeper)).collect();
    assert!(waiters.sleeping.lock().capacity() >= 5_000);
    drop(crowd);
    assert!(waiters.sleeping.lock().capacity() <= super::KEPT);
}
