//! The state machines of the crate `cluster` one by one against a real Kafka controller, each with
//! a thread and a blocking connection of its own. The suites `member` and `cluster…` have them
//! together, as the binary drives them.
//!
//! Suite: soak; 60 s; needs java
//! Soak: scale 3, repeated

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use levada_client::ConnectionOptions;
use levada_cluster::directories::ReplicaKey;
use levada_cluster::envelope::{self, ForwardedPrincipal, Unwrapped};
use levada_cluster::lifecycle::{
    BrokerIdentity, BrokerListener, FeatureRange, Lifecycle, LifecycleAction, LifecycleEvent, LifecycleTimes,
};
use levada_cluster::observer::{MetadataRecord, Observer, ObserverAction, ObserverConfig, ObserverEvent};
use levada_cluster::{Directories, ProducerIds, Quorum, Target};
use levada_testing::scaled;
use levada_tests::cluster::{Discovery, Shape};
use levada_tests::node::{Kind, free_port};
use levada_tests::{Cluster, Node, Tool, await_some};
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::fetch::{FetchRequest, FetchResponse};
use levada_wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DescribeClusterRequest, RequestResponsePair, Uuid,
    create_topics_request,
};
use levada_wire::primitives::{DecodeLimits, Decoder};
use levada_wire::{decode_response, encode_request};

const NODE_ID: i32 = 77;
const CLUSTER_ID: &str = "bGV2YWRhLXRlc3RzLTAwMA";
const LIMIT: Duration = Duration::from_secs(60);

/// Kind of the record that makes a topic.
const TOPIC: u32 = 2;

/// Milliseconds since the start of the process's first machine.
fn now_ms() -> i64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as i64
}

/// A connection to the addressed controller, made again after a failure.
#[derive(Default)]
struct Connection {
    to: Option<Target>,
    client: Option<levada_client::Connection>,
}

impl Connection {
    fn call<T>(
        &mut self,
        to: &Target,
        call: impl FnOnce(&mut levada_client::Connection) -> Option<T>,
    ) -> Option<T> {
        if self.to.as_ref() != Some(to) {
            *self = Self { to: Some(to.clone()), client: None };
        }
        if self.client.is_none() {
            let options =
                ConnectionOptions { timeout: Duration::from_secs(2), ..ConnectionOptions::default() };
            self.client = levada_client::Connection::connect(&to.address.to_string(), &options).ok();
        }
        let answer = call(self.client.as_mut()?);
        if answer.is_none() {
            self.client = None;
        }
        answer
    }

    fn request<R: RequestResponsePair>(
        &mut self,
        to: &Target,
        api: ControllerApi,
        request: &R,
    ) -> Option<R::Response> {
        self.call(to, |client| client.request_at(best(client, api)?, request).ok())
    }

    fn fetch(&mut self, to: &Target, request: &FetchRequest) -> Option<FetchResponse<bytes::Bytes>> {
        self.call(to, |client| {
            let version = best(client, controller::FETCH)?;
            client.send(&request.encode(1, "observer", version).ok()?).ok()?;
            Some(FetchResponse::decode(client.receive().ok()?, version).ok()?.1)
        })
    }
}

fn best(client: &levada_client::Connection, api: ControllerApi) -> Option<i16> {
    let offered = client.versions().iter().find(|offered| offered.key == api.key)?;
    api.best(offered.min..=offered.max)
}

/// State built from the actions of an observer.
#[derive(Default)]
struct Seen {
    leader: Option<Target>,
    epoch: i32,
    /// Offset of the last record that took effect.
    applied: i64,
    topics: BTreeSet<String>,
    fresh: BTreeSet<String>,
    snapshots: u32,
    stopped: Option<String>,
}

impl Seen {
    fn take(&mut self, action: ObserverAction) {
        match action {
            ObserverAction::Publish(committed) => {
                self.topics.extend(committed.records.iter().filter_map(topic));
                assert!(committed.through.offset > self.applied + 1, "nothing new");
                self.applied = committed.through.offset - 1;
            }
            ObserverAction::SnapshotBegins(_) => self.fresh.clear(),
            ObserverAction::SnapshotRecords(records) => self.fresh.extend(records.iter().filter_map(topic)),
            ObserverAction::SnapshotEnds(id) => {
                self.topics = std::mem::take(&mut self.fresh);
                self.applied = id.end_offset - 1;
                self.snapshots += 1;
            }
            ObserverAction::Stop(reason) => self.stopped = Some(reason),
            _ => {}
        }
    }
}

