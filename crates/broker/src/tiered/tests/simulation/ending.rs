//! The end of a history: no further faults, and nothing is left to do.

use levada_remote::{Inventory, audit};
use levada_tiered::SegmentState;
use rand::RngExt;

use super::history::{History, STEPS, deletion};
use super::node::Node;

/// Most rounds until nothing is left to do.
const ROUNDS: usize = 12;

impl History {
    /// Ends all tasks.
    pub(super) fn finish_tasks(&mut self) -> Result<(), String> {
        for node in 0..2 {
            while !self.nodes[node].activities.is_empty() {
                self.advance((node, 0))?;
            }
        }
        Ok(())
    }

    /// Without further faults, each node leads once more until nothing is left to do.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.is_faulty = false;
        self.inform();
        while !self.late.is_empty() {
            self.apply_late()?;
        }
        self.finish_tasks()?;
        self.check_quiet()?;
        for next in [0, 1, 0] {
            self.elect(next);
            self.inform();
            self.check_quiet()?;
        }
        self.audit()
    }

    /// Lets the leader do all there is to do. Then each record from the start of its log on is
    /// readable.
    pub(super) fn check_quiet(&mut self) -> Result<(), String> {
        self.quiet()?;
        self.check()?;
        let leader = &self.nodes[self.leader()];
        assert!(leader.has_begun(self.role.epoch), "the term of node {} has begun", leader.id);
        let from = leader.partition().log().log_start();
        self.ledger.check_records(leader, from, &self.reader)
    }

    /// Rounds until one changes nothing.
    fn quiet(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let before = self.state();
            for node in 0..2 {
                self.begin_round(node);
            }
            self.finish_tasks()?;
            if !self.is_deleted {
                self.replicate();
                self.nodes.iter().for_each(Node::clean);
            }
            if self.state() == before {
                return Ok(());
            }
        }
        Err("there is always something left to do".to_owned())
    }

    /// Number of metadata records, and the starts of all logs and of their local parts.
    fn state(&self) -> (usize, Vec<(i64, i64)>) {
        let starts = |node: &Node| {
            let partition = node.partition();
            (partition.log().log_start(), partition.log().local_log_start())
        };
        let nodes = if self.is_deleted { &[] } else { &self.nodes[..] };
        (self.world.records(), nodes.iter().map(starts).collect())
    }

    /// Compares the objects with the metadata.
    fn audit(&self) -> Result<(), String> {
        let mut inventory = Inventory::new(1);
        inventory.mark_read(0);
        for (segment, state) in self.world.segments() {
            if state != SegmentState::CopyFinished {
                return Err(format!("{} stays in state {state:?}", segment.id));
            }
        }
        self.world.log().iter().for_each(|record| inventory.apply(record));
        let mut found = audit(&self.reader, &inventory).map_err(|error| error.to_string())?;
        found.orphans.retain(|object| !self.world.is_left(&object.key));
        if found.is_damaged()
            || !found.orphans.is_empty()
            || found.foreign + found.unknown + found.unfinished > 0
        {
            return Err(format!("objects and metadata differ: {found:#?}"));
        }
        Ok(())
    }

    /// The topic is deleted, and its segments with it.
    pub(super) fn delete_topic(&mut self) -> Result<(), String> {
        self.is_deleted = true;
        self.figures.removals += 1;
        self.tell(|| "the topic is deleted".to_owned());
        self.nodes.iter_mut().for_each(|node| node.publish(&deletion()));
        self.is_faulty = true;
        for _ in 0..STEPS / 4 {
            match self.random.random_range(0..10) {
                0..3 => self.begin_round(self.leader()),
                3..9 => self.work()?,
                _ => self.apply_late()?,
            }
        }
        self.is_faulty = false;
        while !self.late.is_empty() {
            self.apply_late()?;
        }
        self.finish_tasks()?;
        self.quiet()?;
        let (left, objects) = (self.world.segments().len(), self.world.objects());
        if left > 0 || objects > 0 {
            return Err(format!("{left} segments and {objects} objects of a deleted topic are left"));
        }
        Ok(())
    }
}
