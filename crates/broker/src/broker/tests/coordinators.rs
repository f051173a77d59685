//! Coordinators, the partitions they live in, and the disk below them.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_coordination::group::request::{CommitPartition, CommitRequest, CommitTopic, FetchRequest};
use levada_coordination::group::{GroupError, partition_for};
use levada_coordination::txn::records::{Record, Value};
use levada_coordination::txn::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, Protocol};
use levada_coordination::txn::{TopicPartition, TxnError, TxnState};
use levada_log::crash_disk::Recorder;
use levada_metadata::controller::{MorePartitions, NewTopic, TopicKey};
use levada_process::blocking::keep_free;
use levada_process::clock::now_ms;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;

use super::crash::directory;
use super::crash::life::{Incarnation, Ways};
use super::upkeep::lines_with;
use crate::quota::MutationQuota;
use crate::replica::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::transaction::Membership;

const LONG: Duration = Duration::from_secs(20);
const ID: &str = "tx";

/// A broker that has producer ids, and ends transactions.
fn begin(disk: &Arc<Recorder>, home: &tempfile::TempDir, ways: Ways) -> Incarnation {
    let now = Incarnation::begin(disk.clone(), home.path(), ways).unwrap();
    now.run_transactions();
    now
}

fn create(now: &Incarnation, name: &str, partitions: i32) {
    let topic = NewTopic { name: name.to_owned(), partitions, replication_factor: 1, ..NewTopic::default() };
    assert!(
        now.run(now.broker.controller().create_topics(vec![topic], MutationQuota::default(), false))
            .pop()
            .unwrap()
            .is_ok()
    );
}

fn delete(now: &Incarnation, name: &str) {
    let key = TopicKey { name: Some(name.to_owned()), topic_id: Uuid::ZERO };
    assert!(
        now.run(now.broker.controller().delete_topics(vec![key], MutationQuota::default()))
            .pop()
            .unwrap()
            .1
            .is_ok()
    );
}

fn commit(now: &Incarnation, group_id: &str, offset: i64) -> Result<(), GroupError> {
    let partitions = vec![CommitPartition { index: 0, offset, leader_epoch: -1, metadata: None }];
    let request = CommitRequest {
        api_version: 8,
        group_id: group_id.to_owned(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        retention_ms: None,
        topics: vec![CommitTopic { name: "t".to_owned(), topic_id: Uuid::ZERO, partitions }],
    };
    let committed = now.run(now.broker.coordinators().groups().ask(request))?;
    committed[0].partitions[0].1.map_or(Ok(()), Err)
}

/// The offsets that the group has committed.
fn committed(now: &Incarnation, group_id: &str) -> Result<Vec<i64>, GroupError> {
    let request = FetchRequest {
        group_id: group_id.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    };
    let fetched = now.run(now.broker.coordinators().groups().ask(request))?;
    Ok(fetched.iter().flat_map(|topic| &topic.partitions).map(|one| one.offset).collect())
}

fn init(now: &Incarnation) -> Result<ProducerIdentity, TxnError> {
    let request = InitRequest {
        transactional_id: ID.to_owned(),
        timeout_ms: 60_000,
        expected: None,
        enable_two_phase_commit: false,
        keep_prepared: false,
    };
    now.run(now.broker.coordinators().txns().ask(request))
}

fn add(now: &Incarnation, ProducerIdentity { producer_id, producer_epoch }: ProducerIdentity, topic: &str) {
    let partitions = vec![TopicPartition { topic: topic.to_owned(), partition: 0 }];
    let (transactional_id, protocol) = (ID.to_owned(), Protocol::Classic);
    let request = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
    now.run(now.broker.coordinators().txns().ask(request)).unwrap();
}

fn end(now: &Incarnation, ProducerIdentity { producer_id, producer_epoch }: ProducerIdentity) {
    let (transactional_id, protocol) = (ID.to_owned(), Protocol::Classic);
    let request = EndRequest { transactional_id, producer_id, producer_epoch, protocol, commit: true };
    now.run(now.broker.coordinators().txns().ask(request)).unwrap();
}

fn state(now: &Incarnation) -> Option<TxnState> {
    now.broker
        .coordinators()
        .txns()
        .view(ID, |one| one.describe(ID))
        .and_then(Result::ok)
        .map(|described| described.state)
}

/// Does everything else meanwhile.
fn wait_until(now: &Incarnation, what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(now.run(async { tokio::time::timeout(LONG, waiting).await }).is_ok(), "not reached: {what}");
}

#[test]
fn topic_partitions_determine_number_of_coordinators() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::default());
    let groups: Vec<String> = (0..20).map(|at| format!("g{at}")).collect();
    assert_eq!(now.broker.coordinators().groups().partition_of("g0"), None);
    // The configuration says 2 and 1.
    create(&now, OFFSETS_TOPIC, 7);
    create(&now, TRANSACTIONS_TOPIC, 3);
    for (offset, group) in (0..).zip(&groups) {
        assert_eq!(now.broker.coordinators().groups().partition_of(group), Some(partition_for(group, 7)));
        assert_eq!(now.broker.coordinators().txns().partition_of(group), Some(partition_for(group, 3)));
        assert_eq!(commit(&now, group, offset), Ok(()));
    }
    let owner = init(&now).unwrap();
    now.close();
    let now = begin(&disk, &home, Ways::default());
    for (offset, group) in (0..).zip(&groups) {
        assert_eq!(committed(&now, group), Ok(vec![offset]), "{group}");
    }
    let next = ProducerIdentity { producer_epoch: owner.producer_epoch + 1, ..owner };
    assert_eq!(init(&now), Ok(next), "the producer before is fenced");
    let more = MorePartitions { topic: OFFSETS_TOPIC.to_owned(), count: 9, assignments: None };
    assert!(
        now.run(now.broker.controller().create_partitions(vec![more], MutationQuota::default(), false))
            .pop()
            .unwrap()
            .1
            .is_ok()
    );
    for group in &groups {
        assert_eq!(now.broker.coordinators().groups().partition_of(group), Some(partition_for(group, 9)));
        assert_eq!(commit(&now, group, 100), Ok(()));
        assert_eq!(committed(&now, group), Ok(vec![100]));
    }
}

