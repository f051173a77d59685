//! Tests of `lifecycle`: tables after Kafka's `BrokerLifecycleManager`, and a model controller.

mod model;

use levada_wire::messages::{BrokerHeartbeatResponse, BrokerRegistrationResponse};

use super::*;
use crate::quorum::Quorum;

fn directory(number: u8) -> Uuid {
    let mut bytes = [0; 16];
    (bytes[0], bytes[15]) = (number, 7);
    Uuid::from_bytes(bytes)
}

fn identity() -> BrokerIdentity {
    BrokerIdentity {
        node_id: 77,
        cluster_id: "bGV2YWRhLXRlc3RzLTAwMA".into(),
        incarnation_id: directory(99),
        previous_epoch: Some(12),
        rack: Some("r".into()),
        listeners: vec![BrokerListener {
            name: "PLAINTEXT".into(),
            host: "h".into(),
            port: 9092,
            security_protocol: 0,
        }],
        features: vec![FeatureRange { name: "metadata.version".into(), min: 25, max: 30 }],
        directories: vec![directory(2), directory(1)],
    }
}

fn broker() -> Lifecycle {
    Lifecycle::new(identity(), LifecycleTimes::default(), 0)
}

fn registered(code: i16, epoch: i64) -> BrokerRegistrationResponse {
    let mut response = BrokerRegistrationResponse::default();
    (response.error_code, response.broker_epoch) = (code, epoch);
    response
}

fn heartbeat(code: i16, caught_up: bool, fenced: bool, shut_down: bool) -> BrokerHeartbeatResponse {
    let mut response = BrokerHeartbeatResponse::default();
    response.error_code = code;
    (response.is_caught_up, response.is_fenced, response.should_shut_down) = (caught_up, fenced, shut_down);
    response
}

/// The heartbeat among `actions`, with its number.
#[track_caller]
fn sent(actions: &[LifecycleAction]) -> (u64, BrokerHeartbeatRequest) {
    let found = actions.iter().find_map(|action| match action {
        LifecycleAction::Heartbeat(request, body) => Some((*request, body.clone())),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no heartbeat in {actions:?}"))
}

/// A broker at 100 ms, unfenced, with its next heartbeat due at 2100 ms. The last request was
/// number 4.
fn running() -> Lifecycle {
    let mut broker = broker();
    broker.step(LifecycleEvent::Tick, 0);
    broker.step(LifecycleEvent::Applied(40), 0);
    broker.step(LifecycleEvent::Registered(1, registered(0, 33)), 10);
    let actions = broker.step(LifecycleEvent::Heartbeat(2, heartbeat(0, true, true, false)), 20);
    assert_eq!(actions, [LifecycleAction::CaughtUp]);
    broker.step(LifecycleEvent::Ready, 30);
    let actions = broker.step(LifecycleEvent::Heartbeat(3, heartbeat(0, true, false, false)), 100);
    assert_eq!(actions, [LifecycleAction::Unfenced]);
    broker.last_request += 1;
    assert_eq!((broker.phase(), broker.is_fenced()), (BrokerPhase::Running, false));
    broker
}

#[test]
fn a_broker_registers_catches_up_and_is_unfenced() {
    let mut broker = broker();
    let actions = broker.step(LifecycleEvent::Tick, 0);
    let [LifecycleAction::Register(1, body)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((body.broker_id, body.previous_broker_epoch, body.is_migrating_zk_broker), (77, 12, false));
    assert_eq!(body.log_dirs, [directory(1), directory(2)], "sorted");
    assert_eq!((body.listeners[0].port, body.features[0].max_supported_version), (9092, 30));
    assert_eq!(body.incarnation_id, directory(99));
    let actions = broker.step(LifecycleEvent::Registered(1, registered(0, 33)), 10);
    assert_eq!(actions[0], LifecycleAction::Registered(33));
    let (request, body) = sent(&actions);
    assert_eq!((body.broker_epoch, body.current_metadata_offset, body.want_fence), (33, -1, true));
    assert_eq!(body.cordoned_log_dirs, None);
    // Not caught up: the next one follows soon, with what has been applied by then.
    assert!(broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, false, true, false)), 20).is_empty());
    assert_eq!(broker.deadline(), Some(30));
    broker.step(LifecycleEvent::Applied(40), 25);
    let (request, body) = sent(&broker.step(LifecycleEvent::Tick, 30));
    assert_eq!((body.current_metadata_offset, body.want_fence), (40, true));
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, true, false)), 40);
    assert_eq!(actions, [LifecycleAction::CaughtUp]);
    let (request, body) = sent(&broker.step(LifecycleEvent::Ready, 45));
    assert!(!body.want_fence);
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 50);
    assert_eq!(actions, [LifecycleAction::Unfenced]);
    assert_eq!((broker.deadline(), broker.phase()), (Some(2050), BrokerPhase::Running));
}

