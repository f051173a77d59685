//! One history: what happens, in an order that follows from the seed.

use std::collections::VecDeque;
use std::sync::Arc;

use levada_metadata::records::{Record, RemoveTopicRecord};
use levada_remote::{Store, StoreChange};
use levada_tiered::{RemoteRecord, SegmentState, SegmentUpdate, StoreLayout};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;

use super::super::{repeat_id, seed_ids};
use super::Mistake;
use super::board::Board;
use super::figures::Figures;
use super::ledger::Ledger;
use super::node::{Kind, Limits, NODES, Node, Role, TOPIC};
use super::world::{Answer, Life, Request, World};
use crate::broker::tests::directory;

/// Things that happen before the faults end.
pub(super) const STEPS: usize = 140;
/// Lines of a story that a failure prints.
const LINES: usize = 150;

/// End of a slice of a task.
enum Slice {
    Asks(u64),
    Ends,
}

pub(super) struct History {
    pub(super) random: StdRng,
    pub(super) runtime: Runtime,
    pub(super) world: Arc<World>,
    pub(super) reader: Store,
    pub(super) nodes: [Node; 2],
    pub(super) role: Role,
    /// True if the node that does not lead has not heard of the leader yet.
    pub(super) is_split: bool,
    pub(super) is_deleted: bool,
    pub(super) is_faulty: bool,
    pub(super) lives: Life,
    /// Changes that ended processes have sent, which take effect later.
    pub(super) late: Vec<(Request, Life)>,
    pub(super) ledger: Ledger,
    pub(super) mistake: Option<Mistake>,
    pub(super) figures: Figures,
    pub(super) story: VecDeque<String>,
}

impl History {
    pub(super) fn new(seed: u64, board: &Board, mistake: Option<Mistake>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let limits = Limits {
            segment_bytes: random.random_range(150..400),
            local_bytes: random.random_range(1..600),
            retention_bytes: if random.random_bool(0.5) { -1 } else { random.random_range(700..2_500) },
            port: board.port(),
        };
        let layout = if random.random_bool(0.7) { StoreLayout::Aiven } else { StoreLayout::Local };
        let world = World::new(layout, random.random_range(1..40));
        let mut history = Self::begin(random, (board, world), limits);
        (history.is_faulty, history.mistake) = (true, mistake);
        if mistake == Some(Mistake::HidesCuts) {
            history.world.hide_cuts();
        }
        history
    }

    /// A history for a test that decides what happens: without faults, with four batches of
    /// [`History::append`] in a segment, and without local segments that are copied.
    pub(super) fn scripted(board: &Board) -> Self {
        let limits = Limits { segment_bytes: 300, local_bytes: 1, retention_bytes: -1, port: board.port() };
        Self::begin(StdRng::seed_from_u64(0), (board, World::new(StoreLayout::Aiven, 40)), limits)
    }

    fn begin(mut random: StdRng, (board, world): (&Board, Arc<World>), limits: Limits) -> Self {
        seed_ids(random.random());
        board.serve(&world);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let role = Role { leader: NODES[0], epoch: 1 };
        let mut nodes = NODES.map(|id| Node::new(id, limits, directory()));
        for (life, node) in (1..).zip(&mut nodes) {
            node.start((life, role), &world);
        }
        Self {
            random,
            runtime,
            reader: world.store(Life::MAX),
            story: VecDeque::from([format!("{limits:?} {:?}", world.layout)]),
            world,
            nodes,
            role,
            is_split: false,
            is_deleted: false,
            is_faulty: false,
            lives: 2,
            late: Vec::new(),
            ledger: Ledger::new(limits),
            mistake: None,
            figures: Figures::default(),
        }
    }

    /// The last lines of what has happened.
    pub(super) fn story(&self) -> String {
        let lines: Vec<&str> = self.story.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.story.len() > LINES {
            self.story.remove(1);
        }
        self.story.push_back(line());
    }

