//! Drives the transaction coordinators: one seat for each partition of `__transaction_state`, with the
//! state machine of [`crate::txn`], the tickets that wait for it, and its clock.
//!
//! A seat's lock covers a step of the machine and the hand-over of what it wants persisted to the
//! partition's lane, so that records enter the log in the order of the steps. Nobody waits under it. What
//! takes longer (markers, producer ids) is a job for the admin thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use levada_log::batch::{self, BatchError, BatchView, Builder};
use levada_log::{Append, AppendError};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::Now;
use crate::clock::now_ms;
use crate::coordinator::replay::{may_be_repeated, replay};
use crate::coordinator::seats::{self, Due, Seats};
use crate::replica::Partition;
use crate::replica::lane::{AppendResult, Submitted};
use crate::txn::event::{MarkerResult, Markers, MarkersId};
use crate::txn::{
    Action, Coordinator, EncodedRecord, Event, Outcome, PersistFailure, PersistId, Request, Ticket,
    TopicPartition, TxnConfig, TxnError,
};

/// All coordinators of this broker.
pub(crate) struct Txns {
    config: TxnConfig,
    seats: Seats<Seat>,
    alarm: Arc<Notify>,
    jobs: mpsc::UnboundedSender<Job>,
    unclaimed: Mutex<Option<mpsc::UnboundedReceiver<Job>>>,
}

/// What a coordinator waits for without anybody asking.
pub(crate) enum Job {
    /// Markers are to be written.
    Markers(Pending<(MarkersId, Markers)>),
    /// A producer id is to be found.
    ProducerId(Pending<()>),
}

/// A job's subject, and the coordinator that will be told of its end.
pub(crate) struct Pending<T> {
    seat: Arc<Seat>,
    subject: T,
}

/// One coordinator and those who wait for it.
struct Seat {
    state: Mutex<SeatState>,
    config: TxnConfig,
    due: Due,
    jobs: mpsc::UnboundedSender<Job>,
}

struct SeatState {
    coordinator: Coordinator,
    /// Its partition; none until the topic exists.
    partition: Option<Arc<Partition>>,
    /// Its partition is being recovered.
    is_expected: bool,
    waiting: HashMap<Ticket, oneshot::Sender<Outcome>>,
    next_ticket: u64,
}

impl Txns {
    /// No coordinators: there are as many as `__transaction_state` has partitions.
    pub(crate) fn new(config: TxnConfig) -> Self {
        let (jobs, receiver) = mpsc::unbounded_channel();
        let unclaimed = Mutex::new(Some(receiver));
        Self { config, seats: Seats::default(), alarm: Arc::default(), jobs, unclaimed }
    }

    /// Sees to it that each of so many partitions has a coordinator, and says how many had one before. The new ones are not loaded.
    pub(crate) fn provide(&self, partitions: usize) -> usize {
        self.seats
            .provide(partitions, || Seat::new(self.config.clone(), self.alarm.clone(), self.jobs.clone()))
    }

    /// The topic is deleted: everybody who waits is answered, and no coordinator is left.
    pub(crate) fn resign(&self) {
        for seat in self.seats.take().iter() {
            seat.step(Event::Unload);
        }
    }

    /// The partition of `__transaction_state` that `transactional_id` belongs to; none before the topic exists.
    pub(crate) fn partition_of(&self, transactional_id: &str) -> Option<i32> {
        self.seats.place(|count| crate::txn::partition_for(transactional_id, count))
    }

    /// Asks the coordinator of the request's transactional id and waits for its answer.
    pub(crate) async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, TxnError> {
        let seat = self.seat_of(request.transactional_id()).ok_or(TxnError::NotCoordinator)?;
        let answer = seat.ask(|ticket| request.event(ticket)).ok_or(TxnError::NotCoordinator)?;
        answer.await.ok().and_then(R::outcome).unwrap_or(Err(TxnError::NotCoordinator))
    }

    /// Looks at the coordinator of `transactional_id`; none where its partition is not served.
    pub(crate) fn view<T>(&self, transactional_id: &str, look: impl FnOnce(&Coordinator) -> T) -> Option<T> {
        let seat = self.seat_of(transactional_id)?;
        let state = seat.state.lock();
        state.is_open().then(|| look(&state.coordinator))
    }