#[test]
fn deleted_topic_removes_its_coordinators() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::default());
    create(&now, OFFSETS_TOPIC, 7);
    create(&now, TRANSACTIONS_TOPIC, 3);
    commit(&now, "g", 5).unwrap();
    init(&now).unwrap();
    delete(&now, OFFSETS_TOPIC);
    delete(&now, TRANSACTIONS_TOPIC);
    assert_eq!(committed(&now, "g"), Err(GroupError::NotCoordinator));
    assert_eq!(commit(&now, "g", 6), Err(GroupError::NotCoordinator));
    assert_eq!(init(&now), Err(TxnError::NotCoordinator));
    assert_eq!(now.broker.coordinators().groups().view_all(|_| ()).len(), 0);
    for topic in [OFFSETS_TOPIC, TRANSACTIONS_TOPIC] {
        assert!(now.run(now.broker.controller().ensure_internal_topic(topic)).is_ok());
    }
    assert_eq!(
        now.broker.coordinators().groups().partition_of("g"),
        Some(partition_for("g", 2)),
        "as configured"
    );
    assert_eq!(committed(&now, "g"), Ok(vec![]));
    assert_eq!(commit(&now, "g", 7), Ok(()));
    assert_eq!(committed(&now, "g"), Ok(vec![7]));
    assert_eq!(init(&now).map(|owner| owner.producer_epoch), Ok(0));
}

#[test]
fn recovery_panic_costs_one_partition_until_retry() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::default());
    now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    let group_in = |index| (0..).map(|at| format!("g{at}")).find(|id| partition_for(id, 2) == index).unwrap();
    let (lost, kept) = (group_in(0), group_in(1));
    commit(&now, &lost, 1).unwrap();
    commit(&now, &kept, 2).unwrap();
    drop(now);
    disk.break_down(Some("__consumer_offsets-0"));
    let now = begin(&disk, &home, Ways::default());
    assert!(now.broker.replicas().recovery().wait(LONG));
    assert_eq!(now.broker.replicas().recovery().progress().left, 0);
    let offline = now.broker.replicas().partition(OFFSETS_TOPIC, 0).err();
    assert_eq!(offline, Some(ErrorCode::KafkaStorageError));
    // Groups of the other partition do not notice.
    assert!(now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).is_ok());
    assert!(
        !now.broker.replicas().may_serve(OFFSETS_TOPIC, 0)
            && now.broker.replicas().may_serve(OFFSETS_TOPIC, 1)
    );
    assert_eq!(committed(&now, &kept), Ok(vec![2]));
    assert_eq!(committed(&now, &lost), Err(GroupError::NotCoordinator));
    disk.break_down(None);
    now.run(now.broker.keep_house());
    assert!(now.broker.replicas().may_serve(OFFSETS_TOPIC, 0));
    assert_eq!(committed(&now, &lost), Ok(vec![1]));
}

