//! Removals of offsets, and lookups, while commits are being written.

use crate::group::coordinator::ListFilter;
use crate::group::event::Event;
use crate::group::request::{DeleteRequest, OffsetDeleteRequest};
use crate::group::tests::rig::{GROUP, Rig, commit, config};

use super::transactions::{end, txn_commit};

#[test]
fn a_commit_that_is_being_written_does_not_expire() {
    for in_transaction in [false, true] {
        let mut rig = Rig::new(config());
        rig.commit(commit("simple", "t", 1)).unwrap();
        rig.now_ms += rig.config.offsets_retention_ms + 1;
        rig.hold_appends = true;
        // The expiry is due in the same step.
        if in_transaction {
            rig.send(txn_commit("simple", 2));
            end(&mut rig, true);
        } else {
            rig.send(commit("simple", "t", 2));
        }
        rig.step(Event::Tick);
        rig.finish_appends();
        rig.hold_appends = false;
        assert_eq!(rig.committed("simple", "t"), 2, "in a transaction: {in_transaction}");
        rig.restart();
        assert_eq!(rig.committed("simple", "t"), 2, "in a transaction: {in_transaction}");
    }
}

/// The offset of a commit that is in flight while `remove` acts.
fn committed_after(remove: impl FnOnce(&mut Rig)) -> (Rig, i64) {
    let mut rig = Rig::new(config());
    rig.hold_appends = true;
    rig.send(commit(GROUP, "t", 1));
    remove(&mut rig);
    rig.finish_appends();
    rig.hold_appends = false;
    let offset = rig.committed(GROUP, "t");
    (rig, offset)
}

#[test]
fn a_deleted_group_takes_the_commit_that_is_being_written_along() {
    let (mut rig, offset) = committed_after(|rig| {
        rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
    });
    assert_eq!(offset, -1);
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
    rig.restart();
    assert_eq!(rig.committed(GROUP, "t"), -1);
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
}

#[test]
fn a_deleted_topic_takes_the_commit_that_is_being_written_along() {
    let (_, offset) = committed_after(|rig| rig.step(Event::PartitionsDeleted(vec![("t".into(), vec![0])])));
    assert_eq!(offset, -1);
}

#[test]
fn a_deleted_offset_takes_the_commit_that_is_being_written_along() {
    let (_, offset) = committed_after(|rig| {
        rig.send(OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![("t".into(), vec![0])] });
    });
    assert_eq!(offset, -1);
}
