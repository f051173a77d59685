//! The remote side of a history: the objects of a store, and the records of the metadata topic.
//! Each change waits for the history, which decides if it takes effect and how it is answered. The
//! world checks each effect.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use bytes::Bytes;
use levada_base::batch::{Builder, assign};
use levada_remote::{ObjectEntry, RemoteError, RemoteErrorKind, StandIn, Store, StoreChange};
use levada_tiered::record::encode;
use levada_tiered::{RemoteRecord, RemoteSegment, SegmentState, StoreLayout};
use levada_wire::Uuid;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// First part of the keys of objects that are not of segments.
const OWN: &str = ".levada/";

/// Number of a process, unique in a history.
pub(super) type Life = u64;

/// Change of the remote side.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Store(StoreChange),
    Append(RemoteRecord),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(StoreChange::Put(key, _)) => write!(f, "put {key}"),
            Self::Store(StoreChange::Delete(keys)) => write!(f, "delete {}", keys.join(" ")),
            Self::Append(RemoteRecord::Segment(segment)) => {
                let (start, end) = (segment.start_offset, segment.end_offset);
                write!(f, "CopyStarted {} {start}..={end} {:?}", segment.id, segment.epochs)
            }
            Self::Append(RemoteRecord::Update(update)) => write!(f, "{:?} {}", update.state, update.id),
            Self::Append(other) => write!(f, "{other:?}"),
        }
    }
}

/// Response to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The change took effect.
    Done,
    /// The change took no effect.
    Refused,
    /// No answer: the change took effect, or not.
    Lost,
}

/// Objects and metadata, which outlive the processes.
pub(super) struct World {
    state: Mutex<State>,
    arrival: Notify,
    pub(super) layout: StoreLayout,
    /// Names the objects of segments.
    names: Store,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Batches of the metadata topic, with the only record of each.
    topic: Vec<(Bytes, RemoteRecord)>,
    /// Leader epochs of the metadata topic, and their first offsets.
    epochs: Vec<(i32, i64)>,
    /// Segments whose last records the metadata topic has lost: any change of them may follow.
    cut: BTreeSet<Uuid>,
    /// True if the topic's leader does not tell its end, as after its election.
    hides_end: bool,
    /// True if the topic's leader does not report that its records are others than those read.
    hides_cuts: bool,
    segments: BTreeMap<Uuid, Known>,
    /// Segment of each object.
    owners: BTreeMap<String, Uuid>,
    /// Segments of which a process has uploaded an object after another leader had deleted them.
    strays: BTreeMap<Uuid, Life>,
    /// Strays that their process could not delete: it has ended, or the store has refused. Nothing
    /// names these objects any more.
    left: BTreeSet<Uuid>,
    waiting: BTreeMap<u64, Waiting>,
    arrived: VecDeque<u64>,
    tickets: u64,
    alive: BTreeSet<Life>,
    /// The process that does something now: requests about the metadata topic are of this one.
    running: Life,
    /// Most batches in one response of the metadata topic.
    batches_max: usize,
}

/// A segment as the metadata topic has it.
struct Known {
    segment: RemoteSegment,
    state: SegmentState,
    /// The process that wrote the last record.
    author: Life,
}

struct Waiting {
    life: Life,
    request: Request,
    answer: SyncSender<Answer>,
}

impl World {
    pub(super) fn new(layout: StoreLayout, batches_max: usize) -> Arc<Self> {
        let state = Mutex::new(State { batches_max, epochs: vec![(0, 0)], ..State::default() });
        let names = Store::stand_in(Box::new(Nothing), layout);
        Arc::new(Self { state, arrival: Notify::new(), layout, names })
    }

    /// The store as this process uses it.
    pub(super) fn store(self: &Arc<Self>, life: Life) -> Store {
        Store::stand_in(Box::new(Objects { world: self.clone(), life }), self.layout)
    }

    pub(super) fn begin(&self, life: Life) {
        self.state.lock().alive.insert(life);
    }

    pub(super) fn run(&self, life: Life) {
        self.state.lock().running = life;
    }