/// The name in a topic's record.
fn topic(record: &MetadataRecord) -> Option<String> {
    let mut value = Decoder::new(record.value.clone(), DecodeLimits::default()).expect("a small record");
    let head: Vec<u32> = (0..3).map(|_| value.read_unsigned_varint().expect("a record's head")).collect();
    assert_eq!(head[0], 1, "frame version");
    (head[1] == TOPIC).then(|| value.read_compact_string().expect("a name").as_str().to_owned())
}

/// A machine on a thread, which ends when the sender is dropped.
struct Running<E> {
    events: Option<Sender<E>>,
    thread: Option<JoinHandle<()>>,
}

impl<E> Running<E> {
    fn send(&self, event: E) {
        self.events.as_ref().expect("running").send(event).expect("the thread runs");
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.events = None;
        let outcome = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            outcome.transpose().expect("the thread does not panic");
        }
    }
}

/// Waits for an event until the machine's deadline; `None` if the test has ended.
fn next<E>(events: &Receiver<E>, deadline: Option<i64>, tick: E) -> Option<E> {
    let wait = deadline.map_or(0, |deadline| (deadline.saturating_sub(now_ms())).clamp(0, 60_000));
    match events.recv_timeout(Duration::from_millis(wait as u64)) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => Some(tick),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn observe(quorum: Quorum, node_id: i32) -> (Arc<Mutex<Seen>>, Running<ObserverEvent>) {
    let seen = Arc::new(Mutex::new(Seen { applied: -1, ..Seen::default() }));
    let mut config = ObserverConfig::new(node_id, Uuid::from_bytes([node_id as u8; 16]));
    config.cluster_id = Some(CLUSTER_ID.into());
    let mut observer = Observer::new(config, quorum);
    let (sender, events) = channel();
    let shared = Arc::clone(&seen);
    let thread = std::thread::spawn(move || {
        let mut connection = Connection::default();
        let mut event = Some(ObserverEvent::Tick);
        while let Some(now) = event.take() {
            for action in observer.step(now, now_ms()) {
                match action {
                    ObserverAction::Fetch(id, to, body) => {
                        let answer = connection.fetch(&to, &body);
                        event =
                            Some(answer.map_or(ObserverEvent::Failed(id), |answer| {
                                ObserverEvent::Fetched(id, answer)
                            }));
                    }
                    ObserverAction::FetchSnapshot(id, to, body) => {
                        let answer = connection.request(&to, controller::FETCH_SNAPSHOT, &body);
                        event = Some(answer.map_or(ObserverEvent::Failed(id), |answer| {
                            ObserverEvent::SnapshotFetched(id, answer)
                        }));
                    }
                    other => shared.lock().expect("no panic").take(other),
                }
            }
            let mut state = shared.lock().expect("no panic");
            state.leader = observer.quorum().leader_target();
            state.epoch = observer.quorum().epoch();
            drop(state);
            match (event.is_some(), observer.deadline()) {
                (_, None) => return,
                // A response must not keep the thread from its end.
                (true, _) if events.try_recv().is_err_and(|error| error == TryRecvError::Disconnected) => {
                    return;
                }
                (true, _) => {}
                (false, deadline) => event = next(&events, deadline, ObserverEvent::Tick),
            }
        }
    });
    (seen, Running { events: Some(sender), thread: Some(thread) })
}

fn identity() -> BrokerIdentity {
    let feature = |(name, min, max): (&str, i16, i16)| FeatureRange { name: name.into(), min, max };
    let features = [
        ("metadata.version", 25, 33),
        ("kraft.version", 0, 1),
        ("transaction.version", 0, 2),
        ("group.version", 0, 1),
        ("eligible.leader.replicas.version", 0, 1),
        ("share.version", 0, 2),
        ("streams.version", 0, 1),
    ];
    BrokerIdentity {
        node_id: NODE_ID,
        cluster_id: CLUSTER_ID.into(),
        incarnation_id: Uuid::from_bytes(rand::random()),
        previous_epoch: None,
        rack: None,
        listeners: vec![BrokerListener {
            name: "PLAINTEXT".into(),
            host: "127.0.0.1".into(),
            port: free_port().port(),
            security_protocol: 0,
        }],
        features: features.map(feature).into(),
        directories: vec![Uuid::from_bytes([NODE_ID as u8; 16])],
    }
}

/// Registers and sends heartbeats; the receiver gets the machine's outputs other than requests.
fn live(
    identity: BrokerIdentity,
    seen: &Arc<Mutex<Seen>>,
) -> (Receiver<LifecycleAction>, Running<LifecycleEvent>) {
    let (sender, events) = channel();
    let (report, reports) = channel();
    let seen = Arc::clone(seen);
    let thread = std::thread::spawn(move || {
        let mut lifecycle = Lifecycle::new(identity, LifecycleTimes::default(), now_ms());
        let mut connection = Connection::default();
        let mut event = Some(LifecycleEvent::Tick);
        while let Some(now) = event.take() {
            let state = seen.lock().expect("no panic");
            let (leader, applied) = (state.leader.clone(), state.applied);
            drop(state);
            let mut actions = lifecycle.step(LifecycleEvent::Applied(applied), now_ms());
            actions.extend(lifecycle.step(now, now_ms()));
            for action in actions {
                event = match (action, &leader) {
                    (LifecycleAction::Register(id, body), Some(leader)) => {
                        let answer = connection.request(leader, controller::BROKER_REGISTRATION, &body);
                        Some(answer.map_or(LifecycleEvent::Failed(id), |answer| {
                            LifecycleEvent::Registered(id, answer)
                        }))
                    }
                    (LifecycleAction::Heartbeat(id, body), Some(leader)) => {
                        let answer = connection.request(leader, controller::BROKER_HEARTBEAT, &body);
                        Some(answer.map_or(LifecycleEvent::Failed(id), |answer| {
                            LifecycleEvent::Heartbeat(id, answer)
                        }))
                    }
                    (LifecycleAction::Register(id, _) | LifecycleAction::Heartbeat(id, _), None) => {
                        Some(LifecycleEvent::Failed(id))
                    }
                    (other, _) => {
                        let _ = report.send(other);
                        event
                    }
                };
            }
            match (event.is_some(), lifecycle.deadline()) {
                (_, None) => return,
                (true, _) => {}
                (false, deadline) => event = next(&events, deadline, LifecycleEvent::Tick),
            }
        }
    });
    (reports, Running { events: Some(sender), thread: Some(thread) })
}

/// Waits for one of the machine's reports, and returns those before it.
fn await_report(reports: &Receiver<LifecycleAction>, awaited: &LifecycleAction) -> Vec<LifecycleAction> {
    let mut before = Vec::new();
    loop {
        match reports.recv_timeout(LIMIT) {
            Ok(report) if report == *awaited => return before,
            Ok(LifecycleAction::Exit(reason)) => panic!("{reason}"),
            Ok(report) => before.push(report),
            Err(_) => panic!("no {awaited:?} within {LIMIT:?}, but {before:?}"),
        }
    }
}

fn create_topics(node: &Node, range: std::ops::Range<usize>) {
    let mut client = levada_client::Connection::connect(&node.bootstrap(), &ConnectionOptions::default())
        .expect("the broker answers");
    let mut request = CreateTopicsRequest::default();
    request.timeout_ms = 30_000;
    let topic = |number| {
        let mut topic = create_topics_request::CreatableTopic::default();
        topic.name = format!("t{number}").as_str().into();
        (topic.num_partitions, topic.replication_factor) = (1, 1);
        topic
    };
    request.topics = range.map(topic).collect();
    let response = client.request(&request).expect("an answer");
    assert!(response.topics.iter().all(|topic| topic.error_code == 0), "{:?}", response.topics);
}

/// Ids of the brokers that clients see.
fn brokers(node: &Node) -> BTreeSet<i32> {
    let mut client = levada_client::Connection::connect(&node.bootstrap(), &ConnectionOptions::default())
        .expect("the broker answers");
    let response = client.request(&DescribeClusterRequest::default()).expect("an answer");
    response.brokers.iter().map(|broker| broker.broker_id).collect()
}

fn all_topics(seen: &Mutex<Seen>, count: usize) -> BTreeSet<String> {
    await_some(&format!("{count} topics in the metadata log"), LIMIT, || {
        let seen = seen.lock().expect("no panic");
        assert_eq!(seen.stopped, None);
        (seen.topics.len() >= count).then(|| seen.topics.clone())
    })
}

/// A running Kafka, broker and controller in one, that makes snapshots of its metadata often.
fn kafka() -> Node {
    let mut node = Node::of(Kind::Kafka)
        .option("metadata.log.max.record.bytes.between.snapshots", "4096")
        .option("auto.create.topics.enable", "false");
    node.start();
    node
}

/// The quorum as `controller.quorum.bootstrap.servers` names it.
fn bootstrap(node: &Node) -> Quorum {
    Quorum::from_bootstrap_servers(&node.controller_address().to_string()).expect("an address")
}

fn assert_no_error_in_the_log(node: &Node) {
    let talk = node.talk();
    assert!(!talk.lines().any(|line| line.starts_with("ERROR") || line.starts_with("FATAL")), "{talk}");
}

#[test]
fn observer_follows_metadata_log_and_loads_snapshot() {
    let mut node = kafka();
    let controller = node.controller_address().to_string();
    let (seen, _observer) = observe(bootstrap(&node), NODE_ID);
    for round in 0..4 {
        create_topics(&node, 50 * round..50 * (round + 1));
    }
    let followed = all_topics(&seen, 200);
    await_some("lag 0 in Kafka's own tool", LIMIT, || {
        let mut tool = Tool::java("org.apache.kafka.tools.MetadataQuorumCommand");
        tool.args(["--bootstrap-controller", &controller, "describe", "--replication"]);
        let said = tool.run().stdout;
        let mut rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.first() == Some(&&*NODE_ID.to_string()))?;
        assert_eq!(row.last(), Some(&"Observer"), "{said}");
        (row[3] == "0").then_some(())
    });
    // Another one, which begins at offset 0 when there is a snapshot, has the same state.
    let (loaded, _other) = observe(bootstrap(&node), NODE_ID + 1);
    assert_eq!(all_topics(&loaded, 200), followed);
    assert!(loaded.lock().expect("no panic").snapshots > 0, "the quorum has made no snapshot");
    assert_no_error_in_the_log(&node);
    let epoch = seen.lock().expect("no panic").epoch;
    node.restart();
    create_topics(&node, 200..201);
    assert!(all_topics(&seen, 201).contains("t200"));
    assert!(seen.lock().expect("no panic").epoch > epoch, "the controller has begun a new epoch");
    assert_eq!(all_topics(&loaded, 201), all_topics(&seen, 201));
}

