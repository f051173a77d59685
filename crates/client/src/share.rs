//! A member of a share group (KIP-932): it acquires records of topics that several members read at
//! the same time, and acknowledges each record.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use levada_base::id_text;
use levada_security::nonce;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::share_fetch_response::PartitionData;
use levada_wire::messages::{
    KafkaRequest, RequestResponsePair, ShareFetchRequest, ShareFetchResponse, ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
};
use levada_wire::{StrBytes, Uuid};

pub use self::acknowledge::{Acknowledgement, LostAcknowledgement};
pub use self::records::AcquiredRecord;
use self::records::{Acquired, SessionId, acquired};
use self::session::{Place, Session};
use crate::cluster::{Cluster, NO_LEADER};
use crate::error::{Cause, Caused, ClientError};
use crate::refusal::{Coordinated, Operation, Refusal};

mod acknowledge;
mod records;
mod session;
#[cfg(test)]
mod tests;

/// The epoch of a member that joins, and of one that leaves.
const JOINING: i32 = 0;
const LEAVING: i32 = -1;
/// Maximum number of bytes and records of one response.
const MAX_BYTES: i32 = 4 << 20;
const MAX_RECORDS: i32 = 500;
/// Time that a leader may wait for records; with several leaders the others wait too, so it is
/// shorter.
const WAIT_MS: i32 = 500;
const SHARED_WAIT_MS: i32 = 50;
/// The pause where no partition is assigned.
const IDLE: Duration = Duration::from_millis(100);
/// Minimum time between two searches for leaders.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);
/// The version of ShareFetch and ShareAcknowledge with limits of records, and with renewals.
const WITH_LIMITS: i16 = 2;
/// The leader locks as many records as the request names, not whole batches.
const RECORD_LIMIT: i8 = 1;
/// Acknowledgement of an offset that has no record for consumers.
const GAP: i8 = 0;

/// A member of a share group. A caller calls [`ShareMember::beat`] several times a second, fetches,
/// and acknowledges each record.
#[derive(Debug)]
pub struct ShareMember {
    group: String,
    id: String,
    epoch: i32,
    coordinator: Option<i32>,
    names: Vec<StrBytes>,
    assigned: Option<BTreeSet<Place>>,
    next_beat: Instant,
    /// Names of the assigned topics, and the leaders of their partitions.
    topics: BTreeMap<Uuid, String>,
    leaders: BTreeMap<Place, i32>,
    is_stale: bool,
    searched_at: Option<Instant>,
    sessions: BTreeMap<i32, Session>,
    begun_sessions: u64,
    lost: Vec<LostAcknowledgement>,
    /// Number of requests so far: each begins with another leader.
    turn: usize,
    lock_ms: Option<u64>,
}

