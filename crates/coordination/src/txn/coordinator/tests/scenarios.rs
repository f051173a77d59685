//! Case by case: what a client, a clock, a failing log and a restart may do to a transaction.

use bytes::Bytes;
use levada_base::Now;
use levada_base::batch::{BatchView, Builder};

use crate::machine::{Machine, PersistFailure, ReplayFault};
use crate::txn::config::TxnConfig;
use crate::txn::coordinator::{Coordinator, ListFilter};
use crate::txn::error::TxnError;
use crate::txn::event::{Action, Event, MarkerResult, Outcome, Ticket};
use crate::txn::request::{EndRequest, InitRequest, ProducerIdentity, Protocol};
use crate::txn::tests::rig::{ID, Rig, add, at, end, init, init_from, verify};
use crate::txn::transaction::TxnState;

use Protocol::{Classic, EpochBump};

fn rig() -> Rig {
    Rig::new(TxnConfig::default())
}

fn next(owner: ProducerIdentity) -> ProducerIdentity {
    ProducerIdentity { producer_epoch: owner.producer_epoch + 1, ..owner }
}

#[test]
fn invalid_transaction_requests_are_refused() {
    let valid = init(ID);
    let cases = [
        (InitRequest { transactional_id: String::new(), ..valid.clone() }, TxnError::InvalidRequest),
        (InitRequest { timeout_ms: 0, ..valid.clone() }, TxnError::InvalidTransactionTimeout),
        (InitRequest { timeout_ms: -1, ..valid.clone() }, TxnError::InvalidTransactionTimeout),
        (InitRequest { timeout_ms: 900_001, ..valid.clone() }, TxnError::InvalidTransactionTimeout),
        (InitRequest { keep_prepared: true, ..valid.clone() }, TxnError::UnsupportedVersion),
        (
            InitRequest { enable_two_phase_commit: true, timeout_ms: 0, ..valid },
            TxnError::TransactionalIdAuthorizationFailed,
        ),
    ];
    for (request, error) in cases {
        assert_eq!(rig().ask(request.clone()), Err(error), "{request:?}");
    }
    let mut rig = rig();
    let mut nameless = end(ProducerIdentity::NONE, Classic, true);
    nameless.transactional_id.clear();
    assert_eq!(rig.ask(nameless), Err(TxnError::InvalidRequest));
    assert_eq!(rig.log, []);
}

#[test]
fn a_commit_reaches_every_partition_and_the_group() {
    for (protocol, epoch) in [(Classic, 0), (EpochBump, 1)] {
        let mut rig = rig();
        let owner = rig.init();
        rig.ask(add(owner, protocol, &["t-0", "t-1"])).unwrap();
        rig.ask(add(owner, protocol, &["__consumer_offsets-7"])).unwrap();
        let after = rig.ask(end(owner, protocol, true)).unwrap();
        let expected = if protocol == Classic { ProducerIdentity::NONE } else { next(owner) };
        assert_eq!(after, expected);
        for partition in ["t-0", "t-1", "__consumer_offsets-7"] {
            assert_eq!(rig.markers_of(partition), [(owner.producer_id, epoch, true)], "{protocol:?}");
        }
        assert_eq!(rig.state(), TxnState::CompleteCommit);
        assert_eq!(rig.coordinator.describe(ID).unwrap().partitions, []);
    }
}

#[test]
fn end_txn_response_waits_for_the_logged_decision() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.hold_appends = true;
    rig.hold_markers = true;
    let ticket = rig.send(end(owner, EpochBump, true));
    assert_eq!((rig.answer::<EndRequest>(ticket), rig.held_markers.len()), (None, 0));
    rig.finish_append(None);
    assert_eq!(rig.answer::<EndRequest>(ticket), Some(Ok(next(owner))));
    assert_eq!((rig.state(), rig.held_markers.len()), (TxnState::PrepareCommit, 1));
    rig.finish_markers(|_| MarkerResult::Written);
    assert_eq!(rig.state(), TxnState::PrepareCommit);
    rig.finish_append(None);
    assert_eq!(rig.state(), TxnState::CompleteCommit);
}

