//! Faults that histories have found, each as a history of its own.

use levada_tiered::SegmentState;

use super::board::Board;
use super::history::History;
use super::node::{Kind, Node};
use super::world::World;

/// Lengths of the batches of one segment.
const SEGMENT: [usize; 4] = [0; 4];

fn has(state: SegmentState) -> impl Fn(&World, &Node) -> bool {
    move |world, _| world.segments().iter().any(|(_, found)| *found == state)
}

fn has_ended(kind: Kind) -> impl Fn(&World, &Node) -> bool {
    move |_, node| node.activities.iter().all(|one| one.kind != kind)
}

#[test]
fn copy_that_next_leader_deletes_leaves_no_objects() {
    let board = Board::start();
    let mut history = History::scripted(&board);
    history.append(true, &SEGMENT);
    history.append(false, &SEGMENT);
    history.begin_round(0);
    history.advance_until(0, Kind::Copy, has(SegmentState::CopyStarted));
    history.lead(1);
    history.begin_round(1);
    history.advance_until(1, Kind::Expire, has_ended(Kind::Expire));
    // Only now the former leader uploads what the other one has deleted.
    history.advance_until(0, Kind::Copy, has_ended(Kind::Copy));
    history.settle().unwrap();
}

#[test]
fn log_start_follows_deletions_by_former_leader() {
    let board = Board::start();
    let mut history = History::scripted(&board);
    history.append(true, &SEGMENT);
    history.append(false, &SEGMENT);
    history.append(false, &SEGMENT);
    history.begin_round(0);
    history.advance_until(0, Kind::Copy, has_ended(Kind::Copy));
    history.lead(1);
    history.advance_until(0, Kind::Expire, has(SegmentState::DeleteStarted));
    history.begin_round(1);
    history.advance_until(1, Kind::Copy, has_ended(Kind::Copy));
    history.finish_tasks().unwrap();
    history.inform();
    history.check_quiet().unwrap();
}

#[test]
fn deleted_segment_gets_no_further_record() {
    let board = Board::start();
    let mut history = History::scripted(&board);
    history.append(true, &SEGMENT);
    history.append(true, &SEGMENT);
    history.append(false, &SEGMENT);
    history.begin_round(0);
    history.advance_until(0, Kind::Copy, has(SegmentState::CopyFinished));
    history.advance_until(0, Kind::Copy, has(SegmentState::CopyStarted));
    history.crash(0).unwrap();
    history.lead(0);
    history.inform();
    history.begin_round(0);
    // The expiry has chosen both segments, and the next copy deletes the interrupted one first.
    history.advance_until(0, Kind::Expire, has(SegmentState::DeleteStarted));
    history.advance_until(0, Kind::Copy, has_ended(Kind::Copy));
    history.finish_tasks().unwrap();
    history.settle().unwrap();
}