impl ShareMember {
    /// A member that has not joined yet; it subscribes to the topics with these names when it
    /// joins.
    pub fn new<'a>(group: &str, names: impl Iterator<Item = &'a str>) -> Self {
        Self {
            group: group.to_owned(),
            id: nonce().chars().take(22).collect(),
            epoch: JOINING,
            coordinator: None,
            names: names.map(StrBytes::from).collect(),
            assigned: None,
            next_beat: Instant::now(),
            topics: BTreeMap::new(),
            leaders: BTreeMap::new(),
            is_stale: true,
            searched_at: None,
            sessions: BTreeMap::new(),
            begun_sessions: 0,
            lost: Vec::new(),
            turn: 0,
            lock_ms: None,
        }
    }

    /// True if the coordinator has assigned at least one partition.
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        self.assigned.as_ref().is_some_and(|assigned| !assigned.is_empty())
    }

    /// Duration of the locks of acquired records, from the last response.
    #[must_use]
    pub fn lock_duration(&self) -> Option<Duration> {
        self.lock_ms.map(Duration::from_millis)
    }

    /// Sends a heartbeat if one is due.
    ///
    /// # Errors
    /// The coordinator does not respond, or refuses the member. After an error that
    /// [`is_healed_by_a_heartbeat`](crate::member::is_healed_by_a_heartbeat) the member has lost
    /// its records, and joins again with the next heartbeat.
    pub fn beat(&mut self, cluster: &mut Cluster) -> Result<(), ClientError> {
        if Instant::now() < self.next_beat {
            return Ok(());
        }
        let response = self.heartbeat(cluster, self.epoch)?;
        self.epoch = response.member_epoch;
        let interval = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(100);
        self.next_beat = Instant::now() + Duration::from_millis(interval);
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.iter();
            let places = topics.flat_map(|one| one.partitions.iter().map(|index| (one.topic_id, *index)));
            let assigned = Some(places.collect());
            self.is_stale |= self.assigned != assigned;
            self.assigned = assigned;
        }
        if !self.has_partitions() {
            // The coordinator initializes the partitions first, which takes a moment.
            self.next_beat = Instant::now() + Duration::from_millis(interval.min(500));
        }
        Ok(())
    }

    fn heartbeat(
        &mut self,
        cluster: &mut Cluster,
        epoch: i32,
    ) -> Result<ShareGroupHeartbeatResponse, ClientError> {
        let mut request = ShareGroupHeartbeatRequest::default();
        request.group_id = StrBytes::from(self.group.as_str());
        request.member_id = StrBytes::from(self.id.as_str());
        request.member_epoch = epoch;
        // Each time: the response to the last heartbeat may be lost.
        request.subscribed_topic_names = (epoch >= JOINING).then(|| self.names.clone());
        let coordinator = match self.coordinator {
            Some(coordinator) => coordinator,
            None => cluster.coordinator(Coordinated::Group, &self.group)?,
        };
        let client = cluster.broker(coordinator)?;
        let missing = |reason| ClientError::NoShareGroups { group: self.group.clone(), reason };
        let version = client.best_version::<ShareGroupHeartbeatRequest>().map_err(missing)?;
        self.coordinator = Some(coordinator);
        let response = client.request_at(version, &request)?;
        let operation = || Operation::Share { group: self.group.clone() };
        let checked = Refusal::check(response.error_code, response.error_message.as_deref(), operation);
        self.heed(checked.map_err(|refusal| match refusal.error_code() {
            // The coordinator creates a group that does not exist: this is its response about a
            // group of another type.
            Some(ErrorCode::GroupIdNotFound) if epoch == JOINING => ClientError::OtherGroupType(refusal),
            _ => refusal.into(),
        }))?;
        Ok(response)
    }

    /// A member that the group has removed joins again.
    fn heed<T>(&mut self, done: Result<T, ClientError>) -> Result<T, ClientError> {
        let Err(error) = &done else { return done };
        match error.cause().code() {
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound) => {
                self.epoch = JOINING;
                self.assigned = None;
                self.sessions.clear();
                self.hurry();
            }
            Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => self.coordinator = None,
            _ => {}
        }
        done
    }

    /// Makes a heartbeat the next step, because the connections are new and the sessions have
    /// ended.
    pub fn hurry(&mut self) {
        self.coordinator = None;
        self.is_stale = true;
        self.next_beat = Instant::now();
    }

    /// Drops the sessions and the locks of records, which are lost with the connections.
    pub fn disconnected(&mut self) {
        self.sessions.clear();
        self.hurry();
    }

    /// Sends a fetch to one leader after the other, with the acknowledgements that are due, until
    /// one has records: at most this number, if its version can limit records. Waits up to 0.5 s.
    ///
    /// # Errors
    /// A leader does not respond, or refuses a partition. An error that passes (see
    /// [`Cause::passes`]) does not keep the member from the other leaders, and is returned if none
    /// of them has records.
    pub fn fetch(
        &mut self,
        cluster: &mut Cluster,
        records_max: u64,
    ) -> Result<Vec<AcquiredRecord>, ClientError> {
        self.find_leaders(cluster)?;
        let mut by_leader: BTreeMap<i32, BTreeSet<Place>> = BTreeMap::new();
        for place in self.assigned.iter().flatten() {
            let leader = self.leaders.get(place).copied().unwrap_or(NO_LEADER);
            by_leader.entry(leader).or_default().insert(*place);
        }
        self.flush_former(cluster, &by_leader)?;
        let without = by_leader.remove(&NO_LEADER).unwrap_or_default();
        let mut fault = without.first().map(|place| self.leaderless(*place));
        self.is_stale |= fault.is_some();
        if by_leader.is_empty() {
            thread::sleep(IDLE);
        }
        let wait_ms = if by_leader.len() == 1 { WAIT_MS } else { SHARED_WAIT_MS };
        let mut leaders: Vec<_> = by_leader.into_iter().collect();
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(leaders.len()).unwrap_or(0);
        leaders.rotate_left(first);
        for (node, wanted) in leaders {
            match self.fetch_from(cluster, node, wanted, (records_max, wait_ms)) {
                Ok(records) if records.is_empty() => {}
                Ok(records) => return Ok(records),
                Err(error) => {
                    self.is_stale = true;
                    let cause = error.cause();
                    if !cause.passes() {
                        return Err(error);
                    }
                    if fault.is_none() || cause == Cause::Connection {
                        fault = Some(error);
                    }
                }
            }
        }
        fault.map_or(Ok(Vec::new()), Err)
    }

    /// Sends the acknowledgements for leaders from which nothing is fetched any longer.
    fn flush_former(
        &mut self,
        cluster: &mut Cluster,
        leaders: &BTreeMap<i32, BTreeSet<Place>>,
    ) -> Result<(), ClientError> {
        let due = self.sessions.iter().filter(|(_, session)| session.has_due() && !session.is_opening());
        let former: Vec<i32> =
            due.map(|(node, _)| *node).filter(|node| !leaders.contains_key(node)).collect();
        former.into_iter().try_for_each(|node| self.send_acknowledgements(cluster, node, (None, false)))
    }

    /// Names and leaders of the assigned partitions, if they may have changed.
    fn find_leaders(&mut self, cluster: &mut Cluster) -> Result<(), ClientError> {
        let is_early = self.searched_at.is_some_and(|at| at.elapsed() < SEARCH_PAUSE);
        if !self.is_stale || is_early {
            return Ok(());
        }
        let names: Vec<&str> = self.names.iter().map(|name| name.as_str()).collect();
        let topics = cluster.topics(Some(&names))?;
        self.topics = topics.values().map(|topic| (topic.id, topic.name.clone())).collect();
        let leaders = topics
            .values()
            .flat_map(|topic| topic.leaders.iter().map(|(index, leader)| ((topic.id, *index), *leader)));
        self.leaders = leaders.collect();
        self.searched_at = Some(Instant::now());
        self.is_stale = false;
        Ok(())
    }

    fn fetch_from(
        &mut self,
        cluster: &mut Cluster,
        node: i32,
        wanted: BTreeSet<Place>,
        (records_max, wait_ms): (u64, i32),
    ) -> Result<Vec<AcquiredRecord>, ClientError> {
        let records_max = i32::try_from(records_max).unwrap_or(MAX_RECORDS).clamp(1, MAX_RECORDS);
        let begun = &mut self.begun_sessions;
        let session = self.sessions.entry(node).or_insert_with(|| {
            *begun += 1;
            Session::new(*begun)
        });
        let (topics, forgotten) = session.fetch(&wanted);
        let mut request = ShareFetchRequest::default();
        request.group_id = Some(StrBytes::from(self.group.as_str()));
        request.member_id = Some(StrBytes::from(self.id.as_str()));
        request.share_session_epoch = session.epoch();
        request.max_wait_ms = wait_ms;
        request.min_bytes = 1;
        request.max_bytes = MAX_BYTES;
        request.max_records = records_max;
        request.batch_size = records_max;
        (request.topics, request.forgotten_topics_data) = (topics, forgotten);
        let sent = send(cluster, node, |version| {
            if version >= WITH_LIMITS && records_max < MAX_RECORDS {
                request.share_acquire_mode = RECORD_LIMIT;
            }
            request
        });
        let response: ShareFetchResponse = sent.inspect_err(|_| drop(self.sessions.remove(&node)))?;
        let code = response.error_code;
        self.check_session(node, code, response.error_message.as_deref())?;
        let Some(session) = self.sessions.get_mut(&node).filter(|_| code == 0) else { return Ok(Vec::new()) };
        session.fetched(wanted);
        let number = session.number;
        self.lock_ms = u64::try_from(response.acquisition_lock_timeout_ms).ok().filter(|ms| *ms > 0);
        let (mut records, mut fault) = (Vec::new(), None);
        for topic in response.responses {
            for data in topic.partitions {
                match self.take((topic.topic_id, data.partition_index), (node, number), data) {
                    Ok(found) => records.extend(found),
                    Err(error) => fault = Some(error),
                }
            }
        }
        self.is_stale |= fault.is_some();
        match fault {
            Some(error) if records.is_empty() || !error.cause().passes() => Err(error),
            _ => Ok(records),
        }
    }

    /// The acquired records of a partition. Offsets without a record are acknowledged as gaps.
    fn take(
        &mut self,
        place: Place,
        session: SessionId,
        data: PartitionData,
    ) -> Result<Vec<AcquiredRecord>, ClientError> {
        let name = self.name(place.0);
        self.note_lost(place, data.acknowledge_error_code);
        Refusal::check(data.error_code, data.error_message.as_deref(), || Operation::FetchPartition {
            topic: name.clone(),
            partition: place.1,
            offset: None,
        })?;
        let Acquired { records, gaps } =
            acquired(&(name, place.1), session, data.records, &data.acquired_records)?;
        if let Some(session) = self.sessions.get_mut(&session.0) {
            gaps.into_iter().for_each(|offset| session.acknowledge(place, offset, GAP));
        }
        Ok(records)
    }

    fn name(&self, topic: Uuid) -> String {
        self.topics.get(&topic).cloned().unwrap_or_else(|| id_text(topic.to_bytes()))
    }

    fn leaderless(&self, place: Place) -> ClientError {
        let operation =
            Operation::FetchPartition { topic: self.name(place.0), partition: place.1, offset: None };
        Refusal { operation, code: ErrorCode::LeaderNotAvailable.code(), message: None }.into()
    }
}

/// Sends a request to a leader in the best common version.
fn send<R: KafkaRequest + RequestResponsePair>(
    cluster: &mut Cluster,
    node: i32,
    request: impl FnOnce(i16) -> R,
) -> Result<R::Response, ClientError> {
    let client = cluster.broker(node)?;
    let version = client.best_version::<R>()?;
    Ok(client.request_at(version, &request(version))?)
}
