//! Drives the group coordinators: one seat for each partition of `__consumer_offsets`, with the
//! state machine of [`crate::group`], the tickets that wait for it, and its clock.
//!
//! A seat's lock covers a step of the machine and the hand-over of what it wants persisted to the
//! partition's lane, so that records enter the log in the order of the steps. Nobody waits under it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use levada_log::batch::{self, BatchError, BatchView, Builder, EndMarker, Marker, NO_SEQUENCE};
use levada_log::{Append, AppendError};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use crate::clock::Now;
use crate::clock::now_ms;
use crate::coordinator::replay::{may_be_repeated, replay};
use crate::coordinator::seats::{self, Due, Seats};
use crate::group::coordinator::Replayed;
use crate::group::request::EndTxnRequest;
use crate::group::{
    Action, Coordinator, EncodedRecord, Event, GroupConfig, GroupError, Outcome, OwnSettings, Payload,
    PersistFailure, PersistId, Producer, Request, Ticket, Topics,
};
use crate::metadata::image::{Image, Topic};
use crate::replica::Partition;
use crate::replica::lane::{AppendResult, Submitted};

/// All coordinators of this broker.
pub(crate) struct Groups {
    config: GroupConfig,
    seats: Seats<Seat>,
    alarm: Arc<Notify>,
    /// The topics as the coordinators were last told.
    topics: Mutex<Arc<Image>>,
    /// What groups set for themselves, as the coordinators were last told.
    own_settings: Mutex<Arc<OwnSettings>>,
}

/// One coordinator and those who wait for it.
struct Seat {
    state: Mutex<SeatState>,
    due: Due,
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

impl Groups {
    /// No coordinators: there are as many as `__consumer_offsets` has partitions.
    pub(crate) fn new(config: GroupConfig) -> Self {
        let topics = Mutex::new(Arc::new(Image::empty()));
        Self {
            config,
            seats: Seats::default(),
            alarm: Arc::default(),
            topics,
            own_settings: Mutex::default(),
        }
    }

    /// Sees to it that each of so many partitions has a coordinator, and says how many had one before. The new ones are not loaded.
    pub(crate) fn provide(&self, partitions: usize) -> usize {
        self.seats
            .provide(partitions, || Seat::new(Coordinator::new(self.config.clone()), self.alarm.clone()))
    }

    /// The topic is deleted: everybody who waits is answered, and no coordinator is left.
    pub(crate) fn resign(&self) {
        for seat in self.seats.take().iter() {
            seat.step(Event::Unload);
        }
    }

    /// Asks the coordinator of the request's group and waits for its answer, however long it takes. As long as the group's
    /// partition does not exist, nobody is its coordinator.
    pub(crate) async fn ask<R: Request>(&self, request: R) -> R::Outcome {
        let refused = request.refused(GroupError::NotCoordinator);
        let Some(seat) = self.seat_of(request.group_id()) else { return refused };
        let Some(answer) = seat.ask(|ticket| request.event(ticket)) else { return refused };
        answer.await.ok().and_then(R::outcome).unwrap_or(refused)
    }

    /// Writes the end of a transaction into partition `index` of `__consumer_offsets`; the pending commits of
    /// that transaction become valid or are dropped with it. The only way to write markers there: beside the
    /// coordinator, its memory would not follow its log.
    pub(crate) async fn end_transaction(&self, index: i32, end: EndTxnRequest) -> Result<(), GroupError> {
        let refused = Err(GroupError::CoordinatorNotAvailable);
        let Some(answer) =
            self.seats.at(index).and_then(|seat| seat.ask(|ticket| Event::EndTxn(ticket, end)))
        else {
            return refused;
        };
        match answer.await {
            Ok(Outcome::EndTxn(result)) => result,
            _ => refused,
        }
    }

    /// Looks at the coordinator of `group_id`; none where its partition is not served.
    pub(crate) fn view<T>(&self, group_id: &str, look: impl FnOnce(&Coordinator) -> T) -> Option<T> {
        let seat = self.seat_of(group_id)?;
        let state = seat.state.lock();
        state.is_open().then(|| look(&state.coordinator))
    }