    /// Lives to the end.
    ///
    /// # Errors
    /// The broken rule.
    pub(super) fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.settle()?;
        if self.random.random_bool(0.4) {
            self.delete_topic()?;
        }
        Ok(())
    }

    pub(super) fn leader(&self) -> usize {
        usize::from(self.role.leader == NODES[1])
    }

    fn step(&mut self) -> Result<(), String> {
        let (leader, other) = (self.leader(), 1 - self.leader());
        match self.random.random_range(0..100) {
            0..16 => self.append_some(),
            16..28 => self.begin_round(leader),
            28..36 => self.begin_round(other),
            36..77 => self.work()?,
            77..86 => self.trim(),
            86 => self.delete_records(),
            87..91 => self.elect(other),
            91..94 => self.inform(),
            94..96 => {
                let node = self.random.random_range(0..2);
                self.crash(node)?;
            }
            96..99 => self.apply_late()?,
            _ => self.cut_some(),
        }
        self.check()
    }

    fn append_some(&mut self) {
        let is_old = self.random.random_bool(0.3);
        let paddings: Vec<usize> =
            (0..self.random.random_range(1..4)).map(|_| self.random.random_range(0..60)).collect();
        self.append(is_old, &paddings);
    }

    /// Appends a batch for each of these lengths, which the follower gets too.
    pub(super) fn append(&mut self, is_old: bool, paddings: &[usize]) {
        for padding in paddings {
            let batch = self.ledger.batch(is_old, *padding);
            let appended = self.nodes[self.leader()].append(batch.clone(), &self.runtime);
            self.ledger.note(&batch, is_old, (appended, self.role.epoch));
        }
        let (end, leader) = (self.ledger.end(), self.role.leader);
        self.tell(|| format!("node {leader} has records up to {end} (old: {is_old})"));
        self.replicate();
    }

    /// The follower gets what the leader has, if it knows the leader.
    pub(super) fn replicate(&self) {
        if !self.is_split {
            self.nodes[1 - self.leader()].replicate(&self.nodes[self.leader()], self.role.epoch);
        }
    }

    pub(super) fn begin_round(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        self.world.run(node.life);
        if self.mistake == Some(Mistake::TakesOverCopies) {
            node.take_over();
        }
        node.begin_round();
    }

    /// Continues a task up to its next request.
    pub(super) fn work(&mut self) -> Result<(), String> {
        let tasks = (0..2).flat_map(|node| (0..self.nodes[node].activities.len()).map(move |at| (node, at)));
        let tasks: Vec<(usize, usize)> = tasks.collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let task = tasks[self.random.random_range(0..tasks.len())];
        self.advance(task)
    }

    pub(super) fn advance(&mut self, (node, at): (usize, usize)) -> Result<(), String> {
        if let Some(ticket) = self.nodes[node].activities[at].waits_for.take()
            && !self.serve(node, ticket)?
        {
            return Ok(());
        }
        self.world.run(self.nodes[node].life);
        let (world, kind) = (&self.world, self.nodes[node].activities[at].kind);
        if kind == Kind::Expire && self.mistake == Some(Mistake::ForgetsCopiesInProgress) {
            self.nodes[node].tiers().in_copy.lock().clear();
        }
        let activity = &mut self.nodes[node].activities[at];
        let slice = self.runtime.block_on(async {
            tokio::select! {
                biased;
                ticket = world.next() => Slice::Asks(ticket),
                () = activity.work.as_mut() => Slice::Ends,
            }
        });
        match slice {
            Slice::Asks(ticket) => match self.world.request(ticket) {
                Request::Store(_) => activity.waits_for = Some(ticket),
                Request::Append(_) => {
                    self.serve(node, ticket)?;
                }
            },
            Slice::Ends => {
                drop(self.nodes[node].activities.remove(at));
                let id = self.nodes[node].id;
                self.tell(|| format!("node {id} has ended {kind:?}"));
                if kind == Kind::Copy && self.mistake == Some(Mistake::RaisesStartOverCopies) {
                    self.raise_start(node);
                }
            }
        }
        Ok(())
    }

    fn raise_start(&self, node: usize) {
        let partition = self.nodes[node].partition();
        let copied = partition.log().highest_remote() + 1;
        let advanced = partition.lane().with_writer(|writer| writer.advance_log_start(copied));
        advanced.unwrap().unwrap().remove().unwrap();
    }

    /// Decides about a request, and answers it. False if the process has ended instead.
    fn serve(&mut self, node: usize, ticket: u64) -> Result<bool, String> {
        let (request, id, life) = (self.world.request(ticket), self.nodes[node].id, self.nodes[node].life);
        let draw = if self.is_faulty { self.random.random_range(0..100) } else { 0 };
        let answer = match draw {
            0..84 => Answer::Done,
            84..88 => Answer::Lost,
            88..92 => Answer::Refused,
            _ => {
                self.tell(|| format!("node {id} asks for {request}"));
                self.crash(node)?;
                return Ok(false);
            }
        };
        self.tell(|| format!("node {id}: {answer:?} {request}"));
        match (answer, &request) {
            (Answer::Refused, Request::Store(StoreChange::Delete(keys))) => {
                self.figures.refused += 1;
                self.world.refuse(keys);
                let some = keys[..self.random.random_range(0..=keys.len())].to_vec();
                self.effect(&Request::Store(StoreChange::Delete(some)), life)?;
            }
            (Answer::Refused, _) => self.figures.refused += 1,
            _ => {
                self.figures.lost += usize::from(answer == Answer::Lost);
                self.effect_of(node, &request)?;
            }
        }
        self.world.answer(ticket, answer);
        Ok(true)
    }

    /// A change of a process takes effect, with the mistake of this history.
    fn effect_of(&mut self, node: usize, request: &Request) -> Result<(), String> {
        let life = self.nodes[node].life;
        match (self.mistake, request) {
            (Some(Mistake::CountsStartedCopies), Request::Append(RemoteRecord::Segment(segment))) => {
                self.nodes[node].partition().log().raise_highest_remote(segment.end_offset);
            }
            (Some(Mistake::DeletesUnmarked), Request::Append(RemoteRecord::Update(update)))
                if update.state == SegmentState::DeleteStarted =>
            {
                let segments = self.world.segments();
                let doomed = segments.iter().find(|(segment, _)| segment.id == update.id);
                if let Some((segment, _)) = doomed {
                    self.effect(&Request::Store(StoreChange::Delete(self.world.keys(segment))), life)?;
                }
            }
            (Some(Mistake::KeepsObjects), Request::Store(StoreChange::Delete(_))) => return Ok(()),
            (Some(Mistake::LeavesLastObjectOut), Request::Store(StoreChange::Put(key, _)))
                if key.ends_with(".rsm-manifest") || key.ends_with(".log") =>
            {
                return Ok(());
            }
            _ => {}
        }
        if let Request::Append(RemoteRecord::Update(update)) = request {
            self.check_owner(node, update)?;
            self.figures.copies += usize::from(update.state == SegmentState::CopyFinished);
            self.figures.deletions += usize::from(update.state == SegmentState::DeleteFinished);
        }
        self.effect(request, life)
    }

    /// Checks that a node does not delete a copy of the other one that is not finished, unless its
    /// records are deleted.
    fn check_owner(&self, node: usize, update: &SegmentUpdate) -> Result<(), String> {
        let (world, node) = (&self.world, &self.nodes[node]);
        let Some(segment) = world.unfinished(update.id.id).filter(|found| found.broker_id != node.id) else {
            return Ok(());
        };
        let is_kept = !self.is_deleted && node.partition().log().log_start() <= segment.end_offset;
        if is_kept && update.state == SegmentState::DeleteStarted {
            return Err(format!(
                "node {} deletes the unfinished copy {} of the other one",
                node.id, segment.id
            ));
        }
        Ok(())
    }

    fn effect(&mut self, request: &Request, life: Life) -> Result<(), String> {
        // An upload that was on its way when its process ended has arrived, or failed, long before
        // retention, or the next process of the node, deletes the copy.
        if let Request::Store(StoreChange::Delete(keys)) = request {
            let is_same = |late: &Request| matches!(late, Request::Store(StoreChange::Put(key, _)) if keys.contains(key));
            let arrived: Vec<_> = self.late.extract_if(.., |(late, _)| is_same(late)).collect();
            arrived.iter().try_for_each(|(late, life)| self.world.effect(late, (*life, true)))?;
        }
        self.world.effect(request, (life, false))
    }

    pub(super) fn apply_late(&mut self) -> Result<(), String> {
        if self.late.is_empty() {
            return Ok(());
        }
        let (request, life) = self.late.swap_remove(self.random.random_range(0..self.late.len()));
        self.figures.late += 1;
        self.tell(|| format!("late: {request}"));
        self.world.effect(&request, (life, true))
    }

    /// Housekeeping of a node.
    fn trim(&mut self) {
        let node = self.random.random_range(0..2);
        if self.is_split {
            // A replica must not lack what the leader no longer has on its disk.
            return;
        }
        let before = self.nodes[node].partition().log().local_log_start();
        self.nodes[node].clean();
        let (id, after) = (self.nodes[node].id, self.nodes[node].partition().log().local_log_start());
        self.figures.trimmed += usize::from(after > before);
        self.tell(|| format!("node {id} has its local records from {after} on"));
    }

    fn delete_records(&mut self) {
        let leader = &self.nodes[self.leader()];
        let partition = leader.partition();
        let (start, end) = (partition.log().log_start(), partition.log().high_watermark());
        let offset = self.random.random_range(start..=end.min(start + 4));
        let replicas = leader.broker().replicas();
        replicas.delete_records(&partition, offset).unwrap();
        replicas.checkpoints().store_misleading().unwrap();
        self.ledger.note_deletion(offset);
        self.tell(|| format!("a client deletes the records before {offset}"));
        self.replicate();
    }

    /// Lets a node lead. The former leader learns that now or later.
    pub(super) fn elect(&mut self, next: usize) {
        self.lead(next);
        if self.random.random_bool(0.3) {
            self.inform();
        }
    }

    /// Lets a node lead. The other one does not know it.
    pub(super) fn lead(&mut self, next: usize) {
        self.inform();
        self.role = Role { leader: NODES[next], epoch: self.role.epoch + 1 };
        self.figures.elections += 1;
        let role = self.role;
        self.tell(|| format!("{role:?}"));
        self.nodes[next].follow(role);
        self.is_split = true;
    }

    /// The former leader learns who leads.
    pub(super) fn inform(&mut self) {
        if self.is_split {
            let (other, role) = (1 - self.leader(), self.role);
            self.nodes[other].follow(role);
            self.is_split = false;
            self.tell(|| format!("node {} follows", NODES[other]));
            self.replicate();
        }
    }

    /// Ends a process without a stop in order, and starts the next one. Requests without an answer
    /// take effect before, later, or never.
    pub(super) fn crash(&mut self, at: usize) -> Result<(), String> {
        if !self.is_deleted {
            self.inform();
        }
        self.figures.crashes += 1;
        let (life, id) = (self.nodes[at].life, self.nodes[at].id);
        self.nodes[at].activities.clear();
        for ticket in self.world.end(life) {
            let request = self.world.request(ticket);
            match self.random.random_range(0..3) {
                // Another leader has deleted the copy: no upload of it is on its way for so long.
                _ if self.world.is_deleted(&request) => {}
                0 => self.effect(&request, life)?,
                1 => self.late.push((request, life)),
                _ => {}
            }
            self.world.answer(ticket, Answer::Lost);
        }
        self.nodes[at].stop();
        self.tell(|| format!("node {id} crashes"));
        if self.mistake == Some(Mistake::ReusesIds) {
            repeat_id();
        }
        if at == self.leader() && !self.is_deleted {
            // The same node may lead again.
            let next = if self.random.random_bool(0.5) { at } else { 1 - at };
            self.role = Role { leader: NODES[next], epoch: self.role.epoch + 1 };
            self.nodes[1 - at].follow(self.role);
        }
        self.lives += 1;
        self.nodes[at].start((self.lives, self.role), &self.world);
        if self.is_deleted {
            self.nodes[at].publish(&deletion());
        } else {
            self.replicate();
        }
        Ok(())
    }

    /// Checks the starts of the logs, and reads what the leader has.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if self.is_deleted {
            return Ok(());
        }
        let before = self.ledger.start;
        for node in &self.nodes {
            self.ledger.check_start(node)?;
        }
        self.figures.raised += usize::from(self.ledger.start > before);
        let leader = &self.nodes[self.leader()];
        if leader.has_begun(self.role.epoch) && self.random.random_bool(0.3) {
            self.ledger.check_records(leader, self.ledger.start, &self.reader)?;
        }
        Ok(())
    }

    /// Continues a task up to the end of it, or until `is_reached`.
    pub(super) fn advance_until(
        &mut self,
        node: usize,
        kind: Kind,
        is_reached: impl Fn(&World, &Node) -> bool,
    ) {
        while !is_reached(&self.world, &self.nodes[node]) {
            let at = self.nodes[node].activities.iter().position(|one| one.kind == kind);
            self.advance((node, at.expect("the task goes on"))).unwrap();
        }
    }
}

impl Drop for History {
    /// Threads of the processes may wait for answers.
    fn drop(&mut self) {
        for node in &self.nodes {
            let waiting = self.world.end(node.life);
            waiting.into_iter().for_each(|ticket| self.world.answer(ticket, Answer::Lost));
        }
    }
}

pub(super) fn deletion() -> Record {
    RemoveTopicRecord { topic_id: TOPIC }.into()
}
