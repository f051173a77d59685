//! Holds of threads are found while they last.

use levada_log::{OpenOptions, Writer};

use super::*;

#[test]
fn inner_hold_does_not_end_the_outer() {
    let dir = tempfile::tempdir().unwrap();
    let lane = |name: &str| {
        let (writer, _) = Writer::open(OpenOptions::new(dir.path().join(name)), 1_000).unwrap();
        AppendLane::new(writer)
    };
    let (lane, other) = (lane("topic-0"), lane("topic-1"));
    let since_ns = || OWN.with(|own| own.load(Ordering::Relaxed));
    assert_eq!((since_ns(), lane.held_for()), (0, None));
    lane.with_writer(|_| {
        let outer_ns = since_ns();
        other.with_writer(|_| assert_eq!(since_ns(), outer_ns)).unwrap();
        assert_eq!((since_ns(), other.held_for()), (outer_ns, None));
        while lane.held_for().is_none_or(|held| held < Duration::from_millis(2)) {
            std::thread::yield_now();
        }
        // Another thread looks, as the watch of the directories does.
        let is_found = || last_for(Duration::from_millis(2)) && !last_for(Duration::from_secs(3_600));
        assert!(std::thread::scope(|scope| scope.spawn(is_found).join().unwrap()));
    })
    .unwrap();
    assert_eq!((since_ns(), lane.held_for()), (0, None));
}

#[test]
fn hold_times_forget_ended_threads() {
    let own = std::thread::spawn(|| OWN.with(Arc::downgrade)).join().unwrap();
    assert!(own.upgrade().is_none());
    last_for(Duration::ZERO);
    assert!(!THREADS.lock().iter().any(|thread| thread.ptr_eq(&own)));
}
