//! Share sessions: the partitions that a member of a share group fetches from this broker, so that
//! its requests contain only changes. A session ends with the connection that has opened it.
//!
//! No clock, socket or disk. The table is locked for a look-up; each session has its own lock.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use levada_base::Requester;
use levada_wire::error_code::ErrorCode;
use parking_lot::Mutex;

use super::{PartitionPlace, SharePartitions};

/// Partitions of all sessions together at most.
const PARTITIONS_MAX: usize = 1 << 20;

/// Epoch of the request that opens a session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// Epoch of the request that ends a session.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MemberKey {
    pub(crate) group: Arc<str>,
    pub(crate) member: Arc<str>,
}

/// A partition of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionPartition {
    pub(crate) key: PartitionPlace,
    /// True if the next response must contain the partition: the request names it for the first
    /// time, or the last response had an error for it.
    is_to_be_told: bool,
}

/// The partitions of one session.
#[derive(Debug, Default)]
pub(crate) struct ShareSession {
    /// Epoch of the next request.
    epoch: i32,
    /// Partitions in the order of fetching: those that last returned records come last.
    order: BTreeMap<u64, SessionPartition>,
    places: HashMap<PartitionPlace, u64>,
    next_place: u64,
}

impl ShareSession {
    fn of(partitions: impl Iterator<Item = PartitionPlace>) -> Self {
        let mut session = Self { epoch: next_epoch(INITIAL_EPOCH), ..Self::default() };
        partitions.for_each(|key| session.add(key, false));
        session
    }

    fn add(&mut self, key: PartitionPlace, is_to_be_told: bool) {
        if !self.places.contains_key(&key) {
            self.put(SessionPartition { key, is_to_be_told });
        }
    }

    fn put(&mut self, partition: SessionPartition) {
        self.places.insert(partition.key, self.next_place);
        self.order.insert(self.next_place, partition);
        self.next_place += 1;
    }

    fn forget(&mut self, key: PartitionPlace) {
        if let Some(place) = self.places.remove(&key) {
            self.order.remove(&place);
        }
    }

    /// The partitions, in the order of fetching.
    pub(crate) fn partitions(&self) -> Vec<PartitionPlace> {
        self.order.values().map(|partition| partition.key).collect()
    }

    /// True unless a later request of the session has arrived.
    pub(crate) fn is_at(&self, epoch: i32) -> bool {
        self.epoch == next_epoch(epoch)
    }

    /// Notes the result that the response has for a partition. Returns true if the response must
    /// contain it.
    pub(crate) fn tell(&mut self, key: PartitionPlace, has_records: bool, has_failed: bool) -> bool {
        // A later request may have dropped the partition.
        let Some(place) = self.places.get(&key).copied() else { return true };
        let Some(partition) = self.order.get_mut(&place) else { return true };
        let was_to_be_told = std::mem::replace(&mut partition.is_to_be_told, has_failed);
        if has_records && let Some(partition) = self.order.remove(&place) {
            self.put(partition);
        }
        has_records || has_failed || was_to_be_told
    }
}

fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// A session with its owner and its connection.
#[derive(Debug)]
struct StoredSession {
    connection: u64,
    owner: Requester,
    /// Order of the last uses.
    used: u64,
    size: usize,
    session: Arc<Mutex<ShareSession>>,
}

/// All share sessions of a broker.
#[derive(Debug)]
pub(crate) struct ShareSessions {
    max: usize,
    count: usize,
    partitions: usize,
    uses: u64,
    /// Sessions by group and member.
    groups: HashMap<Arc<str>, HashMap<Arc<str>, StoredSession>>,
    /// Sessions by the connection that opened them.
    connections: HashMap<u64, Vec<MemberKey>>,
}

/// A session that has ended, with its partitions.
pub(crate) type ClosedSession = (MemberKey, Vec<PartitionPlace>);

impl ShareSessions {
    /// An empty table for at most `max` sessions.
    pub(crate) fn new(max: usize) -> Self {
        let (groups, connections) = Default::default();
        Self { max, count: 0, partitions: 0, uses: 0, groups, connections }
    }

    /// Number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// True if the group has a session.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Opens a session with these partitions, in place of the member's former one. Without room,
    /// the least recently used sessions of another client give way, if that client has more
    /// sessions or partitions than this one would have. Returns those that have ended, and if this
    /// one is open.
    ///
    /// # Errors
    /// There are too many sessions, or too many partitions in them.
    pub(crate) fn open(
        &mut self,
        member: MemberKey,
        partitions: &[PartitionPlace],
        (connection, owner): (u64, &Requester),
    ) -> (Vec<ClosedSession>, Result<(), ErrorCode>) {
        self.remove(&member);
        let session = ShareSession::of(partitions.iter().copied());
        let size = session.order.len();
        let evicted = if self.has_room(size) { Vec::new() } else { self.make_room(size, owner) };
        if !self.has_room(size) {
            return (evicted, Err(ErrorCode::ShareSessionLimitReached));
        }
        self.uses += 1;
        self.count += 1;
        self.partitions += size;
        let session = Arc::new(Mutex::new(session));
        let stored = StoredSession { connection, owner: owner.clone(), used: self.uses, size, session };
        self.connections.entry(connection).or_default().push(member.clone());
        self.groups.entry(member.group).or_default().insert(member.member, stored);
        (evicted, Ok(()))
    }