#[test]
fn requests_during_transaction_end_are_retriable() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.hold_markers = true;
    let after = rig.ask(end(owner, EpochBump, true)).unwrap();
    let busy = Err(TxnError::ConcurrentTransactions);
    assert_eq!(rig.ask(init(ID)), busy);
    assert_eq!(rig.ask(init_from(after)), busy);
    assert_eq!(rig.ask(add(after, EpochBump, &["t-0"])), Err(TxnError::ConcurrentTransactions));
    assert_eq!(rig.ask(end(owner, EpochBump, true)), busy);
    assert_eq!(rig.ask(end(after, EpochBump, false)), busy);
    assert_eq!(rig.ask(verify(after, &["t-0"])), Err(TxnError::ConcurrentTransactions));
    rig.settle();
    rig.begin(after, &["t-0"]);
    assert_eq!(
        rig.ask(verify(after, &["t-0", "t-1"])).unwrap(),
        [None, Some(TxnError::TransactionAbortable)]
    );
}

#[test]
fn concurrent_init_producer_id_request_is_refused() {
    let mut rig = rig();
    rig.hold_appends = true;
    let first = rig.send(init(ID));
    assert_eq!(rig.ask(init(ID)), Err(TxnError::ConcurrentTransactions));
    rig.finish_append(None);
    let owner = rig.answer::<InitRequest>(first).unwrap().unwrap();
    assert_eq!(owner.producer_epoch, 0);
}

#[test]
fn new_producer_aborts_transaction_of_old_one() {
    let mut rig = rig();
    let old = rig.init();
    rig.begin(old, &["t-0", "u-3"]);
    assert_eq!(rig.ask(init(ID)), Err(TxnError::ConcurrentTransactions));
    assert_eq!(rig.state(), TxnState::CompleteAbort);
    assert_eq!(rig.markers_of("u-3"), [(old.producer_id, 1, false)]);
    let new = rig.init();
    assert_eq!((new.producer_id, new.producer_epoch), (old.producer_id, 2));
    assert_eq!(rig.ask(add(old, EpochBump, &["t-0"])), Err(TxnError::ProducerFenced));
    for protocol in [Classic, EpochBump] {
        assert_eq!(rig.ask(end(old, protocol, true)), Err(TxnError::ProducerFenced));
    }
    assert_eq!(rig.ask(init_from(old)), Err(TxnError::ProducerFenced));
    assert_eq!(TxnError::ProducerFenced.before_fencing(), TxnError::InvalidProducerEpoch);
}

#[test]
fn timed_out_transaction_is_aborted_and_producer_fenced() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.pass(59_000);
    assert_eq!(rig.state(), TxnState::Ongoing);
    rig.pass(11_000);
    assert_eq!(rig.state(), TxnState::CompleteAbort);
    assert_eq!(rig.markers_of("t-0"), [(owner.producer_id, 1, false)]);
    assert_eq!(rig.ask(add(owner, Classic, &["t-0"])), Err(TxnError::ProducerFenced));
    assert_eq!(rig.ask(end(owner, Classic, true)), Err(TxnError::ProducerFenced));
    assert_eq!(rig.ask(end(owner, EpochBump, true)), Err(TxnError::InvalidTxnState));
    rig.pass(10_000);
    // The clock has nothing to watch any more but the age of the id.
    assert_eq!(rig.coordinator.deadline(), Some(1_000_000 + 3_600_000));
}

#[test]
fn failed_abort_write_is_retried_at_next_check() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.hold_appends = true;
    rig.pass(70_001);
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    assert_eq!((rig.state(), rig.held_appends.len()), (TxnState::Ongoing, 0));
    rig.hold_appends = false;
    rig.pass(10_000);
    assert_eq!(rig.state(), TxnState::CompleteAbort);
    assert_eq!(rig.markers_of("t-0"), [(owner.producer_id, 1, false)]);
}

#[test]
fn unlogged_transaction_decision_has_no_effect() {
    let cases = [
        (PersistFailure::Unavailable, TxnError::CoordinatorNotAvailable),
        (PersistFailure::TooLarge, TxnError::UnknownServerError),
    ];
    for (failure, error) in cases {
        let mut rig = rig();
        let owner = rig.init();
        rig.begin(owner, &["t-0"]);
        rig.hold_appends = true;
        let ticket = rig.send(end(owner, EpochBump, true));
        rig.finish_append(Some(failure));
        assert_eq!(rig.answer::<EndRequest>(ticket), Some(Err(error)));
        assert_eq!((rig.state(), rig.held_markers.len()), (TxnState::Ongoing, 0));
        rig.hold_appends = false;
        assert_eq!(rig.ask(end(owner, EpochBump, false)), Ok(next(owner)));
        assert_eq!(rig.markers_of("t-0"), [(owner.producer_id, 1, false)]);
    }
}

