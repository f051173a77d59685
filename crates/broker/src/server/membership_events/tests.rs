//! The end of the thread that follows the cluster.

use super::*;

#[test]
fn a_panic_of_the_thread_stops_the_process_with_its_name() {
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