    /// Looks at every coordinator whose partition is served, in turn.
    pub(crate) fn view_all<T>(&self, mut look: impl FnMut(&Coordinator) -> T) -> Vec<T> {
        let seats = self.seats.all();
        let states = seats.iter().map(|seat| seat.state.lock()).filter(|state| state.is_open());
        states.map(|state| look(&state.coordinator)).collect()
    }

    /// The coordinator of partition `index` is loading from now on, until its partition is recovered.
    pub(crate) fn expect(&self, index: i32) {
        if let Some(seat) = self.seats.at(index) {
            seat.state.lock().is_expected = true;
        }
    }

    /// The coordinator of partition `index` is not expected any more.
    pub(crate) fn give_up(&self, index: i32) {
        if let Some(seat) = self.seats.at(index) {
            seat.state.lock().is_expected = false;
        }
    }

    /// Replays `partition` into its coordinator, which must have been provided, and opens it for requests.
    pub(crate) fn load(&self, partition: &Arc<Partition>) {
        match self.seats.at(partition.index()) {
            Some(seat) => seat.load(partition),
            None => {
                tracing::error!(
                    partition = partition.name(),
                    "no transaction coordinator for this partition: restart the broker"
                );
            }
        }
    }

    /// Answers everybody who waits; nothing is served afterwards.
    pub(crate) fn unload(&self) {
        for seat in self.seats.all().iter() {
            seat.step(Event::Unload);
        }
    }

    /// The jobs of all coordinators, for the one who does them.
    pub(crate) fn take_jobs(&self) -> Option<mpsc::UnboundedReceiver<Job>> {
        self.unclaimed.lock().take()
    }

    /// The coordinators' clock: steps each when its deadline is due. Sleeps while there is none.
    pub(crate) async fn run_clock(&self) {
        seats::run_clock(&self.seats, &self.alarm, |seat| &seat.due, |seat| seat.step(Event::Tick)).await;
    }

    fn seat_of(&self, transactional_id: &str) -> Option<Arc<Seat>> {
        self.seats.at(self.partition_of(transactional_id)?)
    }
}

impl SeatState {
    /// Its partition is served, or will be.
    fn is_open(&self) -> bool {
        self.partition.is_some() || self.is_expected
    }
}

impl Pending<(MarkersId, Markers)> {
    /// The markers to write.
    pub(crate) fn markers(&self) -> &Markers {
        &self.subject.1
    }

    /// The markers are written, or not.
    pub(crate) fn done(self, results: Vec<(TopicPartition, MarkerResult)>) {
        self.seat.step(Event::MarkersWritten(self.subject.0, results));
    }
}

impl Pending<()> {
    /// There is a producer id, or none can be had now.
    pub(crate) fn done(self, result: Result<i64, TxnError>) {
        self.seat.step(Event::ProducerId(result));
    }
}

impl Seat {
    fn new(config: TxnConfig, alarm: Arc<Notify>, jobs: mpsc::UnboundedSender<Job>) -> Self {
        let coordinator = Coordinator::new(config.clone(), 0);
        let state = SeatState {
            coordinator,
            partition: None,
            is_expected: false,
            waiting: HashMap::new(),
            next_ticket: 0,
        };
        Self { state: Mutex::new(state), config, due: Due::never(alarm), jobs }
    }

    /// Replays the partition's log and opens the coordinator for requests. Should the log not be
    /// readable, the coordinator stays closed: better no answer than a forgotten decision.
    fn load(self: &Arc<Self>, partition: &Arc<Partition>) {
        let mut state = self.state.lock();
        state.is_expected = false;
        state.coordinator = Coordinator::new(self.config.clone(), partition.leader_epoch());
        let coordinator = &mut state.coordinator;
        match replay(partition.log(), |batch| replay_batch(coordinator, batch)) {
            Ok(()) => {
                state.partition = Some(partition.clone());
                self.step_locked(&mut state, Event::Loaded);
            }
            Err(error) => {
                tracing::error!(partition = partition.name(), %error, "transactions not loaded; the log must be repaired");
            }
        }
    }