#[test]
fn markers_are_retried_until_written() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0", "t-1", "gone-0"]);
    rig.hold_markers = true;
    rig.ask(end(owner, EpochBump, true)).unwrap();
    let results = |partition: &crate::txn::TopicPartition| match partition.topic.as_str() {
        "gone" => MarkerResult::Gone,
        _ if partition.partition == 0 => MarkerResult::Failed,
        _ => MarkerResult::Written,
    };
    rig.finish_markers(results);
    assert_eq!(rig.coordinator.describe(ID).unwrap().partitions, [at("t-0")]);
    // A partition without its marker is not taken for one that hangs.
    let unfinished = |id: i64| rig.coordinator.unfinished(&[id].into()).unwrap();
    assert_eq!(unfinished(owner.producer_id), [(owner.producer_id, at("t-0"))]);
    assert_eq!(unfinished(owner.producer_id + 1), []);
    assert_eq!(rig.held_markers.len(), 0);
    rig.pass(100);
    let (_, markers) = rig.held_markers.front().expect("another try");
    assert_eq!(markers.partitions, [at("t-0")]);
    rig.settle();
    assert_eq!(rig.state(), TxnState::CompleteCommit);
    assert_eq!((rig.markers_of("t-0").len(), rig.markers_of("t-1").len()), (1, 1));
    assert_eq!(rig.markers_of("gone-0"), []);
}

#[test]
fn failed_transaction_completion_write_is_retried() {
    for failure in [PersistFailure::Unavailable, PersistFailure::TooLarge] {
        let mut rig = rig();
        let owner = rig.init();
        rig.begin(owner, &["t-0"]);
        rig.hold_appends = true;
        rig.send(end(owner, Classic, false));
        rig.finish_append(None);
        rig.finish_append(Some(failure));
        assert_eq!(rig.state(), TxnState::PrepareAbort);
        rig.hold_appends = false;
        rig.pass(100);
        assert_eq!(rig.state(), TxnState::CompleteAbort);
        assert_eq!(rig.markers_of("t-0").len(), 1);
    }
}

#[test]
fn coordinator_stops_after_disk_failure_and_log_decides() {
    for is_stored in [true, false] {
        let mut rig = rig();
        let owner = rig.init();
        rig.begin(owner, &["t-0"]);
        rig.hold_appends = true;
        let first = rig.send(end(owner, EpochBump, true));
        let second = rig.send(init("other"));
        assert!(rig.lose_appends(is_stored));
        assert_eq!(rig.answer::<EndRequest>(first), Some(Err(TxnError::NotCoordinator)));
        assert_eq!(rig.answer::<InitRequest>(second), Some(Err(TxnError::NotCoordinator)));
        assert_eq!(rig.ask(init(ID)), Err(TxnError::NotCoordinator));
        assert_eq!((rig.held_markers.len(), rig.coordinator.deadline()), (0, None));
        rig.hold_appends = false;
        rig.restart();
        let state = if is_stored { TxnState::CompleteCommit } else { TxnState::Ongoing };
        assert_eq!(rig.state(), state);
    }
}

#[test]
fn completion_lost_with_disk_resumes_on_next_load() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.hold_appends = true;
    rig.send(end(owner, Classic, true));
    rig.finish_append(None);
    assert!(rig.lose_appends(false));
    assert_eq!(rig.ask(init(ID)), Err(TxnError::NotCoordinator));
    rig.hold_appends = false;
    rig.restart();
    assert_eq!(rig.state(), TxnState::CompleteCommit);
}

#[test]
fn failed_transactional_id_write_leaves_no_state() {
    let mut rig = rig();
    let long = "x".repeat(40_000);
    assert_eq!(rig.ask(init(&long)), Err(TxnError::UnknownServerError));
    rig.hold_appends = true;
    let ticket = rig.send(init(ID));
    rig.finish_append(Some(PersistFailure::Unavailable));
    assert_eq!(rig.answer::<InitRequest>(ticket), Some(Err(TxnError::CoordinatorNotAvailable)));
    let all = ListFilter { longer_than_ms: -1, ..ListFilter::default() };
    assert_eq!(rig.coordinator.list(&all, 0).unwrap().transactions, []);
    assert!(rig.log.is_empty());
}

