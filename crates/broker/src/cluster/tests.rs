//! The membership against controllers on sockets of this process.

mod quorum;

use std::net::SocketAddr;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use levada_cluster::lifecycle::BrokerPhase;
use levada_config::{BrokerConfig, Sources};
use levada_wire::api::controller::{ASSIGN_REPLICAS_TO_DIRS, BROKER_HEARTBEAT, ENVELOPE, FETCH};

use self::quorum::{Controller, TOPIC_OFFSET};
use super::events::EventReceiver;
use super::identity::{BrokerIds, OwnRegistration, identity};
use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const DIRECTORY: Uuid = Uuid::from_bytes([5; 16]);

/// A membership and its news.
struct Member {
    membership: Arc<ClusterMembership>,
    events: EventReceiver,
}

/// A broker that follows these controllers, of which none is a voter that it knows.
fn join(controllers: &[&Controller]) -> Member {
    join_with(controllers, "cordoned.log.dirs=")
}

fn join_with(controllers: &[&Controller], flag: &str) -> Member {
    let addresses: Vec<String> = controllers.iter().map(|one| one.address.to_string()).collect();
    let flags = [
        "process.roles=broker",
        "node.id=77",
        "controller.listener.names=CONTROLLER",
        "broker.heartbeat.interval.ms=50",
        flag,
        &format!("controller.quorum.bootstrap.servers={}", addresses.join(",")),
    ];
    let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
    let ids =
        BrokerIds { cluster_id: "cluster".to_owned(), directories: vec![DIRECTORY], previous_epoch: None };
    let identity = identity(&config, &["127.0.0.1:9092".parse().unwrap()], ids);
    let directories = vec![(config.log_dirs[0].clone(), DIRECTORY)];
    let registration = OwnRegistration { identity, directories };
    let (sender, events) = events::queue();
    let membership =
        ClusterMembership::start(&Arc::new(LiveConfig::new(config)), registration, sender).unwrap();
    Member { membership, events }
}

#[test]
fn the_registration_has_bound_ports() {
    let flags = [
        "process.roles=broker",
        "node.id=77",
        "controller.listener.names=CONTROLLER",
        "controller.quorum.bootstrap.servers=localhost:1",
        "listeners=A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0",
        "advertised.listeners=A://one:0,B://two:5",
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name=A",
    ];
    let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
    let bound = [7001, 7002, 7003].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let ids = BrokerIds { cluster_id: "cluster".to_owned(), directories: Vec::new(), previous_epoch: None };
    let listeners = identity(&config, &bound, ids).listeners;
    let told: Vec<_> = listeners.iter().map(|one| (one.host.as_str(), one.port)).collect();
    assert_eq!(told, [("one", 7001), ("two", 5), ("127.0.0.1", 7003)]);
}

impl Member {
    fn event(&self) -> ClusterEvent {
        self.events.recv_timeout(LIMIT).expect("an event")
    }

    /// Puts the first image in force, and waits until the controller counts the broker as caught
    /// up.
    fn catch_up(&self) -> Image {
        let image = match self.event() {
            ClusterEvent::Image(image) => image,
            other => panic!("{other:?} before the first image"),
        };
        assert_eq!(image.offset(), TOPIC_OFFSET);
        self.membership.applied(&image);
        assert!(matches!(self.event(), ClusterEvent::CaughtUp));
        image
    }
}

/// Runs a future on this thread.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// A request with this correlation id, as far as the controller reads it.
fn client_request(correlation_id: i32) -> Bytes {
    let mut request = vec![0, 19, 0, 7];
    request.extend_from_slice(&correlation_id.to_be_bytes());
    request.into()
}

fn principal() -> ForwardedPrincipal {
    ForwardedPrincipal { kind: "User".into(), name: "ANONYMOUS".into(), token_authenticated: false }
}

fn forward(membership: &ClusterMembership) -> Forwarded {
    wait_for(membership.forward(client_request(42), 42, &principal(), [127, 0, 0, 1].into()))
}

#[test]
fn membership_covers_catch_up_unfencing_and_shutdown() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    let image = member.catch_up();
    assert!(image.topic("t").is_some());
    member.membership.ready();
    assert!(matches!(member.event(), ClusterEvent::Unfenced));
    let status = member.membership.status();
    assert_eq!((status.phase, status.is_fenced), (BrokerPhase::Running, false));
    assert_eq!((status.broker_epoch, status.controller), (Some(7), Some(1)));
    assert_eq!((status.quorum_epoch, status.high_watermark, status.applied), (1, 1, 0));
    assert!(status.since_fetch_ms.is_some() && status.since_heartbeat_ms.is_some());
    assert_eq!(status.refusal, None);
    member.membership.begin_stop();
    assert!(matches!(member.event(), ClusterEvent::Shutdown { moved: true }));
}