    /// Looks at every coordinator whose partition is served, in turn.
    pub(crate) fn view_all<T>(&self, mut look: impl FnMut(&Coordinator) -> T) -> Vec<T> {
        let seats = self.seats.all();
        let states = seats.iter().map(|seat| seat.state.lock()).filter(|state| state.is_open());
        states.map(|state| look(&state.coordinator)).collect()
    }

    /// The partition of `__consumer_offsets` that `group_id` belongs to; none before the topic exists.
    pub(crate) fn partition_of(&self, group_id: &str) -> Option<i32> {
        self.seats.place(|count| crate::group::partition_for(group_id, count))
    }

    /// Tells every coordinator that topics have come, gone or grown. `latest` is asked when it is this
    /// change's turn, so that no earlier image follows a later one.
    pub(crate) fn topics_changed(&self, latest: impl FnOnce() -> Arc<Image>) {
        let mut topics = self.topics.lock();
        *topics = latest();
        for seat in self.seats.all().iter() {
            seat.step(Event::Topics(topics.clone()));
        }
    }

    /// Tells every coordinator what groups set for themselves from now on.
    pub(crate) fn own_settings_changed(&self, latest: OwnSettings) {
        let mut own_settings = self.own_settings.lock();
        *own_settings = Arc::new(latest);
        for seat in self.seats.all().iter() {
            seat.step(Event::OwnSettings(own_settings.clone()));
        }
    }

    /// Tells every coordinator that partitions were deleted, and their offsets with them.
    pub(crate) fn partitions_deleted(&self, topics: &[(String, Vec<i32>)]) {
        for seat in self.seats.all().iter() {
            seat.step(Event::PartitionsDeleted(topics.to_vec()));
        }
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
        let Some(seat) = self.seats.at(partition.index()) else {
            return tracing::error!(
                partition = partition.name(),
                "no group coordinator for this partition: restart the broker"
            );
        };
        seat.step(Event::Topics(self.topics.lock().clone()));
        seat.step(Event::OwnSettings(self.own_settings.lock().clone()));
        seat.load(partition);
    }

    /// Answers everybody who waits; nothing is served afterwards.
    pub(crate) fn unload(&self) {
        for seat in self.seats.all().iter() {
            seat.step(Event::Unload);
        }
    }

    /// The coordinators' clock: steps each when its deadline is due. Sleeps while there is none.
    pub(crate) async fn run_clock(&self) {
        seats::run_clock(&self.seats, &self.alarm, |seat| &seat.due, |seat| seat.step(Event::Tick)).await;
    }

    fn seat_of(&self, group_id: &str) -> Option<Arc<Seat>> {
        self.seats.at(self.partition_of(group_id)?)
    }
}

impl SeatState {
    /// Its partition is served, or will be.
    fn is_open(&self) -> bool {
        self.partition.is_some() || self.is_expected
    }
}

impl Seat {
    fn new(coordinator: Coordinator, alarm: Arc<Notify>) -> Self {
        let state = SeatState {
            coordinator,
            partition: None,
            is_expected: false,
            waiting: HashMap::new(),
            next_ticket: 0,
        };
        Self { state: Mutex::new(state), due: Due::never(alarm) }
    }

    /// Replays the partition's log and opens the coordinator for requests. Should the log not be
    /// readable, the coordinator stays closed: better no answer than a wrong position.
    fn load(self: &Arc<Self>, partition: &Arc<Partition>) {
        let mut state = self.state.lock();
        state.is_expected = false;
        let coordinator = &mut state.coordinator;
        match replay(partition.log(), |batch| replay_batch(coordinator, batch)) {
            Ok(()) => {
                state.partition = Some(partition.clone());
                self.step_locked(&mut state, Event::Loaded);
            }
            Err(error) => {
                tracing::error!(partition = partition.name(), %error, "groups not loaded; the log must be repaired");
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
                Action::Persist(id, payload) => {
                    if let Some(result) = self.persist(state, id, &payload) {
                        actions.extend(state.coordinator.step(Event::Persisted(id, result), Now::read()));
                    }
                }
            }
        }
        if state.coordinator.is_unloaded() {
            state.partition = None;
        }
        self.due.set(state.coordinator.deadline());
    }