#[test]
fn ready_before_caught_up_does_not_unfence() {
    let mut broker = broker();
    broker.step(LifecycleEvent::Tick, 0);
    broker.step(LifecycleEvent::Ready, 0);
    let (_, body) = sent(&broker.step(LifecycleEvent::Registered(1, registered(0, 33)), 10));
    assert!(body.want_fence);
}

#[test]
fn registration_retries_often_while_previous_session_lasts() {
    let mut broker = broker();
    let mut now_ms = 0;
    for request in 1..30 {
        broker.step(LifecycleEvent::Tick, now_ms);
        let actions = broker.step(LifecycleEvent::Registered(request, registered(101, -1)), now_ms);
        assert_eq!(actions, [LifecycleAction::Refused { api: "BrokerRegistration", code: 101 }]);
        assert_eq!(broker.deadline(), Some(now_ms + 300));
        now_ms += 300;
    }
}

#[test]
fn registration_times_out_with_the_last_cause() {
    for (answer, cause) in [(Some(35), "upgrade Levada"), (None, "no controller responded")] {
        let mut broker = broker();
        let mut exits = Vec::new();
        let mut pauses = Vec::new();
        while let Some(now_ms) = broker.deadline() {
            for action in broker.step(LifecycleEvent::Tick, now_ms) {
                match (action, answer) {
                    (LifecycleAction::Register(request, _), Some(code)) => {
                        broker.step(LifecycleEvent::Registered(request, registered(code, -1)), now_ms);
                    }
                    (LifecycleAction::Register(request, _), None) => {
                        broker.step(LifecycleEvent::Failed(request), now_ms);
                    }
                    (LifecycleAction::Exit(reason), _) => exits.push((now_ms, reason)),
                    (other, _) => panic!("{other:?}"),
                }
                pauses.extend(broker.deadline().map(|deadline| deadline - now_ms));
            }
        }
        assert_eq!(pauses[..6], [100, 200, 400, 800, 1600, 2000]);
        let [(60_000, reason)] = &exits[..] else { panic!("{exits:?}") };
        assert!(reason.contains(cause), "{reason}");
    }
}