    /// Ends a process: its requests take no effect from now on. Returns those without an answer.
    pub(super) fn end(&self, life: Life) -> Vec<u64> {
        let mut state = self.state.lock();
        state.alive.remove(&life);
        let State { strays, left, .. } = &mut *state;
        left.extend(strays.iter().filter(|(_, of)| **of == life).map(|(id, _)| *id));
        strays.retain(|_, of| *of != life);
        state.waiting.iter().filter(|(_, waiting)| waiting.life == life).map(|(ticket, _)| *ticket).collect()
    }

    /// Waits for the next request.
    pub(super) async fn next(&self) -> u64 {
        loop {
            if let Some(ticket) = self.state.lock().arrived.pop_front() {
                return ticket;
            }
            self.arrival.notified().await;
        }
    }

    /// A request that waits for its answer.
    pub(super) fn request(&self, ticket: u64) -> Request {
        self.state.lock().waiting[&ticket].request.clone()
    }

    pub(super) fn answer(&self, ticket: u64, answer: Answer) {
        let mut state = self.state.lock();
        let waiting = state.waiting.remove(&ticket).expect("it waits");
        state.arrived.retain(|arrived| *arrived != ticket);
        drop(state);
        // The process may have ended.
        let _ = waiting.answer.send(answer);
    }