    fn has_room(&self, partitions: usize) -> bool {
        self.count < self.max && self.partitions.saturating_add(partitions) <= PARTITIONS_MAX
    }

    /// Continues a session with a request of this epoch, which adds and forgets partitions.
    ///
    /// # Errors
    /// There is no such session, the request is not the next one, or there are too many partitions.
    pub(crate) fn proceed(
        &mut self,
        (group, member): (&str, &str),
        epoch: i32,
        (added, forgotten): (&[PartitionPlace], &[PartitionPlace]),
    ) -> Result<(MemberKey, Arc<Mutex<ShareSession>>), ErrorCode> {
        let key = self.member((group, member)).ok_or(ErrorCode::ShareSessionNotFound)?;
        let stored = self.groups.get_mut(group).and_then(|members| members.get_mut(member));
        let stored = stored.ok_or(ErrorCode::ShareSessionNotFound)?;
        let mut session = stored.session.lock();
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        if self.partitions.saturating_add(added.len()) > PARTITIONS_MAX {
            return Err(ErrorCode::ShareSessionLimitReached);
        }
        added.iter().for_each(|key| session.add(*key, true));
        forgotten.iter().for_each(|key| session.forget(*key));
        session.epoch = next_epoch(epoch);
        self.partitions = self.partitions + session.order.len() - stored.size;
        self.uses += 1;
        (stored.size, stored.used) = (session.order.len(), self.uses);
        drop(session);
        Ok((key, stored.session.clone()))
    }

    /// Ends a session by the wish of its member.
    ///
    /// # Errors
    /// There is no such session.
    pub(crate) fn close(&mut self, member: &MemberKey) -> Result<ClosedSession, ErrorCode> {
        self.remove(member).ok_or(ErrorCode::ShareSessionNotFound)
    }

    /// The shared names of a member that has a session.
    pub(crate) fn member(&self, (group, member): (&str, &str)) -> Option<MemberKey> {
        let (group, members) = self.groups.get_key_value(group)?;
        let (member, _) = members.get_key_value(member)?;
        Some(MemberKey { group: group.clone(), member: member.clone() })
    }

    /// Ends the sessions that a connection has opened.
    pub(crate) fn close_connection(&mut self, connection: u64) -> Vec<ClosedSession> {
        let members = self.connections.remove(&connection).unwrap_or_default();
        members.iter().filter_map(|member| self.remove(member)).collect()
    }

    /// Ends all sessions.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.max);
    }

    fn remove(&mut self, member: &MemberKey) -> Option<ClosedSession> {
        let members = self.groups.get_mut(&member.group)?;
        let stored = members.remove(&member.member)?;
        if members.is_empty() {
            self.groups.remove(&member.group);
        }
        if let Some(opened) = self.connections.get_mut(&stored.connection) {
            opened.retain(|other| other != member);
            if opened.is_empty() {
                self.connections.remove(&stored.connection);
            }
        }
        self.count -= 1;
        self.partitions -= stored.size;
        let partitions = stored.session.lock().partitions();
        Some((member.clone(), partitions))
    }

    /// Ends sessions of the client with the most sessions or partitions, whichever limit is
    /// reached, until a session of this size fits or that client has no more than the client of the
    /// new one.
    fn make_room(&mut self, size: usize, owner: &Requester) -> Vec<ClosedSession> {
        let by_count = self.count >= self.max;
        let amount = |size: usize| if by_count { 1 } else { size };
        let sessions = || self.groups.values().flat_map(HashMap::values);
        let mut amounts: HashMap<&Requester, usize> = HashMap::new();
        sessions().for_each(|stored| *amounts.entry(&stored.owner).or_default() += amount(stored.size));
        let own = amounts.get(owner).copied().unwrap_or(0) + amount(size);
        let Some((largest, mut theirs)) = amounts.into_iter().max_by_key(|(_, amount)| *amount) else {
            return Vec::new();
        };
        let of_group = |(group, members): (&Arc<str>, &HashMap<Arc<str>, StoredSession>)| {
            let of_largest =
                members.iter().filter(|(_, stored)| stored.owner == *largest && amount(stored.size) > 0);
            let candidate = |(member, stored): (&Arc<str>, &StoredSession)| {
                let key = MemberKey { group: group.clone(), member: member.clone() };
                (stored.used, stored.size, key)
            };
            of_largest.map(candidate).collect::<Vec<_>>()
        };
        let mut candidates: Vec<_> = self.groups.iter().flat_map(of_group).collect();
        candidates.sort_unstable_by_key(|(used, _, _)| *used);
        let mut evicted = Vec::new();
        for (_, its_size, member) in candidates {
            if self.has_room(size) || theirs <= own {
                break;
            }
            theirs -= amount(its_size);
            evicted.extend(self.remove(&member));
        }
        evicted
    }
}

/// The share sessions of one connection, which end when this is dropped.
pub(crate) struct ShareConnection {
    room: Arc<SharePartitions>,
    number: u64,
}

impl ShareConnection {
    pub(crate) fn new(room: &Arc<SharePartitions>) -> Self {
        Self { room: room.clone(), number: room.number_connection() }
    }

    /// Number of the connection.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for ShareConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareConnection").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for ShareConnection {
    fn drop(&mut self) {
        self.room.connection_closed(self.number);
    }
}

#[cfg(test)]
mod tests;
