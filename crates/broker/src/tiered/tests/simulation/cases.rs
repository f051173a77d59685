//! Faults that histories have found, each as a history of its own.

use levada_tiered::{RemoteRecord, SegmentState, TopicIdPartition};
use levada_wire::Uuid;

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

/// A history in which node 0 has copied two segments, which are also on the local disks. The
/// metadata has two records of each.
fn with_two_copies(board: &Board) -> History {
    let mut history = History::scripted(board);
    (0..3).for_each(|_| history.append(false, &SEGMENT));
    history.begin_round(0);
    history.advance_until(0, Kind::Copy, has_ended(Kind::Copy));
    history.finish_tasks().unwrap();
    assert_eq!((history.world.segments().len(), history.world.records()), (2, 4));
    history
}

/// Ids of the segments that a node knows; none while it does not know all.
fn known(history: &History, node: usize) -> Option<Vec<Uuid>> {
    let segments = history.nodes[node].remote().unwrap().segments().ok()?;
    Some(segments.iter().map(|segment| segment.id.id).collect())
}

fn in_metadata(history: &History) -> Vec<Uuid> {
    history.world.segments().iter().map(|(segment, _)| segment.id.id).collect()
}

#[test]
fn copies_whose_metadata_is_lost_are_repeated() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    history.world.cut(2);
    history.begin_round(0);
    assert_eq!(known(&history, 0).unwrap(), in_metadata(&history));
    assert_eq!(history.nodes[0].partition().log().highest_remote(), -1, "no segment may go");
    history.finish_tasks().unwrap();
    assert_eq!(history.world.segments().len(), 2);
    history.check_quiet().unwrap();
    history.settle().unwrap();
}

#[test]
fn copy_whose_end_is_lost_stays() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    history.nodes[0].clean();
    let (last, copied) = (history.world.log().pop().unwrap(), in_metadata(&history));
    assert!(history.nodes[0].partition().log().local_log_start() > 4, "the disk has no copied records");
    // The end of the second copy.
    history.world.cut(3);
    history.check_quiet().unwrap();
    assert_eq!(in_metadata(&history), copied);
    assert_eq!(history.world.records(), 4);
    assert!(matches!(last, RemoteRecord::Update(update) if update.state == SegmentState::CopyFinished));
}

#[test]
fn metadata_rewritten_at_same_offsets_is_read_again() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    let former = in_metadata(&history);
    history.world.cut(2);
    history.lead(1);
    history.begin_round(1);
    history.finish_tasks().unwrap();
    assert_eq!(history.world.records(), 4, "node 1 has repeated the copy");
    assert_ne!(in_metadata(&history), former);
    history.inform();
    history.begin_round(0);
    assert_eq!(known(&history, 0).unwrap(), in_metadata(&history));
    history.settle().unwrap();
}

#[test]
fn election_without_loss_rereads_nothing() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    history.world.cut(4);
    history.append(false, &SEGMENT);
    history.begin_round(0);
    history.finish_tasks().unwrap();
    history.begin_round(0);
    let applied = history.nodes[0].remote().unwrap().applied();
    assert_eq!((applied.end, applied.rereads), (6, 0));
}

#[test]
fn lost_metadata_blocks_until_leader_tells_end() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    history.world.cut(2);
    history.world.hide_end(true);
    history.begin_round(0);
    let remote = history.nodes[0].remote().unwrap();
    assert!(remote.segment_for(1, 0).is_err() && history.nodes[0].activities.is_empty());
    history.nodes[0].clean();
    assert_eq!(history.nodes[0].partition().log().local_log_start(), 0, "local segments stay");
    history.world.hide_end(false);
    history.begin_round(0);
    assert!(remote.segment_for(1, 0).unwrap().is_some());
    history.finish_tasks().unwrap();
    history.settle().unwrap();
}

#[test]
fn new_partition_does_not_hide_lost_metadata() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    history.world.cut(2);
    let name =
        TopicIdPartition { topic_id: Uuid::from_bytes([6; 16]), topic: "new".to_owned(), partition: 0 };
    // The feed begins again with the first record.
    history.nodes[0].tiers().subscribe([name].into_iter());
    history.begin_round(0);
    assert_eq!(history.nodes[0].remote().unwrap().applied().rereads, 1);
    history.finish_tasks().unwrap();
    history.settle().unwrap();
}

#[test]
fn end_told_before_loss_does_not_block() {
    let board = Board::start();
    let mut history = with_two_copies(&board);
    let name = history.nodes[0].remote().unwrap().name().clone();
    history.nodes[1].tiers().subscribe([name].into_iter());
    assert_eq!(known(&history, 1), None, "the end is at offset 4");
    history.world.cut(2);
    history.begin_round(1);
    assert_eq!(known(&history, 1).unwrap(), in_metadata(&history));
    history.settle().unwrap();
}

#[test]
fn copy_in_progress_survives_loss_of_its_metadata() {
    let board = Board::start();
    // With the records of the second copy's beginning and end, and without some of them.
    for (records, kept) in [(3, 2), (4, 2), (4, 3), (4, 4)] {
        let mut history = History::scripted(&board);
        (0..3).for_each(|_| history.append(false, &SEGMENT));
        history.begin_round(0);
        history.advance_until(0, Kind::Copy, |world, _| world.records() == records);
        history.world.cut(kept);
        history.advance_until(0, Kind::Copy, has_ended(Kind::Copy));
        history.finish_tasks().unwrap();
        history.check_quiet().unwrap();
        history.settle().unwrap();
    }
}