#[test]
fn recovered_coordinator_completes_transaction_durably() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let durable = Ways::durable();
    let now = begin(&disk, &home, durable);
    now.run(now.broker.controller().ensure_internal_topic(TRANSACTIONS_TOPIC)).unwrap();
    // The end of a transaction without partitions was decided, and the broker died before it was
    // completed.
    let decided = Value {
        producer_id: 7,
        previous_producer_id: -1,
        next_producer_id: -1,
        producer_epoch: 1,
        timeout_ms: 60_000,
        state: TxnState::PrepareAbort,
        topics: Some(Vec::new()),
        last_update_ms: now_ms(),
        start_ms: now_ms(),
        client_version: 2,
    };
    let record = Record::Transaction(ID.to_owned(), Some(decided)).encode().unwrap();
    let mut batch = Builder::new();
    batch.push(now_ms(), Some(&record.key), record.value.as_deref());
    let append = Append::coordinator(batch.build().unwrap());
    let partition = now.broker.replicas().partition(TRANSACTIONS_TOPIC, 0).unwrap();
    now.run(async { partition.append(append, now_ms()).wait().await }).unwrap();
    drop((now, partition));
    let now = begin(&disk, &home, durable);
    assert!(now.broker.replicas().recovery().wait(LONG), "the recovery has ended");
    wait_until(&now, "the completion", || state(&now) == Some(TxnState::CompleteAbort));
    assert_eq!(init(&now), Ok(ProducerIdentity { producer_id: 7, producer_epoch: 2 }));
}

#[test]
fn transaction_end_completes_after_full_disk_clears() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::default());
    now.run(now.broker.controller().ensure_internal_topic(TRANSACTIONS_TOPIC)).unwrap();
    create(&now, "t", 1);
    let owner = init(&now).unwrap();
    add(&now, owner, "t");
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    // The decision still fits; the marker has to wait until nothing else does.
    let held = now.run(partition.transactions().read());
    end(&now, owner);
    disk.fill(Some("__transaction_state-0"));
    drop(held);
    wait_until(&now, "a completion that does not fit", || disk.refused() > 0);
    assert_eq!(init(&now), Err(TxnError::ConcurrentTransactions));
    disk.fill(None);
    wait_until(&now, "the completion", || state(&now) == Some(TxnState::CompleteCommit));
    let next = ProducerIdentity { producer_epoch: owner.producer_epoch + 1, ..owner };
    disk.fill(Some("__transaction_state-0"));
    assert_eq!(init(&now), Err(TxnError::CoordinatorNotAvailable));
    disk.fill(None);
    assert_eq!(init(&now), Ok(next));
}

fn data(producer: Option<(ProducerIdentity, i32)>) -> Append {
    let mut batch = Builder::new();
    if let Some((ProducerIdentity { producer_id, producer_epoch }, sequence)) = producer {
        batch = batch.producer(producer_id, producer_epoch, sequence).transactional();
    }
    batch.push(now_ms(), None, Some(b"value"));
    Append::client(batch.build().unwrap())
}

#[test]
fn batch_cannot_follow_queued_marker_of_its_transaction() {
    let home = directory();
    let now = begin(&Arc::new(Recorder::new(home.path())), &home, Ways::default());
    now.run(now.broker.controller().ensure_internal_topic(TRANSACTIONS_TOPIC)).unwrap();
    create(&now, "t", 1);
    let owner = init(&now).unwrap();
    add(&now, owner, "t");
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    let claim = Membership { transactional_id: ID, producer: owner, protocol: Protocol::Classic };
    let (broker, target) = (&now.broker, &partition);
    let append = |sequence| {
        let batch = data(Some((owner, sequence)));
        async move {
            let submitted = broker.transactions().append(target, claim, batch).await?;
            Ok::<_, TxnError>(submitted.wait().await.unwrap().base_offset)
        }
    };
    assert_eq!(now.run(append(0)), Ok(0));
    let ((held, is_held), (release, released)) = (channel(), channel());
    std::thread::scope(|scope| {
        let partition = &partition;
        // A slow write of another thread: batches that arrive meanwhile are queued.
        scope.spawn(move || {
            partition.lane().with_writer(|_| {
                held.send(()).unwrap();
                released.recv().unwrap();
            })
        });
        is_held.recv().unwrap();
        scope.spawn(move || drop(partition.append(data(None), now_ms())));
        while !partition.lane().is_busy() {
            std::thread::yield_now();
        }
        end(&now, owner);
        let is_kept_out = || partition.transactions().try_read().is_err();
        let waiting = async {
            // Enough turns for a task that would release the lock immediately.
            let mut turns = 0;
            while turns < 100 {
                turns = if is_kept_out() { turns + 1 } else { 0 };
                tokio::task::yield_now().await;
            }
        };
        let kept_out = now.run(async { tokio::time::timeout(LONG, waiting).await });
        release.send(()).unwrap();
        assert!(kept_out.is_ok(), "the marker keeps batches out for as long as it is queued");
    });
    wait_until(&now, "the marker", || state(&now) == Some(TxnState::CompleteCommit));
    assert_eq!(now.run(append(1)), Err(TxnError::TransactionAbortable));
    let log = partition.log();
    assert_eq!((log.last_stable(), log.log_end()), (3, 3), "a batch, another producer's, the marker");
}

