//! Tests of states.

use super::{PartitionDeleteState, SegmentState};

#[test]
fn segments_pass_through_their_states() {
    use SegmentState::{CopyFinished, CopyStarted, DeleteFinished, DeleteStarted};
    let all = [CopyStarted, CopyFinished, DeleteStarted, DeleteFinished];
    let valid = [
        (None, vec![CopyStarted]),
        (Some(CopyStarted), vec![CopyStarted, CopyFinished, DeleteStarted]),
        (Some(CopyFinished), vec![CopyFinished, DeleteStarted]),
        (Some(DeleteStarted), vec![DeleteStarted, DeleteFinished]),
        (Some(DeleteFinished), vec![DeleteFinished]),
    ];
    for (from, to) in valid {
        assert_eq!(
            all.into_iter().filter(|state| state.may_follow(from)).collect::<Vec<_>>(),
            to,
            "{from:?}"
        );
    }
}

#[test]
fn deletions_pass_through_their_states() {
    use PartitionDeleteState::{Finished, Marked, Started};
    let all = [Marked, Started, Finished];
    let valid = [
        (None, vec![Marked]),
        (Some(Marked), vec![Marked, Started]),
        (Some(Started), vec![Started, Finished]),
        (Some(Finished), vec![Finished]),
    ];
    for (from, to) in valid {
        assert_eq!(
            all.into_iter().filter(|state| state.may_follow(from)).collect::<Vec<_>>(),
            to,
            "{from:?}"
        );
    }
}

#[test]
fn ids_are_those_of_kafka() {
    let ids =
        |id| (SegmentState::from_id(id).map(SegmentState::id), PartitionDeleteState::from_id(id).is_some());
    assert_eq!(
        [-1, 0, 1, 2, 3, 4].map(ids),
        [(None, false), (Some(0), true), (Some(1), true), (Some(2), true), (Some(3), false), (None, false)]
    );
}
