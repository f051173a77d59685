//! The contract between a coordinator's state machine and its host.
//!
//! A [`Machine`] holds the state of a coordinator, which lives in the records of one partition. An
//! event and the time go in, actions come out; the machine owns no clock, socket or disk.
//! [`crate::group`] and [`crate::txn`] have one machine each. `coordinator` hosts them: it replays
//! the partition's log, brings requests and alarms, appends the records of the machine, and sends
//! the responses.

use bytes::Bytes;
use levada_base::Append;
use levada_base::batch::{BatchError, BatchView};

use levada_base::Now;

/// The host's name for one waiting request; opaque to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The machine's name for one append; opaque to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersistId(pub u64);

/// Key and value of a record of a coordinator's partition, in Kafka's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRecord {
    /// The key; never empty.
    pub key: Bytes,
    /// The value; none for a tombstone.
    pub value: Option<Bytes>,
}

/// Reason why a coordinator's records were not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersistFailure {
    /// The partition cannot take records now: its disk is full, it does not exist yet, too few
    /// replicas are in sync, or another broker leads it. The log is unchanged, unless the
    /// leadership has ended: then the next leader may have the records, and this machine is about
    /// to be unloaded.
    #[error("the coordinator's partition accepts no records now")]
    Unavailable,
    /// The partition was deleted, or its disk has failed. It is unknown if the log contains the
    /// records, and it accepts no more. The machine unloads itself.
    #[error("the coordinator's partition can no longer be written")]
    Lost,
    /// The batch is larger than the partition accepts.
    #[error("the records are larger than the coordinator's partition accepts")]
    TooLarge,
    /// The transactional producer has been replaced by one with a later epoch.
    #[error("the producer has been replaced by one with a later epoch")]
    ProducerFenced,
    /// The producer's transaction does not allow the append.
    #[error("the state of the transaction does not allow this write")]
    TransactionState,
    /// The transaction coordinator has been replaced by one with a later epoch.
    #[error("the transaction coordinator has been replaced")]
    CoordinatorFenced,
}

/// Reason for which a coordinator's log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFault {
    /// A batch is damaged.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A record of a kind that this broker knows has a form that it does not know.
    #[error("{error} (offset {offset}): a newer broker has written it; upgrade Levada")]
    Newer {
        /// Offset of the record.
        offset: i64,
        /// The part that cannot be decoded, and its version.
        error: String,
    },
}

/// Events that every machine understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The records of an [`Action::Persist`] are in the log from this offset on, or were not
    /// appended.
    Persisted(PersistId, Result<i64, PersistFailure>),
    /// The records of this [`Action::Persist`] were not replicated within the longest wait of a
    /// request. They are not abandoned: the report of their end follows.
    Overdue(PersistId),
    /// Every record of the partition has been replayed: serve.
    Loaded,
    /// This broker is no longer the coordinator: respond to all requests and drop the state.
    Unload,
    /// [`Machine::deadline`] has passed.
    Tick,
}

/// An order of a machine to its host. The host carries orders out in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<O, P, W> {
    /// Respond to the request with this ticket. Every ticket gets exactly one response.
    Reply(Ticket, O),
    /// Append this as one batch to the coordinator's partition, in the order of the actions, and
    /// report [`Signal::Persisted`] with this id.
    Persist(PersistId, P),
    /// Work outside the coordinator; an event of the machine's own reports its end.
    Work(W),
}

/// The actions of a machine.
pub type ActionOf<M> = Action<<M as Machine>::Outcome, <M as Machine>::Payload, <M as Machine>::Work>;

/// A coordinator's state machine.
pub trait Machine: Sized + Send + 'static {
    /// The subject of its records, for the log: "group".
    const SUBJECT: &'static str;

    /// The refusal while no machine serves the key.
    const NOT_COORDINATOR: Self::Error;

    /// Settings of the machine.
    type Settings: Clone + Send + Sync;

    /// Input of [`Machine::step`].
    type Event: From<Signal> + Send;

    /// Response to a request of any type.
    type Outcome: Send;

    /// One batch to append.
    type Payload;

    /// Work that the machine waits for outside its partition.
    type Work: Send;

    /// Refusal of a request.
    type Error: Copy;

    /// A machine before the replay of its log.
    fn new(settings: &Self::Settings) -> Self;

    /// Prepares for the replay of a log whose partition is led in this epoch.
    fn begin(&mut self, leader_epoch: i32);

    /// Applies one batch of the log; only between [`Machine::begin`] and [`Signal::Loaded`].
    ///
    /// # Errors
    /// If the batch is damaged, or a newer broker has written a record of a known kind in a form
    /// that this one does not know: without it the state would be wrong. A record that is damaged
    /// or of an unknown kind is passed over.
    fn replay(&mut self, batch: &BatchView<'_>) -> Result<(), ReplayFault>;

    /// Applies an event that happened `now`. Never blocks.
    fn step(&mut self, event: Self::Event, now: Now) -> Vec<ActionOf<Self>>;

    /// Latest time of the next [`Signal::Tick`], by the monotonic clock; none while the machine
    /// waits for events only.
    fn deadline(&self) -> Option<i64>;

    /// True once the machine has been unloaded.
    fn is_unloaded(&self) -> bool;

    /// The batch of a payload, for a partition that takes messages up to `limit_bytes`.
    ///
    /// # Errors
    /// If it cannot be appended.
    fn batch(payload: &Self::Payload, limit_bytes: usize, now_ms: i64) -> Result<Append, PersistFailure>;
}

/// A request that waits for a response.
pub trait Request<M: Machine>: Sized {
    /// Response to a request of this type.
    type Answer;

    /// True if the host refuses the request after some seconds without a response. False if the
    /// request waits for other members.
    const HAS_LIMIT: bool = true;

    /// The event that carries the request to the machine.
    fn event(self, ticket: Ticket) -> M::Event;

    /// The response in an outcome; none if the outcome belongs to a request of another type.
    fn answer(outcome: M::Outcome) -> Option<Self::Answer>;

    /// The response that refuses the whole request.
    fn refused(&self, error: M::Error) -> Self::Answer;
}

/// A request about a key that determines its coordinator.
pub trait Keyed {
    /// The group id, or the transactional id. For a request about several groups, the first one:
    /// the caller has sorted them by partition.
    fn key(&self) -> &str;
}

/// The partition that coordinates a key, of `partitions` (at least 1): Java's hash of the key, as
/// every Kafka broker computes it.
pub fn partition_for(key: &str, partitions: i32) -> i32 {
    let units = key.encode_utf16().map(i32::from);
    let hash = units.fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit));
    hash.checked_abs().unwrap_or(0) % partitions.max(1)
}