#[test]
fn transaction_decision_survives_restart_with_same_epoch() {
    for commit in [true, false] {
        let mut rig = rig();
        let owner = rig.init();
        rig.begin(owner, &["t-0", "t-1"]);
        rig.hold_markers = true;
        rig.ask(end(owner, EpochBump, commit)).unwrap();
        rig.hold_markers = false;
        rig.restart();
        for partition in ["t-0", "t-1"] {
            assert_eq!(rig.markers_of(partition), [(owner.producer_id, 1, commit)]);
        }
        // The answer was lost; asking again gives the same one.
        assert_eq!(rig.ask(end(owner, EpochBump, commit)), Ok(next(owner)));
        assert_eq!(rig.ask(end(owner, EpochBump, !commit)), Err(TxnError::InvalidTxnState));
    }
}

#[test]
fn an_open_transaction_survives_a_restart() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.restart();
    assert_eq!(rig.state(), TxnState::Ongoing);
    rig.pass(70_001);
    assert_eq!(rig.state(), TxnState::CompleteAbort);
}

#[test]
fn exhausted_producer_epochs_lead_to_new_producer_id() {
    let mut rig = rig();
    let mut owner = rig.init();
    while owner.producer_epoch < i16::MAX - 1 {
        owner = rig.init();
    }
    let ids = rig.next_producer_id;
    rig.begin(owner, &["t-0"]);
    let after = rig.ask(end(owner, EpochBump, true)).unwrap();
    assert_eq!(after, ProducerIdentity { producer_id: ids + 1, producer_epoch: 0 });
    assert_eq!(rig.markers_of("t-0"), [(owner.producer_id, i16::MAX, true)]);
    assert_eq!(rig.ask(end(owner, EpochBump, true)), Ok(after));
    assert_eq!(rig.init(), next(after));
}

#[test]
fn requests_waiting_for_producer_id_continue_or_fail() {
    let mut rig = rig();
    rig.hold_ids = true;
    let tickets: Vec<Ticket> = ["x", "x", "y"].iter().map(|id| rig.send(init(id))).collect();
    assert_eq!(rig.held_ids, 3);
    rig.finish_id(None);
    rig.finish_id(None);
    rig.finish_id(Some(TxnError::CoordinatorLoadInProgress));
    let answers: Vec<_> = tickets.iter().map(|ticket| rig.answer::<InitRequest>(*ticket).unwrap()).collect();
    let first = ProducerIdentity { producer_id: 101, producer_epoch: 0 };
    // The second has found the id taken care of and left its producer id to others.
    assert_eq!(answers, [Ok(first), Ok(next(first)), Err(TxnError::CoordinatorLoadInProgress)]);
    assert_eq!(rig.ask(init("y")), Ok(ProducerIdentity { producer_id: 102, producer_epoch: 0 }));
    assert_eq!(rig.held_ids, 0);
}

#[test]
fn unused_transactional_id_expires() {
    let config = TxnConfig { id_expiration_ms: 10_000_000, ..TxnConfig::default() };
    let mut rig = Rig::new(config);
    let owner = rig.init();
    rig.ask(init("other")).unwrap();
    rig.pass(7_200_000);
    rig.ask(end(owner, EpochBump, false)).unwrap();
    rig.hold_appends = true;
    rig.pass(3_600_001);
    rig.finish_append(Some(PersistFailure::Unavailable));
    assert!(rig.coordinator.describe("other").is_ok());
    rig.hold_appends = false;
    rig.pass(3_600_000);
    assert_eq!(rig.coordinator.describe("other").unwrap_err(), TxnError::TransactionalIdNotFound);
    assert_eq!(rig.log.last().unwrap().value, None);
    rig.pass(20_000_000);
    assert_eq!(rig.coordinator.describe(ID).unwrap_err(), TxnError::TransactionalIdNotFound);
    assert_eq!(rig.coordinator.deadline(), None);
    rig.restart();
    assert_eq!(rig.coordinator.list(&ListFilter::default(), 0).unwrap().transactions, []);
}