    fn submit(&self, life: Option<Life>, request: Request) -> Answer {
        let (answer, answered) = sync_channel(1);
        let mut state = self.state.lock();
        let life = life.unwrap_or(state.running);
        if !state.alive.contains(&life) {
            return Answer::Lost;
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.insert(ticket, Waiting { life, request, answer });
        state.arrived.push_back(ticket);
        drop(state);
        self.arrival.notify_one();
        answered.recv().unwrap_or(Answer::Lost)
    }

    /// Answers a process that appends a record to the metadata topic; none if the process has
    /// ended.
    pub(super) fn append(&self, record: RemoteRecord) -> Option<Answer> {
        let answer = self.submit(None, Request::Append(record));
        let state = self.state.lock();
        state.alive.contains(&state.running).then_some(answer)
    }

    /// Committed batches of the metadata topic from an offset on, and its end.
    pub(super) fn read(&self, from: i64) -> (Bytes, i64) {
        let state = self.state.lock();
        let from = usize::try_from(from).unwrap().min(state.topic.len());
        let batches: Vec<u8> = state.topic[from..]
            .iter()
            .take(state.batches_max)
            .flat_map(|(batch, _)| batch.to_vec())
            .collect();
        (batches.into(), state.topic.len() as i64)
    }

    /// The latest leader epoch of the metadata topic not above this one, and its end, if the topic
    /// has other records before the offset than those of this epoch.
    pub(super) fn diverging(&self, epoch: i32, offset: i64) -> Option<(i32, i64)> {
        let state = self.state.lock();
        if epoch < 0 || state.hides_cuts {
            return None;
        }
        let later = state.epochs.partition_point(|(known, _)| *known <= epoch);
        let end = state.epochs.get(later).map_or(state.topic.len() as i64, |(_, start)| *start);
        let (floor, _) = state.epochs[later - 1];
        (floor < epoch || end < offset).then_some((floor, end))
    }

    /// The metadata topic has only this number of records from now on: its leader has lost the
    /// others, and leads in a new epoch.
    pub(super) fn cut(&self, keep: usize) {
        let mut state = self.state.lock();
        let lost = state.topic.split_off(keep);
        state.cut.extend(lost.iter().filter_map(|(_, record)| id_in(record)));
        let (start, epoch) = (keep as i64, state.epochs.last().map_or(0, |(epoch, _)| epoch + 1));
        state.epochs.retain(|(_, begun)| *begun < start || *begun == 0);
        state.epochs.push((epoch, start));
        state.segments.clear();
        for (_, record) in state.topic.clone() {
            match record {
                RemoteRecord::Segment(segment) => {
                    let known = Known { state: segment.state, segment, author: Life::MAX };
                    state.segments.insert(known.segment.id.id, known);
                }
                RemoteRecord::Update(update) => {
                    let known = state.segments.get_mut(&update.id.id);
                    let known = known.filter(|known| update.state.may_follow(Some(known.state)));
                    known.into_iter().for_each(|known| known.state = update.state);
                }
                _ => {}
            }
        }
    }

    /// The topic's leader does not tell its end, or does again.
    pub(super) fn hide_end(&self, is_hidden: bool) {
        self.state.lock().hides_end = is_hidden;
    }

    /// The topic's leader does not report lost records.
    pub(super) fn hide_cuts(&self) {
        self.state.lock().hides_cuts = true;
    }

    /// The end that the topic's leader tells.
    pub(super) fn told_end(&self) -> i64 {
        let state = self.state.lock();
        if state.hides_end { -1 } else { state.topic.len() as i64 }
    }

    /// Number of records in the metadata topic.
    pub(super) fn records(&self) -> usize {
        self.state.lock().topic.len()
    }

    /// Segments that the metadata has, with their states.
    pub(super) fn segments(&self) -> Vec<(RemoteSegment, SegmentState)> {
        let state = self.state.lock();
        let known = state.segments.values().filter(|known| known.state != SegmentState::DeleteFinished);
        known.map(|known| (known.segment.clone(), known.state)).collect()
    }

    /// A segment that the metadata has, in any state.
    pub(super) fn segment(&self, id: Uuid) -> Option<RemoteSegment> {
        self.state.lock().segments.get(&id).map(|known| known.segment.clone())
    }

    /// A segment whose copy has begun and not ended.
    pub(super) fn unfinished(&self, id: Uuid) -> Option<RemoteSegment> {
        let state = self.state.lock();
        let known = state.segments.get(&id).filter(|known| known.state == SegmentState::CopyStarted);
        known.map(|known| known.segment.clone())
    }

    /// The store refuses to delete objects.
    pub(super) fn refuse(&self, keys: &[String]) {
        let mut state = self.state.lock();
        let id = state.owners.get(&keys[0]).copied();
        if let Some(id) = id.filter(|id| state.strays.remove(id).is_some()) {
            state.left.insert(id);
        }
    }

    /// True for an object that nothing names, and that no process could have deleted.
    pub(super) fn is_left(&self, key: &str) -> bool {
        self.state.lock().is_left(key)
    }

    /// True for an upload of a segment whose deletion has begun.
    pub(super) fn is_deleted(&self, request: &Request) -> bool {
        let Request::Store(StoreChange::Put(key, _)) = request else { return false };
        let owner = self.state.lock().owner_state(key);
        owner.is_some_and(|state| state != SegmentState::CopyStarted)
    }

    /// All records of the metadata topic, in order.
    pub(super) fn log(&self) -> Vec<RemoteRecord> {
        self.state.lock().topic.iter().map(|(_, record)| record.clone()).collect()
    }

    /// Number of objects of segments that should not exist without metadata.
    pub(super) fn objects(&self) -> usize {
        let state = self.state.lock();
        state.objects.keys().filter(|key| !key.starts_with(OWN) && !state.is_left(key)).count()
    }

    pub(super) fn keys(&self, segment: &RemoteSegment) -> Vec<String> {
        self.names.keys(segment).unwrap()
    }

    /// A change takes effect.
    ///
    /// # Errors
    /// The broken rule.
    pub(super) fn effect(&self, request: &Request, (author, is_late): (Life, bool)) -> Result<(), String> {
        let mut state = self.state.lock();
        match request {
            Request::Store(StoreChange::Put(key, content)) => {
                let owner = state.owner_state(key);
                state.objects.insert(key.clone(), content.clone());
                match owner {
                    _ if state.is_cut(key) => Ok(()),
                    None if key.starts_with(OWN) || is_late => Ok(()),
                    Some(SegmentState::CopyStarted) => Ok(()),
                    // Another leader has deleted the copy meanwhile.
                    Some(SegmentState::DeleteStarted | SegmentState::DeleteFinished) => {
                        let id = state.owners[key];
                        state.strays.insert(id, author);
                        Ok(())
                    }
                    other => Err(format!("{key} is written in state {other:?}")),
                }
            }
            Request::Store(StoreChange::Delete(keys)) => {
                for key in keys {
                    let owner = state.owner_state(key);
                    let is_marked =
                        matches!(owner, Some(SegmentState::DeleteStarted | SegmentState::DeleteFinished));
                    if !is_marked && !state.is_cut(key) {
                        return Err(format!("{key} is deleted in state {owner:?}"));
                    }
                    state.objects.remove(key);
                    let id = state.owners[key];
                    state.strays.remove(&id);
                }
                Ok(())
            }
            Request::Append(record) => {
                let mut value = Builder::new();
                value.push(0, None, Some(&encode(record).unwrap()));
                let mut batch = value.build().unwrap();
                let offset = state.topic.len() as i64;
                assign(&mut batch, offset, state.epochs.last().map_or(0, |(epoch, _)| *epoch));
                state.topic.push((batch.freeze(), record.clone()));
                self.note(&mut state, record, (author, is_late))
            }
        }
    }

    /// Notes the state of the record's segment, and checks it.
    fn note(
        &self,
        state: &mut State,
        record: &RemoteRecord,
        (author, is_late): (Life, bool),
    ) -> Result<(), String> {
        match record {
            RemoteRecord::Segment(segment) => {
                let id = segment.id.id;
                if state.segments.contains_key(&id) {
                    return Err(format!("the id of {} is used again", segment.id));
                }
                state.owners.extend(self.keys(segment).into_iter().map(|key| (key, id)));
                let known = Known { segment: segment.clone(), state: SegmentState::CopyStarted, author };
                state.segments.insert(id, known);
            }
            RemoteRecord::Update(update) => {
                let Some(known) = state.segments.get_mut(&update.id.id) else {
                    if state.cut.contains(&update.id.id) {
                        return Ok(());
                    }
                    return Err(format!("{:?} of an unknown segment {}", update.state, update.id));
                };
                if !update.state.may_follow(Some(known.state)) {
                    let is_own = known.author == author && !is_late;
                    let text = format!("{} passes from {:?} to {:?}", update.id, known.state, update.state);
                    return if is_own { Err(text) } else { Ok(()) };
                }
                (known.state, known.author) = (update.state, author);
                if update.state == SegmentState::CopyFinished {
                    let segment = known.segment.clone();
                    let needed = self.keys(&segment).into_iter().filter(|key| !key.ends_with(".txnindex"));
                    let missing: Vec<String> =
                        needed.filter(|key| !state.objects.contains_key(key)).collect();
                    if !missing.is_empty() {
                        return Err(format!("the copy {} has ended without {missing:?}", update.id));
                    }
                }
            }
            other => return Err(format!("{other:?} is written")),
        }
        Ok(())
    }
}

impl State {
    /// State of the segment of an object, if the metadata has the segment.
    fn owner_state(&self, key: &str) -> Option<SegmentState> {
        self.segments.get(self.owners.get(key)?).map(|known| known.state)
    }

