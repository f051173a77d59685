//! Operations while records are on their way to the log, and appends that fail.

use crate::machine::{PersistFailure, Ticket};
use crate::share_state::config::ShareStateConfig;
use crate::share_state::error::ShareStateError;
use crate::share_state::event::Event;
use crate::share_state::request::{
    DeletePart, InitializePart, ReadPart, StateSummary, SummaryPart, WritePart,
};
use crate::share_state::tests::rig::{Rig, batch, delete, initialize, key, read, summarize, write};

/// A rig with an initialized key, whose later appends are held.
fn rig() -> Rig {
    let mut rig = Rig::new(ShareStateConfig::default());
    rig.ask(initialize(0, 0)).unwrap();
    rig.hold_appends = true;
    rig
}

fn ack(offset: i64) -> WritePart {
    write(-1, &[batch(offset, offset, 2, 1)])
}

fn offsets(rig: &mut Rig, ticket: Ticket) -> Vec<(i64, i64)> {
    let state = rig.answer::<ReadPart>(ticket).unwrap().remove(0).unwrap();
    state.batches.iter().map(|batch| (batch.first_offset, batch.last_offset)).collect()
}

#[test]
fn share_state_write_responds_after_append() {
    let mut rig = rig();
    let ticket = rig.send(vec![ack(3)]);
    assert_eq!(rig.answer::<WritePart>(ticket), None);
    assert_eq!(rig.coordinator.batch_count(), 1);
    rig.report(0);
    assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Ok(())]));
    assert_eq!(rig.coordinator.batch_count(), 1);
}

#[test]
fn a_read_waits_for_the_write_before_it() {
    let mut rig = rig();
    rig.send(vec![ack(3)]);
    let (reading, summary) = (rig.send(vec![read(-1)]), rig.send(vec![summarize(0)]));
    assert_eq!((rig.answer::<ReadPart>(reading), rig.answer::<SummaryPart>(summary)), (None, None));
    rig.report(0);
    assert_eq!(offsets(&mut rig, reading), [(3, 3)]);
    assert!(rig.answer::<SummaryPart>(summary).is_some());
}

#[test]
fn operations_that_wait_share_the_next_append() {
    let mut rig = rig();
    let first = rig.send(vec![ack(3)]);
    let writes: Vec<Ticket> = [5, 7].into_iter().map(|offset| rig.send(vec![ack(offset)])).collect();
    let reading = rig.send(vec![read(-1)]);
    let last = rig.send(vec![ack(9)]);
    assert_eq!((rig.log.len(), rig.unreported()), (2, 1));
    rig.report(0);
    assert_eq!(rig.answer::<WritePart>(first), Some(vec![Ok(())]));
    assert_eq!((rig.log.len(), rig.unreported()), (5, 1));
    // The read was decided between two writes, and is answered with them.
    assert_eq!(rig.answer::<ReadPart>(reading), None);
    rig.report(0);
    assert_eq!(offsets(&mut rig, reading), [(3, 3), (5, 5), (7, 7)]);
    for ticket in writes.into_iter().chain([last]) {
        assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Ok(())]));
    }
    rig.hold_appends = false;
    assert_eq!(rig.state().batches.len(), 4);
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let mut rig = rig();
    let busy = rig.send(vec![ack(3)]);
    let other = rig.send(vec![InitializePart { partition: 1, ..initialize(0, 0) }]);
    assert_eq!(rig.unreported(), 2);
    // A request about both is answered when the second of them is done.
    let both = rig.send(vec![summarize(0), summarize(1), summarize(2)]);
    // Reports take effect in the order of the appends.
    rig.report(1);
    assert_eq!(rig.answer::<InitializePart>(other), None);
    rig.report(0);
    assert_eq!(rig.answer::<WritePart>(busy), Some(vec![Ok(())]));
    assert_eq!(rig.answer::<InitializePart>(other), Some(vec![Ok(())]));
    let answers = rig.answer::<SummaryPart>(both).unwrap();
    assert_eq!(answers[2], Ok(StateSummary::UNINITIALIZED));
    assert_eq!(answers[1].map(|summary| summary.start_offset), Ok(0));
}

