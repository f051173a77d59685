//! Fetch sessions (KIP-227): the broker stores the partitions that a consumer fetches, so that
//! requests and responses contain only changes.
//!
//! No clock, socket or disk: time and new ids are parameters. The cache is locked for a look-up;
//! each session has its own lock, so that large sessions do not delay others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use levada_wire::Uuid;
use levada_wire::fetch::FetchPartition;
use parking_lot::Mutex;

use levada_base::Requester;
use levada_wire::error_code::ErrorCode;

/// The epoch of a request that opens a session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request without a session.
const FINAL_EPOCH: i32 = -1;

/// Idle time after which a session gives way to any new one, ms; younger sessions give way to none.
const EVICTION_MS: i64 = 120_000;

/// Idle time after which a session ends, ms. Its client will open another one.
const IDLE_MS: i64 = 600_000;

/// Maximum memory of all sessions together, in bytes. A client may name any number of partitions
/// that do not exist, with names of any length: a limit of sessions alone would let a few requests
/// fill the memory.
const BYTES_MAX: usize = 64 << 20;

/// Maximum number of partitions of a session that the client may not read, or that do not exist.
/// Each of these is in every response, with its error, although no request names it.
pub(crate) const REFUSED_MAX: usize = 16;

/// Memory of a partition without its topic's name. The name is counted with each partition,
/// although the partitions of a request share it.
const PARTITION_BYTES: usize = 270;
const _: () = assert!(EVICTION_MS < IDLE_MS, "a session gives way before it ends");

fn bytes_of(key: &PartitionKey) -> usize {
    let name = match &key.0 {
        SessionTopic::Name(name) => name.len(),
        SessionTopic::Id(_) => 0,
    };
    PARTITION_BYTES + name
}

/// A topic as the session's requests name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionTopic {
    Name(Arc<str>),
    Id(Uuid),
}

/// A partition of a session.
pub(crate) type PartitionKey = (SessionTopic, i32);

/// The session part of a fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionRequest {
    /// Id of the session; 0 for none.
    pub(crate) session_id: i32,
    /// 0 opens a session, -1 means no session, other ids continue a session.
    pub(crate) epoch: i32,
    /// True if topics are named by id.
    pub(crate) by_id: bool,
}

/// Plan for a fetch request.
#[derive(Debug)]
pub(crate) enum SessionPlan {
    /// Fetch the partitions of the request; store nothing.
    Sessionless,
    /// Fetch the partitions of the request, then open a session with them.
    Open,
    /// Fetch all partitions of the session, then omit unchanged ones from the response.
    Continue(Continued),
}

/// A session that continues.
#[derive(Debug)]
pub(crate) struct Continued {
    session: Arc<Mutex<FetchSession>>,
    pub(crate) session_id: i32,
    /// The session's epoch while this request is processed.
    epoch: i32,
    /// All partitions of the session in the order of fetching; empty before
    /// [`Continued::take_partitions`].
    pub(crate) wanted: Vec<(PartitionKey, FetchPartition)>,
}

/// Fields of a response that a session stores for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionState {
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) has_records: bool,
    /// True for a diverging epoch or another replica to read from, which the response always
    /// contains.
    pub(crate) urgent: bool,
    pub(crate) failed: bool,
}

/// The partitions of one session.
#[derive(Debug)]
pub(crate) struct FetchSession {
    by_id: bool,
    epoch: i32,
    /// Partitions in the order of fetching: those that last returned data come last.
    order: BTreeMap<u64, (PartitionKey, CachedPartition)>,
    places: HashMap<PartitionKey, u64>,
    next_place: u64,
    /// Memory of the partitions.
    bytes: usize,
}

/// Last request for a partition, and last response about it.
#[derive(Debug)]
struct CachedPartition {
    wanted: FetchPartition,
    high_watermark: i64,
    log_start: i64,
}

impl FetchSession {
    /// A session with the partitions of the request that opens it, and of its response.
    pub(crate) fn of(by_id: bool, told: Vec<(PartitionKey, FetchPartition, PartitionState)>) -> Self {
        let mut session = Self {
            by_id,
            epoch: next_epoch(INITIAL_EPOCH),
            order: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            bytes: 0,
        };
        for (key, wanted, seen) in told {
            session.forget(&key);
            session.put(
                key,
                CachedPartition { wanted, high_watermark: seen.high_watermark, log_start: seen.log_start },
            );
        }
        session
    }