#[test]
fn broker_exit_names_unsupported_feature_level() {
    let controller = Controller::start(1);
    controller.change(|state| {
        state.registration_error = 35;
        state.finalized = vec![("metadata.version", 30), ("transaction.version", 3)];
    });
    let member = join_with(&[&controller], "initial.broker.registration.timeout.ms=300");
    let reason = loop {
        match member.event() {
            ClusterEvent::Exit(reason) => break reason,
            ClusterEvent::Image(_) => {}
            other => panic!("{other:?} of a broker that is not registered"),
        }
    };
    assert!(reason.contains("the cluster has finalized transaction.version at level 3"), "{reason}");
    assert!(reason.contains("supports levels 0 to 2 (error 35): upgrade Levada first"), "{reason}");
    assert!(!reason.contains("metadata.version"), "{reason}");
}

#[test]
fn metadata_fetch_counts_once_image_is_delivered() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    let begun = Instant::now();
    while member.membership.status().since_fetch_ms.is_none() {
        assert!(begun.elapsed() < LIMIT, "no answer of the leader");
        std::thread::yield_now();
    }
    let event = member.events.recv_timeout(Duration::ZERO);
    assert!(matches!(event, Ok(ClusterEvent::Image(_))), "{event:?} with the first answer");
}

#[test]
fn directories_are_reported_before_unfencing_request() {
    let controller = Controller::start(1);
    controller.change(|state| state.acknowledges = false);
    let member = join(&[&controller]);
    member.catch_up();
    member.membership.assign(ReplicaKey::new(Uuid::from_bytes([9; 16]), 0), DIRECTORY);
    member.membership.ready();
    let reports = |state: &quorum::State| {
        state.received.iter().filter(|key| **key == ASSIGN_REPLICAS_TO_DIRS.key).count()
    };
    controller.wait(|state| (reports(state) > 1).then_some(()));
    let sent = controller.wait(|state| Some(state.heartbeats.len()));
    controller.wait(|state| (state.heartbeats.len() > sent).then_some(()));
    controller.change(|state| {
        assert!(state.heartbeats.iter().all(|heartbeat| heartbeat.want_fence));
        state.acknowledges = true;
    });
    assert!(matches!(member.event(), ClusterEvent::Unfenced));
}

/// Kafka's controller logs each of these requests as an error.
#[test]
fn replaced_broker_sends_no_stale_epoch_requests() {
    let controller = Controller::start(1);
    let member = join_with(&[&controller], "broker.session.timeout.ms=500");
    member.catch_up();
    member.membership.ready();
    assert!(matches!(member.event(), ClusterEvent::Unfenced));
    controller.change(|state| state.heartbeat_error = ErrorCode::StaleBrokerEpoch.code());
    assert!(matches!(member.event(), ClusterEvent::StopWriting));
    member.membership.assign(ReplicaKey::new(Uuid::from_bytes([9; 16]), 0), DIRECTORY);
    // The session is time enough for a request.
    assert!(matches!(member.event(), ClusterEvent::Exit(_)));
    controller.change(|state| assert!(!state.received.contains(&ASSIGN_REPLICAS_TO_DIRS.key)));
}

#[test]
fn first_heartbeat_reports_cordoned_directories() {
    let controller = Controller::start(1);
    let member = join_with(&[&controller], "cordoned.log.dirs=*");
    member.catch_up();
    controller.wait(|state| {
        let first = state.heartbeats.first()?;
        assert_eq!(first.cordoned_log_dirs, Some(vec![DIRECTORY]));
        Some(())
    });
    // Without the key the controller keeps what it has until the dynamic configuration is known.
    let other = Controller::start(1);
    let member = join(&[&other]);
    member.catch_up();
    member.membership.ready();
    assert!(matches!(member.event(), ClusterEvent::Unfenced));
    other.wait(|state| {
        assert_eq!(state.heartbeats[0].cordoned_log_dirs, None);
        (state.heartbeats.last()?.cordoned_log_dirs == Some(Vec::new())).then_some(())
    });
}

/// A controller before Kafka 4.3 does not know the field, and a request with it cannot be encoded.
#[test]
fn heartbeats_reach_a_controller_without_cordoned_directories() {
    let controller = Controller::start(1);
    controller.change(|state| state.heartbeat_version = Some(1));
    let member = join_with(&[&controller], "cordoned.log.dirs=*");
    member.catch_up();
    member.membership.ready();
    assert!(matches!(member.event(), ClusterEvent::Unfenced));
}

#[test]
fn producer_ids_come_from_blocks_requested_once() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    member.catch_up();
    let ids: Vec<i64> = (0..7).map(|_| wait_for(member.membership.producer_id()).unwrap()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
    member.membership.forget(ReplicaKey::new(Uuid::from_bytes([9; 16]), 0));
}