    /// Steps the coordinator with a new ticket; none if its partition does not exist.
    fn ask(self: &Arc<Self>, event: impl FnOnce(Ticket) -> Event) -> Option<oneshot::Receiver<Outcome>> {
        let mut state = self.state.lock();
        if !state.is_open() {
            return None;
        }
        let ticket = Ticket(state.next_ticket);
        state.next_ticket += 1;
        let (answer, receiver) = oneshot::channel();
        state.waiting.insert(ticket, answer);
        self.step_locked(&mut state, event(ticket));
        Some(receiver)
    }

    fn step(self: &Arc<Self>, event: Event) {
        self.step_locked(&mut self.state.lock(), event);
    }

    fn step_locked(self: &Arc<Self>, state: &mut SeatState, event: Event) {
        let mut actions = VecDeque::from(state.coordinator.step(event, Now::read()));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Reply(ticket, outcome) => {
                    let answer = state.waiting.remove(&ticket).expect("a ticket is answered once");
                    // The connection that asked may be gone.
                    let _ = answer.send(outcome);
                }
                Action::Persist(id, records) => {
                    if let Some(result) = self.persist(state, id, &records) {
                        actions.extend(state.coordinator.step(Event::Persisted(id, result), Now::read()));
                    }
                }
                Action::WriteMarkers(id, markers) => {
                    self.post(Job::Markers(Pending { seat: self.clone(), subject: (id, markers) }));
                }
                Action::NeedProducerId => {
                    self.post(Job::ProducerId(Pending { seat: self.clone(), subject: () }));
                }
            }
        }
        if state.coordinator.is_unloaded() {
            state.partition = None;
        }
        self.due.set(state.coordinator.deadline());
    }

    /// Once the admin thread has ended nothing is done any more; the next start takes decisions up again.
    fn post(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    /// Appends records; the result at once, or none if it will be stepped when it is known.
    fn persist(
        self: &Arc<Self>,
        state: &SeatState,
        id: PersistId,
        records: &[EncodedRecord],
    ) -> Option<Result<(), PersistFailure>> {
        let Some(partition) = &state.partition else { return Some(Err(PersistFailure::Unavailable)) };
        let now = now_ms();
        let mut batch = Builder::new();
        for record in records {
            batch.push(now, Some(&record.key), record.value.as_deref());
        }
        let Ok(batch) = batch.build() else { return Some(Err(PersistFailure::Lost)) };
        match partition.append(Append::coordinator(batch), now) {
            Submitted::Done(result) => Some(persisted(partition, result)),
            queued => {
                let (seat, partition) = (self.clone(), partition.clone());
                tokio::spawn(async move {
                    let result = persisted(&partition, queued.wait().await);
                    seat.step(Event::Persisted(id, result));
                });
                None
            }
        }
    }
}

fn replay_batch(coordinator: &mut Coordinator, batch: &BatchView<'_>) -> Result<(), BatchError> {
    if batch.is_control() {
        return Ok(());
    }
    for record in batch::records(batch.bytes())? {
        let record = record?;
        let offset = batch.base_offset() + i64::from(record.offset_delta);
        if let Err(error) = coordinator.replay(record.key.unwrap_or_default(), record.value) {
            tracing::warn!(offset, %error, "a transaction record is not understood and is passed over");
        }
    }
    Ok(())
}

fn persisted(partition: &Partition, result: AppendResult) -> Result<(), PersistFailure> {
    result.map(drop).map_err(|error| match error {
        AppendError::TooLarge { .. } | AppendError::LargerThanSegment { .. } => PersistFailure::TooLarge,
        // The lane tells the operator.
        AppendError::Storage(error) if may_be_repeated(partition, &error) => {
            PersistFailure::Unavailable
        }
        error => {
            tracing::error!(partition = partition.name(), %error, "transaction records not stored; its coordinator serves no more until the broker is restarted");
            PersistFailure::Lost
        }
    })
}