    fn put(&mut self, key: PartitionKey, cached: CachedPartition) {
        self.bytes += bytes_of(&key);
        self.places.insert(key.clone(), self.next_place);
        self.order.insert(self.next_place, (key, cached));
        self.next_place += 1;
    }

    fn want(&mut self, key: PartitionKey, wanted: FetchPartition) {
        match self.places.get(&key).and_then(|place| self.order.get_mut(place)) {
            Some((_, cached)) => cached.wanted = wanted,
            None => self.put(key, CachedPartition { wanted, high_watermark: -1, log_start: -1 }),
        }
    }

    fn forget(&mut self, key: &PartitionKey) {
        if let Some(place) = self.places.remove(key) {
            self.order.remove(&place);
            self.bytes -= bytes_of(key);
        }
    }

    /// Stores the state of a partition that the client receives. True if the response must contain
    /// it.
    fn tell(&mut self, key: &PartitionKey, seen: PartitionState) -> bool {
        // A request that came between may have dropped the partition.
        let Some(place) = self.places.get(key).copied() else { return true };
        let Some((_, cached)) = self.order.get_mut(&place) else { return true };
        let moved = cached.high_watermark != seen.high_watermark || cached.log_start != seen.log_start;
        // After an error the session has no values, so that the response contains the end of the
        // error.
        cached.high_watermark = if seen.failed { -1 } else { seen.high_watermark };
        cached.log_start = seen.log_start;
        if seen.has_records
            && let Some((key, cached)) = self.order.remove(&place)
        {
            self.bytes -= bytes_of(&key);
            self.put(key, cached);
        }
        seen.has_records || seen.urgent || seen.failed || moved
    }
}

impl Continued {
    /// Copies the partitions of the session. [`Sessions::begin`] leaves this out, because other
    /// sessions wait for it.
    pub(crate) fn take_partitions(&mut self) {
        let session = self.session.lock();
        self.wanted =
            session.order.values().map(|(key, cached)| (key.clone(), cached.wanted.clone())).collect();
    }

    /// Updates the session with the results: returns the partitions that the response must contain.
    /// The error is for a request that a later request of the same session has overtaken.
    pub(crate) fn finish(&self, answered: &[(PartitionKey, PartitionState)]) -> Result<Vec<bool>, ErrorCode> {
        let mut session = self.session.lock();
        if session.epoch != self.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        Ok(answered.iter().map(|(key, seen)| session.tell(key, *seen)).collect())
    }
}

/// All sessions of a broker.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    slots: usize,
    sessions: HashMap<i32, StoredSession>,
    /// Memory of all sessions together, bytes.
    bytes: usize,
    bytes_max: usize,
    /// Session ids by time of last use.
    idle: BTreeSet<(i64, i32)>,
    /// Sessions that are old enough to be evicted for a larger one, by number of partitions.
    evictable: BTreeSet<(usize, i32)>,
}

#[derive(Debug)]
struct StoredSession {
    owner: Requester,
    session: Arc<Mutex<FetchSession>>,
    created_ms: i64,
    used_ms: i64,
    size: Size,
}

/// Size of a session: partitions, which decide about eviction, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    partitions: usize,
    bytes: usize,
}

impl FetchSession {
    fn size(&self) -> Size {
        Size { partitions: self.order.len(), bytes: self.bytes }
    }
}

