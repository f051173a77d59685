//! The end of the thread that follows the cluster.

use super::*;

#[test]
fn panicked_event_thread_stops_process_with_reason() {
    let shared = Shared::default();
    let (orders, inbox) = std::sync::mpsc::channel();
    shared.state.lock().orders = Some(orders);
    shared.guard(|| {});
    assert_eq!(shared.state.lock().reason, None);
    shared.guard(|| panic!("on purpose"));
    assert!(matches!(inbox.try_recv(), Ok(Order::Leave)));
    let reason = shared.state.lock().reason.clone().unwrap();
    assert!(reason.contains("cluster-follow"), "{reason}");
}