#[test]
fn a_broker_registers_is_unfenced_and_shuts_down() {
    let node = kafka();
    let (seen, _observer) = observe(bootstrap(&node), NODE_ID);
    let identity = identity();
    identity.check(&Quorum::from_voters("1@127.0.0.1:1").expect("an address")).expect("a sound identity");
    let (reports, broker) = live(identity.clone(), &seen);
    broker.send(LifecycleEvent::Cordoned(identity.directories.clone()));
    let before = await_report(&reports, &LifecycleAction::CaughtUp);
    let [LifecycleAction::Registered(epoch)] = before[..] else { panic!("{before:?}") };
    assert_eq!(brokers(&node), BTreeSet::from([1]), "registered and fenced");
    broker.send(LifecycleEvent::Ready);
    await_report(&reports, &LifecycleAction::Unfenced);
    await_some("both brokers in the cluster's description", LIMIT, || {
        (brokers(&node) == BTreeSet::from([1, NODE_ID])).then_some(())
    });
    ask_the_controller(&seen, epoch);
    broker.send(LifecycleEvent::Stop);
    await_report(&reports, &LifecycleAction::Shutdown(true));
    await_some("the broker's leaving", LIMIT, || (brokers(&node) == BTreeSet::from([1])).then_some(()));
    drop(broker);
    // The next incarnation waits for the end of the session, as Kafka makes every broker wait.
    let next = BrokerIdentity { incarnation_id: Uuid::from_bytes(rand::random()), ..identity };
    let (reports, broker) = live(next, &seen);
    let before = await_report(&reports, &LifecycleAction::CaughtUp);
    let refused = LifecycleAction::Refused { api: "BrokerRegistration", code: 101 };
    assert!(before.contains(&refused), "{before:?}");
    broker.send(LifecycleEvent::Ready);
    await_report(&reports, &LifecycleAction::Unfenced);
    assert_no_error_in_the_log(&node);
}