    /// Appends a batch; the result at once, or none if it will be stepped when it is known.
    fn persist(
        self: &Arc<Self>,
        state: &SeatState,
        id: PersistId,
        payload: &Payload,
    ) -> Option<Result<i64, PersistFailure>> {
        let Some(partition) = &state.partition else { return Some(Err(PersistFailure::Unavailable)) };
        // As in Kafka: what no topic takes, its own does not take either.
        let limit_bytes = partition.config().max_message_bytes as usize;
        if payload.largest_record_bytes() > limit_bytes {
            return Some(Err(PersistFailure::TooLarge));
        }
        let now = now_ms();
        let Ok(batch) = batch(payload, now) else { return Some(Err(PersistFailure::Lost)) };
        match partition.append(batch, now) {
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

/// What a coordinator wants appended, as a batch.
fn batch(payload: &Payload, now_ms: i64) -> std::io::Result<Append> {
    let build = |mut batch: Builder, records: &[EncodedRecord]| {
        for record in records {
            batch.push(now_ms, Some(&record.key), record.value.as_deref());
        }
        Ok(Append::coordinator(batch.build()?))
    };
    match payload {
        Payload::Records(records) => build(Builder::new(), records),
        Payload::Transactional(Producer { id, epoch }, records) => {
            build(Builder::new().producer(*id, *epoch, NO_SEQUENCE).transactional(), records)
        }
        Payload::Marker(end) => {
            let marker = EndMarker {
                marker: if end.commit { Marker::Commit } else { Marker::Abort },
                producer_id: end.producer.id,
                producer_epoch: end.producer.epoch,
                coordinator_epoch: end.coordinator_epoch,
                timestamp_ms: now_ms,
            };
            let transaction_version = end.transaction_version;
            Ok(Append { transaction_version, ..Append::coordinator(marker.build()?) })
        }
    }
}

impl Topics for Image {
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
        let topic = self.topic(name)?;
        Some((Uuid::from_bytes(topic.id().to_bytes()), partition_count(topic)))
    }

    fn by_id(&self, id: Uuid) -> Option<(String, i32)> {
        let topic = self.topic_by_id(levada_wire::Uuid::from_bytes(id.into_bytes()))?;
        Some((topic.name().to_string(), partition_count(topic)))
    }

    fn names(&self) -> Vec<String> {
        self.topics().iter().map(|topic| topic.name().to_string()).collect()
    }

    fn version(&self) -> i64 {
        self.offset()
    }
}

fn partition_count(topic: &Topic) -> i32 {
    i32::try_from(topic.partition_count()).expect("partitions are numbered with 32 bits")
}

fn replay_batch(coordinator: &mut Coordinator, batch: &BatchView<'_>) -> Result<(), BatchError> {
    if batch.is_control() {
        if let Some(end) = EndMarker::parse(batch.bytes()) {
            coordinator.replay_marker(end.producer_id, matches!(end.marker, Marker::Commit));
        }
        return Ok(());
    }
    let transaction = batch.is_transactional().then(|| batch.producer_id());
    for record in batch::records(batch.bytes())? {
        let record = record?;
        let offset = batch.base_offset() + i64::from(record.offset_delta);
        let replayed =
            Replayed { offset, transaction, key: record.key.unwrap_or_default(), value: record.value };
        if let Err(error) = coordinator.replay(replayed) {
            tracing::warn!(offset, %error, "a group record is not understood and is passed over");
        }
    }
    Ok(())
}

fn persisted(partition: &Partition, result: AppendResult) -> Result<i64, PersistFailure> {
    result.map(|appended| appended.base_offset).map_err(|error| match error {
        AppendError::ProducerEpoch { .. } => PersistFailure::ProducerFenced,
        AppendError::CoordinatorEpoch { .. } => PersistFailure::CoordinatorFenced,
        AppendError::TransactionState { .. } | AppendError::OutOfOrderSequence { .. } => {
            PersistFailure::TransactionState
        }
        AppendError::TooLarge { .. } | AppendError::LargerThanSegment { .. } => PersistFailure::TooLarge,
        // The lane tells the operator.
        AppendError::Storage(error) if may_be_repeated(partition, &error) => PersistFailure::Unavailable,
        AppendError::Batch(_) | AppendError::Storage(_) => {
            tracing::error!(partition = partition.name(), %error, "group records not stored; its coordinator serves no more until the broker is restarted");
            PersistFailure::Lost
        }
    })
}
