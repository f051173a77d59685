//! Unclean elections of the metadata topic, in which it loses its last records.

use levada_log::Partition as Log;
use levada_tiered::{RemoteRecord, SegmentState};
use rand::RngExt;

use super::history::History;

/// Most records that an election loses.
const LOST: usize = 4;

impl History {
    /// The metadata topic loses its last records, up to the first one without which records of the
    /// log would be lost: those of a segment that is in the store alone.
    pub(super) fn cut_some(&mut self) {
        let (log, most) = (self.world.log(), self.random.random_range(1..=LOST));
        let lost = log.iter().rev().take(most).take_while(|record| self.can_lose(record)).count();
        if lost == 0 {
            return;
        }
        self.figures.cuts += 1;
        self.tell(|| format!("the metadata topic loses its last {lost} records"));
        self.world.cut(log.len() - lost);
        // A broker that learns it only after local segments have gone cannot copy them again.
        self.nodes.iter().for_each(|node| node.tiers().read_feeds());
    }

    /// True if the records of the segment are on both disks, or no longer in the logs. A deletion
    /// is repeated if the logs begin after the segment.
    fn can_lose(&self, record: &RemoteRecord) -> bool {
        let (id, state) = match record {
            RemoteRecord::Segment(segment) => (segment.id.id, segment.state),
            RemoteRecord::Update(update) => (update.id.id, update.state),
            _ => return false,
        };
        let Some(segment) = self.world.segment(id) else { return false };
        let all = |holds: &dyn Fn(&Log) -> bool| self.nodes.iter().all(|node| holds(node.partition().log()));
        let is_copy = matches!(state, SegmentState::CopyStarted | SegmentState::CopyFinished);
        all(&|log| log.log_start() > segment.end_offset)
            || is_copy && all(&|log| log.local_log_start() <= segment.start_offset)
    }
}