#[test]
fn transaction_views_obey_their_filters() {
    let mut rig = rig();
    for id in ["alpha", "beta"] {
        rig.ask(init(id)).unwrap();
    }
    let owner = rig.init();
    rig.begin(owner, &["t-1", "t-0"]);
    rig.now_ms += 500;
    let list = |filter: ListFilter| {
        let listing = rig.coordinator.list(&filter, rig.now_ms).unwrap();
        let ids = listing.transactions.into_iter().map(|listed| listed.transactional_id);
        (ids.collect::<Vec<_>>(), listing.unknown_states)
    };
    let all = ListFilter { longer_than_ms: -1, ..ListFilter::default() };
    assert_eq!(list(all.clone()).0, ["alpha", "beta", ID]);
    let states = |names: &[&str]| ListFilter {
        states: names.iter().map(|name| (*name).to_owned()).collect(),
        ..all.clone()
    };
    assert_eq!(list(states(&["Ongoing"])).0, [ID]);
    assert_eq!(list(states(&["Dead", "nonsense"])), (vec![], vec!["nonsense".to_owned()]));
    assert_eq!(list(ListFilter { producer_ids: vec![owner.producer_id], ..all.clone() }).0, [ID]);
    // An id without a transaction counts as running since one millisecond before 1970, as in Kafka.
    assert_eq!(list(ListFilter { longer_than_ms: 500, ..all.clone() }).0, ["alpha", "beta"]);
    assert_eq!(list(ListFilter { longer_than_ms: 499, ..all.clone() }).0, ["alpha", "beta", ID]);
    let described = rig.coordinator.describe(ID).unwrap();
    assert_eq!((described.owner, described.state), (owner, TxnState::Ongoing));
    assert_eq!((described.start_ms, described.timeout_ms), (1_000_000, 60_000));
    assert_eq!(described.partitions, [at("t-0"), at("t-1")]);
    assert_eq!(rig.coordinator.describe("").unwrap_err(), TxnError::InvalidRequest);
}

#[test]
fn coordinator_unload_refuses_all_waiting_requests() {
    let mut rig = rig();
    let owner = rig.init();
    rig.begin(owner, &["t-0"]);
    rig.hold_appends = true;
    rig.hold_ids = true;
    let ending = rig.send(end(owner, EpochBump, true));
    let held = rig.send(init("new"));
    rig.step(Event::Unload);
    for (ticket, answer) in
        [(ending, rig.answer::<EndRequest>(ending)), (held, rig.answer::<InitRequest>(held))]
    {
        assert_eq!(answer, Some(Err(TxnError::NotCoordinator)), "{ticket:?}");
    }
    assert!(rig.waiting.is_empty());
    // A late outcome has no receiver.
    rig.finish_append(None);
    rig.finish_id(None);
    assert_eq!(rig.held_markers.len(), 0);
    assert_eq!(rig.ask(init(ID)), Err(TxnError::NotCoordinator));
    assert_eq!(rig.coordinator.deadline(), None);
    assert_eq!(rig.coordinator.describe(ID).unwrap_err(), TxnError::NotCoordinator);
    assert_eq!(rig.coordinator.unfinished(&[0].into()), Err(TxnError::NotCoordinator));
}

#[test]
fn loading_coordinator_returns_retriable_error() {
    let mut coordinator = Coordinator::new(TxnConfig::default(), 0);
    let actions = coordinator.step(Event::Init(Ticket(1), init(ID)), Now::default());
    let refused = Outcome::Refused(TxnError::CoordinatorLoadInProgress);
    assert_eq!(actions, [Action::Reply(Ticket(1), refused)]);
    let loading = TxnError::CoordinatorLoadInProgress;
    assert_eq!(coordinator.list(&ListFilter::default(), 0).unwrap_err(), loading);
    assert!(coordinator.replay(Bytes::from_static(&[0]), None).is_err());
    assert!(coordinator.replay(Bytes::from_static(&[0, 9]), None).is_ok());
    assert_eq!(coordinator.step(Event::Loaded, Now::default()), []);
}

#[test]
fn transaction_load_stops_at_newer_record_versions_only() {
    let mut rig = Rig::new(TxnConfig::default());
    rig.init();
    let replay = |key: &[u8], value: &[u8]| {
        let mut batch = Builder::new();
        batch.push(0, Some(key), Some(value));
        let batch = batch.build().unwrap();
        let mut coordinator = Coordinator::new(TxnConfig::default(), 0);
        Machine::replay(&mut coordinator, &BatchView::parse(&batch).unwrap())
    };
    let key = rig.log[0].key.clone();
    assert!(matches!(replay(&key, &[0, 9]), Err(ReplayFault::Newer { offset: 0, .. })));
    assert!(replay(&[0, 9], &[0, 9]).is_ok());
    assert!(replay(&[0], &[0, 9]).is_ok(), "a damaged record is passed over");
}