impl Sessions {
    /// A cache for at most this number of sessions.
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots, bytes_max: BYTES_MAX, ..Self::default() }
    }

    /// Decides on a request: closes, continues or refuses its session. `wanted` and `forgotten`
    /// change a session that continues.
    pub(crate) fn begin(
        &mut self,
        asked: SessionRequest,
        wanted: impl FnOnce() -> Vec<(PartitionKey, FetchPartition)>,
        forgotten: &[PartitionKey],
        now_ms: i64,
    ) -> Result<SessionPlan, ErrorCode> {
        if matches!(asked.epoch, INITIAL_EPOCH | FINAL_EPOCH) {
            self.remove(asked.session_id);
            return Ok(if asked.epoch == INITIAL_EPOCH {
                SessionPlan::Open
            } else {
                SessionPlan::Sessionless
            });
        }
        let entry = self.sessions.get(&asked.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let shared = entry.session.clone();
        // Two requests of the session at the same time: one of them comes too late.
        let Some(mut session) = shared.try_lock() else { return Err(ErrorCode::InvalidFetchSessionEpoch) };
        if session.epoch != asked.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != asked.by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        wanted().into_iter().for_each(|(key, wanted)| session.want(key, wanted));
        forgotten.iter().for_each(|key| session.forget(key));
        if session.order.is_empty() {
            self.remove(asked.session_id);
            return Ok(SessionPlan::Sessionless);
        }
        if self.bytes - entry.size.bytes + session.bytes > self.bytes_max {
            self.remove(asked.session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        self.touch(asked.session_id, session.size(), now_ms);
        session.epoch = next_epoch(session.epoch);
        let (epoch, wanted) = (session.epoch, Vec::new());
        drop(session);
        Ok(SessionPlan::Continue(Continued { session: shared, session_id: asked.session_id, epoch, wanted }))
    }

    /// Opens a session for a client; returns 0 if the cache is full, which clients accept. A client
    /// with fewer sessions than others displaces a session of the client with most. `random_id`
    /// returns positive numbers.
    pub(crate) fn open(
        &mut self,
        owner: &Requester,
        session: FetchSession,
        mut random_id: impl FnMut() -> i32,
        now_ms: i64,
    ) -> i32 {
        let size = session.size();
        if size.bytes > self.bytes_max {
            return 0;
        }
        while self.sessions.len() >= self.slots || self.bytes + size.bytes > self.bytes_max {
            if !self.evict(size.partitions, now_ms) && !self.evict_of_largest(owner, size) {
                return 0;
            }
        }
        let mut id = random_id();
        while id == 0 || self.sessions.contains_key(&id) {
            id = random_id();
        }
        let session = Arc::new(Mutex::new(session));
        self.sessions.insert(
            id,
            StoredSession {
                owner: owner.clone(),
                session,
                created_ms: now_ms,
                used_ms: now_ms,
                size: Size::default(),
            },
        );
        self.touch(id, size, now_ms);
        id
    }

    /// Ends unused sessions.
    pub(crate) fn end_idle(&mut self, now_ms: i64) {
        while let Some((used_ms, id)) = self.idle.first().copied()
            && now_ms - used_ms > IDLE_MS
        {
            self.remove(id);
        }
    }

    fn touch(&mut self, id: i32, size: Size, now_ms: i64) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        self.idle.remove(&(entry.used_ms, id));
        self.evictable.remove(&(entry.size.partitions, id));
        self.bytes = self.bytes - entry.size.bytes + size.bytes;
        (entry.used_ms, entry.size) = (now_ms, size);
        self.idle.insert((now_ms, id));
        if now_ms - entry.created_ms > EVICTION_MS {
            self.evictable.insert((size.partitions, id));
        }
    }

    /// Frees memory for a session with this number of partitions: removes a session that has been
    /// idle for long, otherwise the smallest of the old sessions if it is smaller.
    fn evict(&mut self, partitions: usize, now_ms: i64) -> bool {
        let Some((used_ms, idle)) = self.idle.first().copied() else { return false };
        if now_ms - used_ms > EVICTION_MS {
            self.remove(idle);
            return true;
        }
        match self.evictable.first().copied() {
            Some((smallest, id)) if partitions > smallest => {
                self.remove(id);
                true
            }
            _ => false,
        }
    }

    /// Frees memory for a session of this client: removes the least recently used session of the
    /// client with most, if that client has more than this one would have.
    fn evict_of_largest(&mut self, owner: &Requester, new: Size) -> bool {
        // The exhausted limit: the number of sessions, or their memory.
        let by_slots = self.sessions.len() >= self.slots;
        let amount = |size: &Size| if by_slots { 1 } else { size.bytes };
        let mut amounts: HashMap<&Requester, usize> = HashMap::new();
        for stored in self.sessions.values() {
            *amounts.entry(&stored.owner).or_default() += amount(&stored.size);
        }
        let own = amounts.get(owner).copied().unwrap_or(0) + amount(&new);
        let largest =
            amounts.into_iter().filter(|(_, amount)| *amount > own).max_by_key(|(_, amount)| *amount);
        let Some((largest, _)) = largest else { return false };
        let is_theirs = |id: &i32| self.sessions.get(id).is_some_and(|stored| stored.owner == *largest);
        let Some(id) = self.idle.iter().map(|(_, id)| *id).find(is_theirs) else { return false };
        self.remove(id);
        true
    }

    /// Ends a session, if there is one.
    pub(crate) fn remove(&mut self, id: i32) {
        if let Some(entry) = self.sessions.remove(&id) {
            assert!(self.bytes >= entry.size.bytes, "{} bytes of {}", entry.size.bytes, self.bytes);
            self.bytes -= entry.size.bytes;
            self.idle.remove(&(entry.used_ms, id));
            self.evictable.remove(&(entry.size.partitions, id));
        }
    }
}

fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests;