/// Forwards a client's request, has the replica that it makes reported, and takes producer ids.
fn ask_the_controller(seen: &Mutex<Seen>, epoch: i64) {
    let leader = seen.lock().expect("no panic").leader.clone().expect("the quorum has a leader");
    let mut connection = Connection::default();
    let mut assignment = create_topics_request::CreatableReplicaAssignment::default();
    assignment.broker_ids = vec![NODE_ID];
    let mut topic = create_topics_request::CreatableTopic::default();
    topic.name = "forwarded".into();
    (topic.num_partitions, topic.replication_factor) = (-1, -1);
    topic.assignments = vec![assignment];
    let mut request = CreateTopicsRequest::default();
    (request.topics, request.timeout_ms) = (vec![topic], 30_000);
    let frame = encode_request(42, Some("client"), 7, &request).expect("a request").slice(4..);
    let principal =
        ForwardedPrincipal { kind: "User".into(), name: "ANONYMOUS".into(), token_authenticated: false };
    let wrapped = envelope::wrap(frame, &principal, [127, 0, 0, 1].into());
    let answer = connection.request(&leader, controller::ENVELOPE, &wrapped).expect("an answer");
    let Unwrapped::Answer(answer) = envelope::unwrap(&answer, 42) else { panic!("{answer:?}") };
    let (_, created) = decode_response::<CreateTopicsResponse>(answer, 7).expect("a response");
    assert_eq!(created.topics[0].error_code, 0, "{created:?}");
    await_some("the forwarded topic in the metadata log", LIMIT, || {
        seen.lock().expect("no panic").topics.contains("forwarded").then_some(())
    });

    let mut directories = Directories::new();
    let directory = Uuid::from_bytes([NODE_ID as u8; 16]);
    directories.assign(ReplicaKey::new(created.topics[0].topic_id, 0), directory);
    let (number, request) = directories.poll(NODE_ID, epoch, now_ms()).expect("a request");
    let answer = connection.request(&leader, controller::ASSIGN_REPLICAS_TO_DIRS, &request);
    directories.answered(number, answer.as_ref(), now_ms());
    assert!(directories.is_settled(), "{answer:?}");

    let mut ids = ProducerIds::new();
    let (number, request) = ids.poll(NODE_ID, epoch, now_ms()).expect("a request");
    let answer = connection.request(&leader, controller::ALLOCATE_PRODUCER_IDS, &request);
    ids.answered(number, answer.as_ref(), now_ms());
    assert!(ids.take().is_some(), "{answer:?}");
}

