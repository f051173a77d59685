//! The host of a coordinator's state machine: one slot for each partition of the topic, with the
//! machine, the requests that wait for it, and the time of its next alarm.
//!
//! A slot's lock covers a step of the machine and the hand-over of its records to the partition's
//! append lane, so that records enter the log in the order of the steps. No thread waits under it,
//! not even for storage that is frozen: the thread that releases the lock writes the records
//! ([`writes::Locked`]). Work that takes longer (markers, producer ids) is a [`Job`] for the admin
//! thread.
//!
//! A machine serves for one *term*: from the load in one leader epoch until it resigns. Each load
//! has a new machine, and results of an earlier term are dropped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use levada_coordination::machine::{Action, Keyed, Machine, Request, Signal, Ticket, partition_for};
use levada_process::clock;
use levada_process::tasks::caught;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::coordinator::replay::{ReplayError, replay};
use crate::coordinator::slots::{self, Due, Slots};
use crate::replica::Partition;
use crate::replica::led::CommitFailure;

mod jobs;
mod terms;
mod writes;

pub(crate) use jobs::Job;
pub(super) use terms::Terms;
use writes::Write;

/// The coordinators of one kind on this broker.
pub(crate) struct Host<M: Machine> {
    settings: M::Settings,
    slots: Slots<Slot<M>>,
    alarm: Arc<Notify>,
    jobs: mpsc::UnboundedSender<Job<M>>,
    unclaimed: Mutex<Option<mpsc::UnboundedReceiver<Job<M>>>>,
    /// True once the broker stops: nothing is loaded then.
    is_unloaded: AtomicBool,
    /// Number of resignations since the last line of the log about them.
    resigned: AtomicUsize,
}

/// Replays the log of a partition into its coordinator, and opens that for requests, unless its
/// term has ended by then. Blocks for as long as it takes to read the log.
pub(crate) type Load = Box<dyn FnOnce() + Send>;

/// One coordinator and the requests that wait for it.
struct Slot<M: Machine> {
    state: Mutex<State<M>>,
    due: Due,
    jobs: mpsc::UnboundedSender<Job<M>>,
}

struct State<M: Machine> {
    machine: M,
    /// Counts loads and resignations.
    term: u64,
    /// The leader epoch in which the machine was loaded, or is being loaded.
    leader_epoch: Option<i32>,
    /// The last announcement of each type that arrived during the load; none while nothing is
    /// loaded.
    held: Option<Vec<M::Event>>,
    /// Changes of the state that the next machine applies once it is loaded; only while the
    /// partition is expected.
    after_load: Vec<M::Event>,
    /// The machine's partition, and the leader epoch in which it was loaded; none before that and
    /// after it is unloaded.
    partition: Option<(Arc<Partition>, i32)>,
    /// True if the partition is being recovered, or its log replayed.
    is_expected: bool,
    waiting: HashMap<Ticket, oneshot::Sender<M::Outcome>>,
    next_ticket: u64,
    /// Tickets whose requests the host has refused before the machine responds.
    dismissed: HashSet<Ticket>,
    /// Records in the lane, in this order, for the thread that releases the lock.
    writes: VecDeque<Write>,
}

impl<M: Machine> Host<M> {
    /// A host without coordinators; each partition of the topic adds one.
    pub(crate) fn new(settings: M::Settings) -> Self {
        let (jobs, receiver) = mpsc::unbounded_channel();
        let unclaimed = Mutex::new(Some(receiver));
        let (slots, alarm, is_unloaded, resigned) = Default::default();
        Self { settings, slots, alarm, jobs, unclaimed, is_unloaded, resigned }
    }

    /// Partition of the topic that a key belongs to; none before the topic exists.
    pub(crate) fn partition_of(&self, key: &str) -> Option<i32> {
        Some(self.slots.count()).filter(|count| *count > 0).map(|count| partition_for(key, count))
    }

    /// Sends a request to the coordinator of its key and waits for the response, up to
    /// `ANSWER_WAIT` if the request [has a limit](Request::HAS_LIMIT). Without a partition for the
    /// key, and after that time, the request is refused.
    pub(crate) async fn ask<R: Request<M> + Keyed>(&self, request: R) -> R::Answer {
        self.submit(request).await
    }

    /// Like [`Host::ask`]. The coordinator has received the request when this returns; only the
    /// response is waited for.
    pub(crate) fn submit<R: Request<M> + Keyed>(
        &self,
        request: R,
    ) -> impl Future<Output = R::Answer> + use<M, R> {
        let index = self.partition_of(request.key());
        self.submit_at(index, request, M::NOT_COORDINATOR)
    }

    /// Sends a request to the coordinator of partition `index`, as [`Host::submit`]; `refusal` is
    /// the error while the coordinator does not serve. If the request does not wait for others, its
    /// records are queued in the partition's append lane when this returns.
    pub(crate) fn submit_at<R: Request<M>>(
        &self,
        index: Option<i32>,
        request: R,
        refusal: M::Error,
    ) -> impl Future<Output = R::Answer> + use<M, R> {
        let refused = request.refused(refusal);
        let slot = index.and_then(|index| self.slots.at(index));
        let asked = slot.and_then(|slot| {
            let (ticket, answer) = slot.ask(|ticket| request.event(ticket))?;
            Some((slot, ticket, answer))
        });
        async move {
            let Some((slot, ticket, answer)) = asked else { return refused };
            let outcome = slot.outcome(ticket, answer, R::HAS_LIMIT).await;
            outcome.and_then(R::answer).unwrap_or(refused)
        }
    }

