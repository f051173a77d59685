//! The host of a coordinator's state machine: one slot for each partition of the topic, with the
//! machine, the requests that wait for it, and the time of its next alarm.
//!
//! A slot's lock covers a step of the machine and the hand-over of its records to the partition's
//! append lane, so that records enter the log in the order of the steps. No thread waits under it.
//! Work that takes longer (markers, producer ids) is a [`Job`] for the admin thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use levada_log::{Append, AppendError};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{Now, now_ms};
use crate::coordinator::replay::{may_be_repeated, replay};
use crate::coordinator::slots::{self, Due, Slots};
use crate::machine::{
    Action, Keyed, Machine, PersistFailure, PersistId, Request, Signal, Ticket, partition_for,
};
use crate::replica::Partition;
use crate::replica::lane::{AppendResult, Submitted};

/// The coordinators of one kind on this broker.
pub(crate) struct Host<M: Machine> {
    settings: M::Settings,
    slots: Slots<Slot<M>>,
    alarm: Arc<Notify>,
    jobs: mpsc::UnboundedSender<Job<M>>,
    unclaimed: Mutex<Option<mpsc::UnboundedReceiver<Job<M>>>>,
}

/// Work outside the coordinator, and the coordinator that hears of its end.
pub(crate) struct Job<M: Machine> {
    slot: Arc<Slot<M>>,
    work: M::Work,
}

/// One coordinator and the requests that wait for it.
struct Slot<M: Machine> {
    state: Mutex<State<M>>,
    due: Due,
    jobs: mpsc::UnboundedSender<Job<M>>,
}

struct State<M: Machine> {
    machine: M,
    /// The machine's partition, and the leader epoch in which it was loaded; none until then, and
    /// after it is unloaded.
    partition: Option<(Arc<Partition>, i32)>,
    /// The partition is being recovered.
    is_expected: bool,
    waiting: HashMap<Ticket, oneshot::Sender<M::Outcome>>,
    next_ticket: u64,
}

impl<M: Machine> Host<M> {
    /// No coordinators: there are as many as the topic has partitions.
    pub(crate) fn new(settings: M::Settings) -> Self {
        let (jobs, receiver) = mpsc::unbounded_channel();
        let unclaimed = Mutex::new(Some(receiver));
        Self { settings, slots: Slots::default(), alarm: Arc::default(), jobs, unclaimed }
    }

    /// Makes a coordinator for each of so many partitions that has none, and returns how many had
    /// one before. The new ones are not loaded.
    pub(crate) fn provide(&self, partitions: usize) -> usize {
        let make = || Slot::new(M::new(&self.settings), self.alarm.clone(), self.jobs.clone());
        self.slots.provide(partitions, make)
    }

    /// Removes all coordinators, because the topic is deleted. Every waiting request is answered.
    pub(crate) fn resign(&self) {
        let slots = self.slots.take();
        slots.iter().for_each(|slot| slot.step(Signal::Unload.into()));
        tracing::info!(
            partitions = slots.len(),
            "{} coordinators resigned: their topic is deleted",
            M::SUBJECT
        );
    }

    /// Answers every waiting request; nothing is served afterwards.
    pub(crate) fn unload(&self) {
        self.slots.all().iter().for_each(|slot| slot.step(Signal::Unload.into()));
    }

    /// Partition of the topic that a key belongs to; none before the topic exists.
    pub(crate) fn partition_of(&self, key: &str) -> Option<i32> {
        Some(self.slots.count()).filter(|count| *count > 0).map(|count| partition_for(key, count))
    }

    /// Asks the coordinator of the request's key and waits for its answer, however long it takes.
    /// Without a partition for the key the request is refused.
    pub(crate) async fn ask<R: Request<M> + Keyed>(&self, request: R) -> R::Answer {
        let index = self.partition_of(request.key());
        self.ask_at(index, request, M::NOT_COORDINATOR).await
    }

    /// Asks the coordinator of partition `index`, as [`Host::ask`]; `refusal` is the error while it
    /// does not serve.
    pub(crate) async fn ask_at<R: Request<M>>(
        &self,
        index: Option<i32>,
        request: R,
        refusal: M::Error,
    ) -> R::Answer {
        let refused = request.refused(refusal);
        let slot = index.and_then(|index| self.slots.at(index));
        let Some(answer) = slot.and_then(|slot| slot.ask(|ticket| request.event(ticket))) else {
            return refused;
        };
        answer.await.ok().and_then(R::answer).unwrap_or(refused)
    }