#[test]
fn broker_survives_kill_of_each_controller() {
    let shape = Shape { controllers: 3, kafka: 0, levada: 0, discovery: Discovery::Voters };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let (_, voters) = cluster.discovery();
    let (seen, _observer) = observe(Quorum::from_voters(&voters).expect("voters"), NODE_ID);
    let (reports, broker) = live(identity(), &seen);
    await_report(&reports, &LifecycleAction::CaughtUp);
    broker.send(LifecycleEvent::Ready);
    await_report(&reports, &LifecycleAction::Unfenced);
    let rounds = scaled(1_u32);
    for _ in 0..rounds {
        let mut killed = BTreeSet::new();
        while killed.len() < 3 {
            let (leader, epoch, applied) = {
                let seen = seen.lock().expect("no panic");
                (
                    seen.leader.as_ref().and_then(|leader| leader.node).expect("a voter"),
                    seen.epoch,
                    seen.applied,
                )
            };
            let next = (1..4).find(|id| !killed.contains(id)).expect("one is left");
            let victim = if killed.contains(&leader) { next } else { leader };
            killed.insert(victim);
            cluster.node_mut(victim).kill();
            await_some("records after the death of a controller", LIMIT, || {
                let seen = seen.lock().expect("no panic");
                assert_eq!(seen.stopped, None);
                (seen.applied > applied + 2 && (victim != leader || seen.epoch > epoch)).then_some(())
            });
            cluster.node_mut(victim).start();
        }
    }
    // A refusal while there is no active controller is in order; nothing else may have happened.
    let said: Vec<LifecycleAction> = reports.try_iter().collect();
    assert!(said.iter().all(|said| matches!(said, LifecycleAction::Refused { code: 41, .. })), "{said:?}");
    broker.send(LifecycleEvent::Stop);
    await_report(&reports, &LifecycleAction::Shutdown(true));
    cluster.assert_no_errors();
}