    /// Reads the coordinator of `key`; none if its partition is not served.
    pub(crate) fn view<T>(&self, key: &str, look: impl FnOnce(&M) -> T) -> Option<T> {
        let slot = self.slots.at(self.partition_of(key)?)?;
        let state = slot.state.lock();
        state.is_open().then(|| look(&state.machine))
    }

    /// Reads every coordinator whose partition is served, one after the other.
    pub(crate) fn view_all<T>(&self, mut look: impl FnMut(&M) -> T) -> Vec<T> {
        let slots = self.slots.all();
        let states = slots.iter().map(|slot| slot.state.lock()).filter(|state| state.is_open());
        states.map(|state| look(&state.machine)).collect()
    }

    /// Steps every coordinator that is loaded. A coordinator whose partition is being recovered or
    /// loaded receives the event afterwards.
    pub(crate) fn step_all_loaded(&self, event: impl Fn() -> M::Event) {
        self.slots.all().iter().for_each(|slot| slot.step_loaded_or_hold(event()));
    }

    /// Steps every coordinator, loaded or not, with an announcement that holds until the next.
    pub(crate) fn step_all(&self, event: impl Fn() -> M::Event) {
        self.slots.all().iter().for_each(|slot| slot.step_or_hold(event()));
    }

    /// Like [`Host::step_all`], for the coordinator of partition `index` only.
    pub(crate) fn step_at(&self, index: i32, event: M::Event) {
        if let Some(slot) = self.slots.at(index) {
            slot.step_or_hold(event);
        }
    }

    /// The jobs of all coordinators, for the task that runs them.
    pub(crate) fn take_jobs(&self) -> Option<mpsc::UnboundedReceiver<Job<M>>> {
        self.unclaimed.lock().take()
    }

    /// Steps each coordinator at its deadline; never returns.
    pub(crate) async fn run_clock(&self) {
        let tick = |slot: &Arc<Slot<M>>| slot.step(Signal::Tick.into());
        slots::run_clock(&self.slots, &self.alarm, |slot| &slot.due, tick).await;
    }
}

impl<M: Machine> State<M> {
    /// True if the partition is served, or is being recovered.
    fn is_open(&self) -> bool {
        self.partition.as_ref().is_some_and(|(partition, _)| partition.has_lease()) || self.is_expected
    }

    /// Records that the partition is no longer being recovered or loaded.
    fn expect_no_more(&mut self) -> Vec<M::Event> {
        self.is_expected = false;
        std::mem::take(&mut self.after_load)
    }
}

impl<M: Machine> Slot<M> {
    fn new(machine: M, alarm: Arc<Notify>, jobs: mpsc::UnboundedSender<Job<M>>) -> Self {
        let (partition, leader_epoch, held) = (None, None, None);
        let (term, is_expected, waiting) = (0, false, HashMap::new());
        let state = State {
            machine,
            term,
            leader_epoch,
            held,
            after_load: Vec::new(),
            partition,
            is_expected,
            waiting,
            next_ticket: 0,
            dismissed: HashSet::new(),
            writes: VecDeque::new(),
        };
        Self { state: Mutex::new(state), due: Due::never(alarm), jobs }
    }

    /// Begins a term in the partition's leader epoch. `machine` refuses requests until the load has
    /// ended.
    fn begin_term(self: &Arc<Self>, machine: M, partition: &Partition) -> (i32, u64) {
        let mut state = self.lock();
        // Between two terms another broker may have led, and changed the state since.
        let after_load = std::mem::take(&mut state.after_load);
        let is_first = state.leader_epoch.is_none();
        self.end_term(&mut state);
        let leader_epoch = partition.leadership().leader_epoch();
        state.machine = machine;
        // The former machine has no more responses.
        state.dismissed.clear();
        state.after_load = if is_first { after_load } else { Vec::new() };
        (state.leader_epoch, state.held, state.is_expected) = (Some(leader_epoch), Some(Vec::new()), true);
        (leader_epoch, state.term)
    }

    /// Replays the partition's log into `machine` and opens the coordinator for requests, unless
    /// its term has ended during the replay. If the log cannot be read, the coordinator stays
    /// closed: half of the state would give wrong results. The lock is not held during the
    /// replay.
    ///
    /// Waits until other replicas have the records: another leader without them would make results
    /// wrong. A lost leadership ends the term.
    fn load(self: &Arc<Self>, mut machine: M, partition: &Arc<Partition>, (leader_epoch, term): (i32, u64)) {
        if self.state.lock().term != term {
            return;
        }
        machine.begin(leader_epoch);
        let replayed = replay(partition.log(), |batch| machine.replay(batch));
        let end = partition.log().log_end();
        let Some(led) = partition.led_in(leader_epoch) else { return };
        match led.filter(|led| led.is_uncommitted(end)) {
            None => self.open((machine, replayed), partition, (leader_epoch, term)),
            Some(led) => {
                let (slot, partition) = (self.clone(), partition.clone());
                tokio::spawn(async move {
                    let open = async {
                        if led.wait_while_leading(end).await != Err(CommitFailure::LeadershipLost) {
                            slot.open((machine, replayed), &partition, (leader_epoch, term));
                        }
                    };
                    if caught("load of a coordinator", open).await.is_err() {
                        slot.abandon(term);
                    }
                });
            }
        }
    }