    /// Looks at the coordinator of `key`; none where its partition is not served.
    pub(crate) fn view<T>(&self, key: &str, look: impl FnOnce(&M) -> T) -> Option<T> {
        let slot = self.slots.at(self.partition_of(key)?)?;
        let state = slot.state.lock();
        state.is_open().then(|| look(&state.machine))
    }

    /// Looks at every coordinator whose partition is served, in turn.
    pub(crate) fn view_all<T>(&self, mut look: impl FnMut(&M) -> T) -> Vec<T> {
        let slots = self.slots.all();
        let states = slots.iter().map(|slot| slot.state.lock()).filter(|state| state.is_open());
        states.map(|state| look(&state.machine)).collect()
    }

    /// Steps every coordinator, loaded or not.
    pub(crate) fn tell_all(&self, event: impl Fn() -> M::Event) {
        self.slots.all().iter().for_each(|slot| slot.step(event()));
    }

    /// Steps the coordinator of partition `index`, loaded or not.
    pub(crate) fn tell(&self, index: i32, event: M::Event) {
        if let Some(slot) = self.slots.at(index) {
            slot.step(event);
        }
    }

    /// Marks the coordinator of partition `index` as loading, until its partition is recovered.
    pub(crate) fn expect(&self, index: i32) {
        if let Some(slot) = self.slots.at(index) {
            slot.state.lock().is_expected = true;
        }
    }

    /// Takes the mark of [`Host::expect`] back.
    pub(crate) fn give_up(&self, index: i32) {
        if let Some(slot) = self.slots.at(index) {
            slot.state.lock().is_expected = false;
        }
    }

    /// Replays `partition` into its coordinator, which must have been provided, and opens it for
    /// requests.
    pub(crate) fn load(&self, partition: &Arc<Partition>) {
        match self.slots.at(partition.index()) {
            Some(slot) => {
                slot.load(partition);
                self.tell_if_complete();
            }
            None => tracing::error!(
                partition = partition.name(),
                "no {} coordinator for this partition: restart the broker",
                M::SUBJECT
            ),
        }
    }

    /// Writes a line of the log when the last coordinator of the topic has been loaded.
    fn tell_if_complete(&self) {
        let slots = self.slots.all();
        if slots.iter().all(|slot| slot.state.lock().partition.is_some()) {
            tracing::info!(partitions = slots.len(), "{} coordinators of all partitions serve", M::SUBJECT);
        }
    }

    /// The jobs of all coordinators, for the one that does them.
    pub(crate) fn take_jobs(&self) -> Option<mpsc::UnboundedReceiver<Job<M>>> {
        self.unclaimed.lock().take()
    }

    /// Steps each coordinator when its deadline is due. Sleeps while there is none; never returns.
    pub(crate) async fn run_clock(&self) {
        let tick = |slot: &Arc<Slot<M>>| slot.step(Signal::Tick.into());
        slots::run_clock(&self.slots, &self.alarm, |slot| &slot.due, tick).await;
    }
}

impl<M: Machine> Job<M> {
    /// The work.
    pub(crate) fn work(&self) -> &M::Work {
        &self.work
    }

    /// Tells the coordinator how the work has ended.
    pub(crate) fn done(self, event: M::Event) {
        self.slot.step(event);
    }
}

impl<M: Machine> State<M> {
    /// True if the partition is served, or is being recovered.
    fn is_open(&self) -> bool {
        self.partition.is_some() || self.is_expected
    }
}

impl<M: Machine> Slot<M> {
    fn new(machine: M, alarm: Arc<Notify>, jobs: mpsc::UnboundedSender<Job<M>>) -> Self {
        let state =
            State { machine, partition: None, is_expected: false, waiting: HashMap::new(), next_ticket: 0 };
        Self { state: Mutex::new(state), due: Due::never(alarm), jobs }
    }