    /// True for an object of a segment whose last records are lost.
    fn is_cut(&self, key: &str) -> bool {
        self.owners.get(key).is_some_and(|id| self.cut.contains(id))
    }

    /// True for an object that nothing names: its process could not delete it, or the metadata has
    /// lost all records of its segment.
    fn is_left(&self, key: &str) -> bool {
        let is_left = |id| self.left.contains(id) || self.cut.contains(id) && !self.segments.contains_key(id);
        self.owners.get(key).is_some_and(is_left)
    }
}

/// The segment of a record.
fn id_in(record: &RemoteRecord) -> Option<Uuid> {
    match record {
        RemoteRecord::Segment(segment) => Some(segment.id.id),
        RemoteRecord::Update(update) => Some(update.id.id),
        _ => None,
    }
}

/// The store as one process uses it.
struct Objects {
    world: Arc<World>,
    life: Life,
}

impl StandIn for Objects {
    fn change(&self, change: StoreChange) -> Result<(), RemoteError> {
        match self.world.submit(Some(self.life), Request::Store(change)) {
            Answer::Done => Ok(()),
            Answer::Refused | Answer::Lost => {
                Err(RemoteError::new(RemoteErrorKind::Unavailable, "cannot change the store", "no answer"))
            }
        }
    }

    fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.world.state.lock().objects.get(key).cloned()
    }

    fn entries(&self) -> Vec<ObjectEntry> {
        let state = self.world.state.lock();
        let entry = |(key, content): (&String, &Vec<u8>)| ObjectEntry {
            key: key.clone(),
            length: content.len() as u64,
        };
        state.objects.iter().map(entry).collect()
    }
}

/// A store without objects.
struct Nothing;

impl StandIn for Nothing {
    fn change(&self, change: StoreChange) -> Result<(), RemoteError> {
        Err(RemoteError::new(RemoteErrorKind::Unsupported, format!("cannot make {change:?}"), "no store"))
    }

    fn object(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn entries(&self) -> Vec<ObjectEntry> {
        Vec::new()
    }
}