#[test]
fn a_forwarded_request_waits_for_the_active_controller() {
    let controller = Controller::start(1);
    controller.change(|state| state.envelope_errors = vec![41]);
    let member = join(&[&controller]);
    // NOT_CONTROLLER is tried again.
    let Forwarded::Answer(answer) = forward(&member.membership) else { panic!("no answer") };
    assert_eq!(answer, client_request(42).slice(4..));
    for (code, fate) in [
        (35, Forwarded::CloseConnection),
        (97, Forwarded::Failed(ErrorCode::UnknownServerError)),
        (31, Forwarded::Failed(ErrorCode::UnknownServerError)),
    ] {
        controller.change(|state| state.envelope_errors = vec![code]);
        assert_eq!(forward(&member.membership), fate, "{code}");
    }
    let status = member.membership.status();
    assert_eq!((status.forwarded, status.forwarding_failed), (1, 3));
}

/// A leader that does not answer any more keeps its connections open. The quorum elects another
/// one, and the requests in flight must not wait for the timeout of the old connections.
#[test]
fn requests_in_flight_move_to_the_next_controller() {
    let (first, second) = (Controller::start(1), Controller::start(2));
    let (leader, port) = (second.id, second.address.port());
    second.change(|state| (state.epoch, state.leader, state.leader_port) = (1, 1, first.address.port()));
    let member = join(&[&first, &second]);
    member.catch_up();
    first.change(|state| state.mute = vec![ENVELOPE.key, BROKER_HEARTBEAT.key]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let membership = &member.membership;
        let waiting = scope.spawn(|| forward(membership));
        first.wait(|state| state.received.contains(&ENVELOPE.key).then_some(()));
        for controller in [&first, &second] {
            controller.change(|state| (state.epoch, state.leader, state.leader_port) = (2, leader, port));
        }
        assert!(matches!(waiting.join().unwrap(), Forwarded::Answer(_)));
    });
    assert!(begun.elapsed() < REQUEST_TIMEOUT, "the request waited for the old connection's timeout");
    second.wait(|state| (!state.heartbeats.is_empty()).then_some(()));
    assert_eq!(member.membership.status().controller, Some(2));
}

#[test]
fn membership_end_does_not_wait_for_controller() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    member.catch_up();
    controller.change(|state| state.mute = vec![FETCH.key, BROKER_HEARTBEAT.key, ENVELOPE.key]);
    let (sender, receiver) = oneshot::channel();
    let envelope = envelope::wrap(client_request(1), &principal(), [127, 0, 0, 1].into());
    let job = TypedJob::new(controller::ENVELOPE, envelope, |_| {
        // The test fails where it waits.
        let _ = sender.send(());
    });
    member.membership.tell(RequestInput::Submit(RequestClass::Forwarded, Arc::new(job)));
    controller.wait(|state| state.received.contains(&ENVELOPE.key).then_some(()));
    let Member { membership, events } = member;
    drop(membership);
    assert!(wait_for(receiver).is_ok(), "the request has no outcome");
    // All threads have ended: no thread can send any more.
    while events.recv_timeout(Duration::ZERO).is_ok() {}
    assert!(matches!(events.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected)));
}

#[test]
fn broker_with_controller_id_does_not_join() {
    let controller = Controller::start(77);
    let member = join(&[&controller]);
    let reason = loop {
        match member.event() {
            ClusterEvent::Exit(reason) => break reason,
            ClusterEvent::Image(_) | ClusterEvent::CaughtUp => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.starts_with("node.id 77 is the id of a controller"), "{reason}");
}

#[test]
fn broker_with_non_leading_controllers_id_exits() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    member.catch_up();
    controller.change(|state| state.voter = Some(77));
    let reason = loop {
        if let ClusterEvent::Exit(reason) = member.event() {
            break reason;
        }
    };
    assert!(reason.starts_with("node.id 77 is the id of a controller"), "{reason}");
}

#[test]
fn finalized_kraft_version_reaches_the_image() {
    let controller = Controller::start(1);
    let member = join(&[&controller]);
    assert_eq!(member.catch_up().kraft_version(), 0);
    controller.change(|state| state.voter = Some(5));
    let image = loop {
        if let ClusterEvent::Image(image) = member.event() {
            break image;
        }
    };
    assert_eq!((image.offset(), image.kraft_version()), (TOPIC_OFFSET + 2, 1));
}

#[test]
fn panicking_thread_is_named_in_broker_exit() {
    let (sender, events) = events::queue();
    guard("cluster-log", &sender, || {});
    guard("cluster-life", &sender, || panic!("on purpose"));
    let Ok(ClusterEvent::Exit(reason)) = events.recv_timeout(Duration::ZERO) else { panic!("no exit") };
    assert!(reason.contains("cluster-life"), "{reason}");
}