#[test]
fn refused_registration_lists_unsupported_feature_levels() {
    let finalized = |features: &[(&str, i16)]| {
        let mut broker = broker();
        let ranges = [("transaction.version", 0, 2), ("share.version", 0, 1)];
        broker.identity.features.extend(ranges.map(|(name, min, max)| FeatureRange {
            name: name.into(),
            min,
            max,
        }));
        let levels = features.iter();
        broker.set_finalized(
            levels.map(|(name, level)| FinalizedFeature { name: (*name).into(), level: *level }).collect(),
        );
        broker.cause(35).into_owned()
    };
    let newer = finalized(&[("metadata.version", 30), ("transaction.version", 3), ("queue.version", 1)]);
    assert_eq!(
        newer,
        "the cluster has finalized transaction.version at level 3, and this Levada supports levels 0 to 2 (error 35): \
         upgrade Levada first; the cluster has finalized queue.version at level 1, and this Levada does not have the \
         feature (error 35): upgrade Levada first"
    );
    let older = finalized(&[("metadata.version", 22), ("share.version", 1), ("queue.version", 0)]);
    assert_eq!(
        older,
        "the cluster has finalized metadata.version at level 22, and this Levada supports levels 25 to 30 (error 35): \
         upgrade controllers and brokers of Kafka 3 to Kafka 4 if there are any, and then raise the level with \
         kafka-features.sh upgrade --feature metadata.version=25"
    );
    assert_eq!(finalized(&[("metadata.version", 30)]), errors::remedy(35), "the cause is something else");
    let mut broker = broker();
    broker.set_finalized(vec![FinalizedFeature { name: "metadata.version".into(), level: 31 }]);
    let mut reason = None;
    while let Some(now_ms) = broker.deadline() {
        for action in broker.step(LifecycleEvent::Tick, now_ms) {
            match action {
                LifecycleAction::Register(request, _) => {
                    broker.step(LifecycleEvent::Registered(request, registered(35, -1)), now_ms);
                }
                LifecycleAction::Exit(given) => reason = Some(given),
                other => panic!("{other:?}"),
            }
        }
    }
    let reason = reason.expect("an end");
    assert!(reason.contains("metadata.version at level 31"), "{reason}");
}

#[test]
fn permanent_registration_refusals_end_the_process() {
    for code in [31, 104] {
        let mut broker = broker();
        broker.step(LifecycleEvent::Tick, 0);
        let actions = broker.step(LifecycleEvent::Registered(1, registered(code, -1)), 5);
        assert!(matches!(&actions[..], [LifecycleAction::Exit(_)]), "{actions:?}");
        assert_eq!(broker.deadline(), None);
    }
    let mut broker = running();
    let (request, _) = sent(&broker.step(LifecycleEvent::Tick, 2100));
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(31, false, false, false)), 2200);
    assert!(matches!(&actions[..], [LifecycleAction::Exit(_)]), "{actions:?}");
}

#[test]
fn fenced_broker_requests_unfencing_in_next_heartbeat() {
    let mut broker = running();
    let (request, _) = sent(&broker.step(LifecycleEvent::Tick, 2100));
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, true, false)), 2200);
    assert_eq!(actions, [LifecycleAction::Fenced]);
    assert!(broker.is_fenced());
    let (request, body) = sent(&broker.step(LifecycleEvent::Tick, 4200));
    assert!(!body.want_fence);
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 4300);
    assert_eq!(actions, [LifecycleAction::Unfenced]);
}

#[test]
fn replaced_broker_stops_writing_and_exits_after_session() {
    let mut broker = running();
    let (request, _) = sent(&broker.step(LifecycleEvent::Tick, 2100));
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(77, false, false, false)), 2200);
    assert_eq!(actions[1..], [LifecycleAction::StopWriting]);
    assert_eq!((broker.phase(), broker.deadline()), (BrokerPhase::Replaced, Some(2200 + 9000)));
    assert!(broker.step(LifecycleEvent::RegistrationOutdated, 3000).is_empty(), "never registers again");
    let actions = broker.step(LifecycleEvent::Tick, 2200 + 9000);
    let [LifecycleAction::Exit(reason)] = &actions[..] else { panic!("{actions:?}") };
    assert!(reason.contains("another process has registered"), "{reason}");
}

#[test]
fn a_controlled_shutdown_waits_for_the_grant() {
    let mut broker = running();
    let (request, body) = sent(&broker.step(LifecycleEvent::Stop, 500));
    assert!(body.want_shut_down && !body.want_fence);
    broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 600);
    assert_eq!(broker.deadline(), Some(650), "the second one comes soon");
    let (request, _) = sent(&broker.step(LifecycleEvent::Tick, 650));
    broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 700);
    assert_eq!(broker.deadline(), Some(2700));
    assert!(broker.step(LifecycleEvent::Stop, 800).is_empty(), "it has begun");
    let (request, body) = sent(&broker.step(LifecycleEvent::Tick, 2700));
    assert!(body.want_shut_down);
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, true, true)), 2800);
    assert_eq!(actions, [LifecycleAction::Shutdown(true)]);
    assert_eq!(broker.deadline(), None);
}