    /// Replays the partition's log and opens the coordinator for requests. If the log cannot be
    /// read, the coordinator stays closed: no answer is better than one from half of the state.
    fn load(self: &Arc<Self>, partition: &Arc<Partition>) {
        let mut state = self.state.lock();
        state.is_expected = false;
        let machine = &mut state.machine;
        let leader_epoch = partition.leadership().leader_epoch();
        machine.begin(leader_epoch);
        match replay(partition.log(), |batch| machine.replay(batch)) {
            Ok(()) => {
                state.partition = Some((partition.clone(), leader_epoch));
                self.step_locked(&mut state, Signal::Loaded.into());
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
    ) -> Option<oneshot::Receiver<M::Outcome>> {
        let mut state = self.state.lock();
        if !state.is_open() {
            return None;
        }
        let ticket = Ticket(state.next_ticket);
        state.next_ticket += 1;
        let (answer, receiver) = oneshot::channel();
        let before = state.waiting.insert(ticket, answer);
        assert!(before.is_none(), "a ticket belongs to one request");
        self.step_locked(&mut state, event(ticket));
        Some(receiver)
    }

    fn step(self: &Arc<Self>, event: M::Event) {
        self.step_locked(&mut self.state.lock(), event);
    }

    fn step_locked(self: &Arc<Self>, state: &mut State<M>, event: M::Event) {
        let mut actions = VecDeque::from(state.machine.step(event, Now::read()));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Reply(ticket, outcome) => {
                    let answer = state.waiting.remove(&ticket).expect("a ticket is answered once");
                    // The connection that asked may be gone.
                    let _ = answer.send(outcome);
                }
                Action::Persist(id, payload) => {
                    if let Some(result) = self.persist(state, id, &payload) {
                        let reported = Signal::Persisted(id, result).into();
                        actions.extend(state.machine.step(reported, Now::read()));
                    }
                }
                Action::Work(work) => self.post(work),
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
    fn post(self: &Arc<Self>, work: M::Work) {
        let _ = self.jobs.send(Job { slot: self.clone(), work });
    }

    /// Appends a batch; returns the result, or none if a later step reports it.
    fn persist(
        self: &Arc<Self>,
        state: &State<M>,
        id: PersistId,
        payload: &M::Payload,
    ) -> Option<Result<i64, PersistFailure>> {
        let Some((partition, leader_epoch)) = &state.partition else {
            return Some(Err(PersistFailure::Unavailable));
        };
        let now = now_ms();
        let limit_bytes = partition.config().max_message_bytes as usize;
        let batch = match M::batch(payload, limit_bytes, now) {
            Ok(batch) => Append { leader_epoch: *leader_epoch, ..batch },
            Err(failure) => return Some(Err(failure)),
        };
        match partition.append(batch, now) {
            Submitted::Done(result) => Some(stored::<M>(partition, result)),
            queued => {
                let (slot, partition) = (self.clone(), partition.clone());
                tokio::spawn(async move {
                    let result = stored::<M>(&partition, queued.wait().await);
                    slot.step(Signal::Persisted(id, result).into());
                });
                None
            }
        }
    }
}

/// The result of an append as the machine is told: the base offset, or the one classification of
/// failures.
fn stored<M: Machine>(partition: &Partition, result: AppendResult) -> Result<i64, PersistFailure> {
    result.map(|appended| appended.base_offset).map_err(|error| match error {
        AppendError::ProducerEpoch { .. } => PersistFailure::ProducerFenced,
        AppendError::CoordinatorEpoch { .. } => PersistFailure::CoordinatorFenced,
        AppendError::TransactionState { .. } | AppendError::OutOfOrderSequence { .. } => {
            PersistFailure::TransactionState
        }
        AppendError::TooLarge { .. } | AppendError::LargerThanSegment { .. } => PersistFailure::TooLarge,
        // Nothing of it is in the log; the coordinator of another epoch goes on from there.
        AppendError::LeaderEpoch { .. } => PersistFailure::Unavailable,
        // The lane tells the operator.
        AppendError::Storage(error) if may_be_repeated(partition, &error) => PersistFailure::Unavailable,
        AppendError::Batch(_) | AppendError::Storage(_) => {
            tracing::error!(
                partition = partition.name(),
                %error,
                "{} records not stored; its coordinator serves no more until the broker is restarted",
                M::SUBJECT
            );
            PersistFailure::Lost
        }
    })
}