#[test]
fn a_failed_append_changes_nothing() {
    for (failure, error) in [
        (PersistFailure::Unavailable, ShareStateError::CoordinatorNotAvailable),
        (PersistFailure::TooLarge, ShareStateError::UnknownServerError),
    ] {
        let mut rig = rig();
        let before = rig.coordinator.stored(&key(0));
        rig.send(vec![ack(1)]);
        rig.failure = Some(failure);
        let (second, reading) = (rig.send(vec![ack(2)]), rig.send(vec![read(-1)]));
        let fresh = rig.send(vec![InitializePart { partition: 1, ..initialize(0, 0) }]);
        rig.report(0);
        rig.failure = None;
        let waiting = rig.send(vec![ack(4)]);
        rig.report(0);
        rig.report(0);
        // The operations of the failed batch, the read too.
        assert_eq!(rig.answer::<WritePart>(second), Some(vec![Err(error)]));
        assert_eq!(rig.answer::<ReadPart>(reading), Some(vec![Err(error)]));
        assert_eq!(rig.answer::<InitializePart>(fresh), Some(vec![Err(error)]));
        assert_eq!(rig.coordinator.summaries().count(), 1);
        // An operation that came later is decided on the state without it.
        rig.report(0);
        assert_eq!(rig.answer::<WritePart>(waiting), Some(vec![Ok(())]));
        rig.hold_appends = false;
        assert_eq!(rig.state().batches, [batch(1, 1, 2, 1), batch(4, 4, 2, 1)]);
        assert_eq!(before.map(|state| state.batches), Some(Vec::new()));
        assert_eq!(rig.coordinator.batch_count(), 2);
        let records = rig.log.len();
        rig.restart(records);
        assert_eq!(rig.state().batches.len(), 2);
    }
}

#[test]
fn failed_first_write_creates_no_key() {
    let mut rig = Rig::new(ShareStateConfig::default());
    rig.failure = Some(PersistFailure::Unavailable);
    assert_eq!(rig.ask(initialize(0, 0)), Err(ShareStateError::CoordinatorNotAvailable));
    assert_eq!(rig.ask(read(-1)), Err(ShareStateError::UNINITIALIZED));
    assert_eq!(rig.coordinator.batch_count(), 0);
    rig.failure = None;
    rig.ask(initialize(0, 0)).unwrap();
    rig.failure = Some(PersistFailure::Unavailable);
    assert_eq!(rig.ask(delete(0)), Err(ShareStateError::CoordinatorNotAvailable));
    assert!(rig.ask(read(-1)).is_ok());
}

#[test]
fn one_append_can_delete_and_recreate_a_key() {
    let mut rig = rig();
    rig.send(vec![ack(1)]);
    let (removal, fenced) = (rig.send(vec![delete(0)]), rig.send(vec![ack(2)]));
    let (again, reading) = (rig.send(vec![initialize(0, 50)]), rig.send(vec![read(-1)]));
    rig.report(0);
    rig.report(0);
    assert_eq!(rig.answer::<DeletePart>(removal), Some(vec![Ok(())]));
    assert_eq!(rig.answer::<WritePart>(fenced), Some(vec![Err(ShareStateError::UNINITIALIZED)]));
    assert_eq!(rig.answer::<InitializePart>(again), Some(vec![Ok(())]));
    assert_eq!(rig.answer::<ReadPart>(reading).unwrap()[0].as_ref().unwrap().start_offset, 50);
    assert_eq!(rig.coordinator.redundant_before(), Some(3));
}

#[test]
fn a_lost_partition_unloads_the_coordinator() {
    let mut rig = rig();
    let tickets = [rig.send(vec![ack(1)]), rig.send(vec![ack(2)]), rig.send(vec![ack(3)])];
    rig.lose();
    for ticket in tickets {
        assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Err(ShareStateError::NotCoordinator)]));
    }
    assert!(rig.coordinator.is_unloaded() && rig.waiting.is_empty());
    assert_eq!(rig.ask(ack(1)), Err(ShareStateError::NotCoordinator));
}

#[test]
fn unload_completes_every_share_state_request() {
    let mut rig = rig();
    let init = InitializePart { partition: 1, ..initialize(0, 0) };
    let tickets = [rig.send(vec![ack(1)]), rig.send(vec![ack(2)])];
    let mixed = rig.send(vec![ack(3), WritePart { partition: 2, ..ack(3) }]);
    let other = rig.send(vec![init]);
    rig.resign();
    let gone = Err(ShareStateError::NotCoordinator);
    for ticket in tickets {
        assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![gone]));
    }
    // A part that was refused before the end keeps its refusal.
    assert_eq!(rig.answer::<WritePart>(mixed), Some(vec![gone, Err(ShareStateError::UNINITIALIZED)]));
    assert_eq!(rig.answer::<InitializePart>(other), Some(vec![gone]));
    rig.step(Event::Tick);
    assert_eq!(rig.coordinator.deadline(), None);
}
