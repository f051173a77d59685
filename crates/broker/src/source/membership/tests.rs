//! Reasons of `/readyz` over the life of a broker in a cluster.

use super::*;

fn running() -> MembershipState {
    MembershipState {
        phase: "running",
        broker_epoch: Some(12),
        controller: Some(1),
        quorum_epoch: 3,
        high_watermark: 100,
        applied: 99,
        ..MembershipState::default()
    }
}

#[test]
fn membership_reason_names_startup_step_until_unfenced() {
    let fenced = MembershipState { is_fenced: true, ..running() };
    let start = MembershipState { phase: "starting", ..fenced.clone() };
    let unregistered = MembershipState { broker_epoch: None, ..start.clone() };
    let refused = MembershipState { refusal: Some("DUPLICATE_BROKER_REGISTRATION"), ..unregistered.clone() };
    let table = [
        (MembershipState { controller: None, ..unregistered.clone() }, "no active controller is known"),
        (unregistered, "not registered with the controllers"),
        (refused, "(the last response is DUPLICATE_BROKER_REGISTRATION)"),
        (MembershipState { applied: 39, ..start }, "catching up with the metadata: 60 records left"),
        (MembershipState { phase: "recovery", ..fenced.clone() }, "the controllers fence this broker"),
        (MembershipState { phase: "replaced", ..fenced }, "another process has registered"),
    ];
    for (state, expected) in table {
        let reason = state.reason().unwrap_or_default();
        assert!(reason.contains(expected), "{state:?}: {reason}");
    }
    assert_eq!(running().reason(), None);
}

#[test]
fn broker_keeps_serving_without_controllers() {
    assert_eq!(MembershipState { controller: None, ..running() }.reason(), None);
}

#[test]
fn metadata_lag_is_zero_without_high_watermark() {
    assert_eq!(MembershipState { high_watermark: 0, ..running() }.lag(), 0);
    assert_eq!(MembershipState { high_watermark: 0, applied: -1, ..running() }.lag(), 0);
    assert_eq!(MembershipState { high_watermark: 103, ..running() }.lag(), 3);
}
