//! Threads that answer, and one that does not.

use super::*;

#[test]
fn liveness_finds_only_stalled_threads() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let at_once = Duration::from_millis(20);
        let liveness = Liveness::new(2, None);
        let first = tokio::spawn(liveness.clone().answer(0));
        assert_eq!(liveness.silent(at_once).await, Some(1));
        let _second = tokio::spawn(liveness.clone().answer(1));
        assert_eq!(liveness.silent(TURN_TIME).await, None);
        assert_eq!(liveness.silent(TURN_TIME).await, None);
        assert_eq!(liveness.all_take_turns().await, Ok(()));
        first.abort();
        assert!(first.await.is_err());
        assert_eq!(liveness.silent(at_once).await, Some(0));
    });
}