#[test]
fn a_controlled_shutdown_has_a_deadline() {
    let mut broker = running();
    broker.step(LifecycleEvent::Stop, 500);
    let mut now_ms = 500;
    let shutdown = loop {
        let actions = broker.step(LifecycleEvent::Tick, now_ms);
        if let [LifecycleAction::Shutdown(granted)] = actions[..] {
            break granted;
        }
        now_ms = broker.deadline().unwrap();
    };
    assert_eq!((shutdown, now_ms), (false, 300_500));
}

#[test]
fn unregistered_broker_stops_immediately() {
    let mut starting = broker();
    assert_eq!(starting.step(LifecycleEvent::Stop, 0), [LifecycleAction::Shutdown(false)]);
    let mut recovering = broker();
    recovering.step(LifecycleEvent::Tick, 0);
    recovering.step(LifecycleEvent::Registered(1, registered(0, 33)), 10);
    recovering.step(LifecycleEvent::Heartbeat(2, heartbeat(0, true, true, false)), 20);
    assert_eq!(recovering.phase(), BrokerPhase::Recovery);
    assert_eq!(recovering.step(LifecycleEvent::Stop, 30), [LifecycleAction::Shutdown(false)]);
}

#[test]
fn stop_after_unfence_request_is_a_controlled_shutdown() {
    let mut broker = broker();
    broker.step(LifecycleEvent::Tick, 0);
    broker.step(LifecycleEvent::Registered(1, registered(0, 33)), 10);
    broker.step(LifecycleEvent::Heartbeat(2, heartbeat(0, true, true, false)), 20);
    let (request, body) = sent(&broker.step(LifecycleEvent::Ready, 30));
    assert!(!body.want_fence);
    assert!(broker.step(LifecycleEvent::Stop, 40).is_empty(), "the controller may have unfenced the broker");
    let actions = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 50);
    let (request, body) = sent(&actions);
    assert!(body.want_shut_down);
    let granted = broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, true, true)), 60);
    assert_eq!(granted, [LifecycleAction::Shutdown(true)]);
}

#[test]
fn a_failed_directory_is_reported_until_acknowledged() {
    let mut broker = running();
    let (request, body) = sent(&broker.step(LifecycleEvent::DirectoryFailed(directory(2)), 1000));
    assert_eq!(body.offline_log_dirs, [directory(2)]);
    broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 1100);
    assert_eq!(broker.deadline(), Some(3100));
    for now_ms in (3100..50_000).step_by(2000) {
        let (request, body) = sent(&broker.step(LifecycleEvent::Tick, now_ms));
        assert_eq!(body.offline_log_dirs, [directory(2)], "accumulated, as Kafka does");
        broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), now_ms);
    }
    assert_eq!(broker.phase(), BrokerPhase::Running, "the failure is known");
    let mut again = running();
    again.step(LifecycleEvent::DirectoryFailed(directory(2)), 1000);
    again.step(LifecycleEvent::Failed(5), 1100);
    let registration = again.identity.request(|id| !again.offline.contains_key(&id.to_bytes()));
    assert_eq!(registration.log_dirs, [directory(1)], "online directories only");
}

#[test]
fn unreported_directory_failure_ends_the_process() {
    let mut broker = running();
    broker.step(LifecycleEvent::DirectoryFailed(directory(2)), 1000);
    while let Some(now_ms) = broker.deadline() {
        let actions = broker.step(LifecycleEvent::Tick, now_ms);
        if let [LifecycleAction::Exit(reason)] = &actions[..] {
            assert_eq!(now_ms, 31_000);
            assert!(reason.contains("has failed"), "{reason}");
        }
    }
    let mut broker = running();
    broker.step(LifecycleEvent::DirectoryFailed(directory(2)), 1000);
    let actions = broker.step(LifecycleEvent::DirectoryFailed(directory(1)), 1000);
    assert!(matches!(&actions[..], [LifecycleAction::Exit(_)]), "{actions:?}");
}