    /// Opens the coordinator for requests, with a machine that has replayed the log.
    fn open(
        self: &Arc<Self>,
        (machine, replayed): (M, Result<(), ReplayError>),
        partition: &Arc<Partition>,
        (leader_epoch, term): (i32, u64),
    ) {
        let mut state = self.lock();
        if state.term != term {
            return;
        }
        let after_load = state.expect_no_more();
        let held = state.held.take().unwrap_or_default();
        match replayed {
            Ok(()) => {
                state.machine = machine;
                state.partition = Some((partition.clone(), leader_epoch));
                held.into_iter().for_each(|event| self.step_locked(&mut state, event));
                self.step_locked(&mut state, Signal::Loaded.into());
                after_load.into_iter().for_each(|event| self.step_locked(&mut state, event));
            }
            Err(error) => tracing::error!(
                partition = partition.name(),
                %error,
                "{} records not loaded; the log must be repaired",
                M::SUBJECT
            ),
        }
    }

    /// Steps the machine with a new ticket; none if its partition is not served.
    fn ask(
        self: &Arc<Self>,
        event: impl FnOnce(Ticket) -> M::Event,
    ) -> Option<(Ticket, oneshot::Receiver<M::Outcome>)> {
        let mut state = self.lock();
        if !state.is_open() {
            return None;
        }
        let ticket = Ticket(state.next_ticket);
        state.next_ticket += 1;
        let (answer, receiver) = oneshot::channel();
        let before = state.waiting.insert(ticket, answer);
        assert!(before.is_none(), "a ticket belongs to one request");
        self.step_locked(&mut state, event(ticket));
        Some((ticket, receiver))
    }

    /// Ends the term, if there is one, and returns true if the coordinator was loaded.
    fn resign(self: &Arc<Self>) -> bool {
        self.end_term(&mut self.lock())
    }

    fn end_term(self: &Arc<Self>, state: &mut State<M>) -> bool {
        let was_loaded = state.partition.is_some();
        self.step_locked(state, Signal::Unload.into());
        state.term += 1;
        (state.leader_epoch, state.held) = (None, None);
        state.expect_no_more();
        was_loaded
    }

    fn step(self: &Arc<Self>, event: M::Event) {
        self.step_locked(&mut self.lock(), event);
    }

    /// Steps the machine of this term; the machine of a later term gets no event.
    fn step_in(self: &Arc<Self>, term: u64, event: M::Event) {
        let mut state = self.lock();
        if state.term == term {
            self.step_locked(&mut state, event);
        }
    }

    /// Steps the machine, after the load if it is being loaded. A load may wait long for replicas,
    /// so that an announcement replaces an earlier one of its type.
    fn step_or_hold(self: &Arc<Self>, event: M::Event) {
        let mut state = self.lock();
        match &mut state.held {
            Some(held) => {
                held.retain(|earlier| discriminant(earlier) != discriminant(&event));
                held.push(event);
            }
            None => self.step_locked(&mut state, event),
        }
    }

    /// Steps the machine if it is loaded, or keeps the event for the machine that will be.
    fn step_loaded_or_hold(self: &Arc<Self>, event: M::Event) {
        let mut state = self.lock();
        if state.is_expected {
            state.after_load.push(event);
        } else if state.partition.is_some() {
            self.step_locked(&mut state, event);
        }
    }

    fn step_locked(self: &Arc<Self>, state: &mut State<M>, event: M::Event) {
        let mut actions = VecDeque::from(state.machine.step(event, clock::now()));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Reply(ticket, outcome) => match state.waiting.remove(&ticket) {
                    // The connection of the request may have closed.
                    Some(answer) => drop(answer.send(outcome)),
                    None => assert!(state.dismissed.remove(&ticket), "a ticket is answered once"),
                },
                Action::Persist(id, payload) => {
                    if let Some(result) = self.persist(state, id, &payload) {
                        let reported = Signal::Persisted(id, result).into();
                        actions.extend(state.machine.step(reported, clock::now()));
                    }
                }
                Action::Work(work) => self.post(state.term, work),
            }
        }
        if state.machine.is_unloaded() {
            state.partition = None;
            assert!(state.waiting.is_empty(), "a coordinator answers every request before it ends");
        }
        self.due.set(state.machine.deadline());
    }

    /// Hands work to the admin thread. After that thread has ended no work is done; the next start
    /// takes it up again.
    fn post(self: &Arc<Self>, term: u64, work: M::Work) {
        let _ = self.jobs.send(Job { slot: self.clone(), term, work });
    }
}