#[test]
fn coordinator_resigns_during_stuck_write() {
    let home = directory();
    let now = begin(&Arc::new(Recorder::new(home.path())), &home, Ways::default());
    now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    assert_eq!(commit(&now, "g", 1), Ok(()));
    let index = partition_for("g", 2);
    let partition = now.broker.replicas().partition(OFFSETS_TOPIC, index).unwrap();
    let coordinators = now.broker.coordinators();
    let groups = coordinators.groups();
    let ((held, is_held), (release, released)) = (channel(), channel());
    std::thread::scope(|scope| {
        let partition = &partition;
        scope.spawn(move || {
            partition.lane().with_writer(|_| {
                held.send(()).unwrap();
                let is_released = released.recv_timeout(LONG).is_ok();
                assert!(is_released, "the slot is locked during the write");
            })
        });
        is_held.recv().unwrap();
        scope.spawn(move || {
            while !partition.lane().is_busy() {
                std::thread::yield_now();
            }
            assert_eq!(groups.view("g", |_| ()), Some(()));
            coordinators.resign_at(OFFSETS_TOPIC, index);
            // The writer may have given up.
            let _ = release.send(());
        });
        assert_eq!(commit(&now, "g", 2), Err(GroupError::NotCoordinator));
    });
    assert_eq!(groups.view("g", |_| ()), None);
}

#[test]
fn simultaneous_resignations_log_one_line() {
    let home = directory();
    let now = begin(&Arc::new(Recorder::new(home.path())), &home, Ways::default());
    now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    assert_eq!(commit(&now, "g", 1), Ok(()));
    let coordinators = now.broker.coordinators();
    let (lines, _guard) = lines_with("group coordinators resigned");
    (0..2).for_each(|index| coordinators.resign_at(OFFSETS_TOPIC, index));
    assert_eq!(*lines.lock(), 0, "the publication of metadata tells of all of them");
    coordinators.tell_resigned();
    coordinators.tell_resigned();
    assert_eq!(*lines.lock(), 1);
}

#[test]
fn nonblocking_thread_leaves_writes_to_another() {
    let home = directory();
    let now = begin(&Arc::new(Recorder::new(home.path())), &home, Ways::default());
    create(&now, "t", 1);
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let append_at_once = || {
        keep_free();
        let _context = runtime.enter();
        partition.append(data(None), now_ms())
    };
    let submitted = partition
        .lane()
        .with_writer(|_| std::thread::scope(|scope| scope.spawn(append_at_once).join().unwrap()));
    let wait = async { tokio::time::timeout(LONG, submitted.unwrap().wait()).await };
    assert_eq!(runtime.block_on(wait).unwrap().unwrap().base_offset, 0);
}

#[test]
fn group_coordinator_with_lost_log_serves_nothing() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::durable());
    now.run(now.broker.controller().ensure_internal_topic(OFFSETS_TOPIC)).unwrap();
    let group = (0..).map(|at| format!("g{at}")).find(|id| partition_for(id, 2) == 0).unwrap();
    assert_eq!(commit(&now, &group, 1), Ok(()));
    disk.break_down(Some("__consumer_offsets-0"));
    // Written, but not known to be on the device.
    assert_eq!(commit(&now, &group, 2), Err(GroupError::NotCoordinator));
    assert_eq!(committed(&now, &group), Err(GroupError::NotCoordinator));
    assert_eq!(now.broker.coordinators().groups().view(&group, |_| ()), None);
    disk.break_down(None);
    drop(now);
    let now = begin(&disk, &home, Ways::durable());
    assert!(now.broker.replicas().recovery().wait(LONG), "the recovery has ended");
    assert_eq!(committed(&now, &group), Ok(vec![2]));
}

#[test]
fn a_panicking_sync_fails_its_waiters() {
    let home = directory();
    let disk = Arc::new(Recorder::new(home.path()));
    let now = begin(&disk, &home, Ways::durable());
    create(&now, "t", 1);
    let partition = now.broker.replicas().partition("t", 0).unwrap();
    let append =
        || now.run(async { tokio::time::timeout(LONG, partition.append(data(None), now_ms()).wait()).await });
    assert!(append().unwrap().is_ok());
    disk.break_down(Some("t-0"));
    for _ in 0..2 {
        assert!(append().expect("an answer, though it is a refusal").is_err());
    }
}