#[test]
fn first_heartbeat_contains_cordoned_directories() {
    let mut broker = broker();
    broker.step(LifecycleEvent::Tick, 0);
    broker.step(LifecycleEvent::Cordoned(vec![directory(1)]), 0);
    let (_, body) = sent(&broker.step(LifecycleEvent::Registered(1, registered(0, 33)), 10));
    assert_eq!(body.cordoned_log_dirs, Some(vec![directory(1)]));
    let mut broker = running();
    let (_, body) = sent(&broker.step(LifecycleEvent::Cordoned(Vec::new()), 200));
    assert_eq!(body.cordoned_log_dirs, Some(Vec::new()), "an empty list lifts the cordon");
}

#[test]
fn outdated_registration_is_renewed_by_same_incarnation() {
    let mut broker = running();
    let actions = broker.step(LifecycleEvent::RegistrationOutdated, 200);
    let [LifecycleAction::Register(request, body)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(body.incarnation_id, directory(99));
    let actions = broker.step(LifecycleEvent::Registered(*request, registered(0, 33)), 300);
    assert!(matches!(&actions[..], [LifecycleAction::Heartbeat(..)]), "the epoch is the same: {actions:?}");
    assert_eq!(broker.phase(), BrokerPhase::Running);
}

#[test]
fn lost_heartbeat_is_retried_and_late_response_ignored() {
    let mut broker = running();
    let (lost, _) = sent(&broker.step(LifecycleEvent::Tick, 2100));
    assert_eq!(broker.deadline(), Some(2100 + 4500));
    assert!(broker.step(LifecycleEvent::Tick, 6600).is_empty());
    assert_eq!(broker.deadline(), Some(6700), "before the session of 9 s ends");
    let (request, _) = sent(&broker.step(LifecycleEvent::Tick, 6700));
    assert!(
        broker.step(LifecycleEvent::Heartbeat(lost, heartbeat(77, false, false, false)), 6710).is_empty()
    );
    broker.step(LifecycleEvent::Heartbeat(request, heartbeat(0, true, false, false)), 6720);
    assert_eq!(broker.deadline(), Some(8720));
}

#[test]
fn unsafe_broker_identities_are_refused_locally() {
    let quorum = Quorum::from_voters("1@c:1").unwrap();
    #[track_caller]
    fn refused(quorum: &Quorum, change: impl FnOnce(&mut BrokerIdentity)) -> IdentityFault {
        let mut identity = identity();
        change(&mut identity);
        identity.check(quorum).unwrap_err()
    }
    assert_eq!(identity().check(&quorum), Ok(()));
    assert_eq!(refused(&quorum, |id| id.node_id = -5), IdentityFault::NodeId { node_id: -5 });
    assert_eq!(refused(&quorum, |id| id.node_id = 1), IdentityFault::Voter { node_id: 1 });
    assert_eq!(refused(&quorum, |id| id.listeners.clear()), IdentityFault::NoListener);
    let name = identity().listeners[0].name.clone();
    let twice = refused(&quorum, |id| id.listeners.extend_from_within(..1));
    assert_eq!(twice, IdentityFault::SameListener { name });
    assert_eq!(refused(&quorum, |id| id.directories.clear()), IdentityFault::NoDirectory);
    let twice = refused(&quorum, |id| id.directories.extend_from_within(..1));
    assert_eq!(twice, IdentityFault::Directory { id: directory(2) });
    let mut unassigned = [0; 16];
    unassigned[15] = 1;
    let unassigned = Uuid::from_bytes(unassigned);
    let reserved = refused(&quorum, |id| id.directories = vec![unassigned]);
    assert_eq!(reserved, IdentityFault::Directory { id: unassigned });
    let none = IdentityFault::NoMetadataVersion { announced: Vec::new() };
    assert_eq!(refused(&quorum, |id| id.features.clear()), none);
}
