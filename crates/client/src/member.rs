//! A member of a group by KIP-848: the coordinator decides which partitions it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use levada_security::nonce;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use levada_wire::messages::consumer_group_heartbeat_response::Assignment;
use levada_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, RequestResponsePair,
};
use levada_wire::{StrBytes, Uuid};

use crate::cluster::{Cluster, TopicPartition};
use crate::committed::{self, Seat};
use crate::error::{Cause, Caused, ClientError};
use crate::refusal::{Coordinated, Operation, Refusal};

/// Version from which a heartbeat can carry a regular expression.
const WITH_EXPRESSION: i16 = 1;
/// The epoch of a member that joins, and of one that leaves.
const JOINING: i32 = 0;
const LEAVING: i32 = -1;
/// Time that the member may take to revoke partitions.
const REBALANCE_TIMEOUT_MS: i32 = 60_000;

/// Partitions of a member, with the ids of their topics.
pub type Held = BTreeMap<TopicPartition, Uuid>;

/// A member of a group. It sends a heartbeat in each call of [`Member::beat`] in which one is due,
/// so that the caller has to call it several times a second.
#[derive(Debug)]
pub struct Member {
    group: String,
    id: String,
    epoch: i32,
    coordinator: Option<i32>,
    names: Vec<StrBytes>,
    expression: Option<String>,
    topics: BTreeMap<Uuid, String>,
    /// The partitions that it may read, `None` before the coordinator has assigned any.
    assigned: Option<BTreeSet<(Uuid, i32)>>,
    next_beat: Instant,
    /// Number of consecutive responses that have shown the member as joined and without a
    /// partition.
    idle_beats: u32,
}

impl Member {
    /// A member that has not joined yet. It will subscribe to the topics of these names, and to
    /// those whose whole name matches the expression.
    pub fn new<'a>(group: &str, names: impl Iterator<Item = &'a str>, expression: Option<String>) -> Self {
        Self {
            group: group.to_owned(),
            // Kafka's clients have ids of 22 characters; a longer id has no advantage.
            id: nonce().chars().take(22).collect(),
            epoch: JOINING,
            coordinator: None,
            names: names.map(StrBytes::from).collect(),
            expression,
            topics: BTreeMap::new(),
            assigned: None,
            next_beat: Instant::now(),
            idle_beats: 0,
        }
    }

    /// Id of the member, which the member has chosen.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// True if two consecutive responses gave the member no partition. One is not enough: a
    /// coordinator may look up the topics of a pattern after the member has joined.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle_beats >= 2
    }

    /// Makes [`Member::is_idle`] wait for another heartbeat.
    pub fn wait_for_a_heartbeat(&mut self) {
        self.idle_beats = 1;
    }

    /// Sends a heartbeat if one is due. Returns the partitions to read, if they have changed. The
    /// next heartbeat acknowledges them.
    ///
    /// # Errors
    /// The coordinator does not respond, or refuses the member. After an error that
    /// [`is_healed_by_a_heartbeat`] the member only has to send the next one.
    pub fn beat(&mut self, cluster: &mut Cluster) -> Result<Option<Held>, ClientError> {
        if Instant::now() < self.next_beat {
            return Ok(None);
        }
        let response = self.heartbeat(cluster, self.epoch)?;
        self.epoch = response.member_epoch;
        let interval = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(100);
        self.next_beat = Instant::now() + Duration::from_millis(interval);
        let assigned = response.assignment.as_ref().map(partitions);
        let has_some = assigned.as_ref().or(self.assigned.as_ref()).is_some_and(|all| !all.is_empty());
        self.idle_beats = if has_some { 0 } else { self.idle_beats + 1 };
        let Some(assigned) = assigned else { return Ok(None) };
        if self.assigned.as_ref() == Some(&assigned) {
            return Ok(None);
        }
        let places = self.places(cluster, &assigned)?;
        let has_changed = has_some || self.assigned.is_some();
        self.assigned = Some(assigned);
        if has_changed {
            // The coordinator waits for the report that the others are revoked.
            self.next_beat = Instant::now();
        }
        Ok(Some(places))
    }

    /// False after the group has rebalanced without it.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.epoch > JOINING
    }

    /// Commits these offsets, at which the next reader of the group resumes.
    ///
    /// # Errors
    /// Same as [`Member::beat`], and a refused partition.
    pub fn commit(
        &mut self,
        cluster: &mut Cluster,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), ClientError> {
        let seat = Seat { group: &self.group, member: &self.id, epoch: self.epoch };
        let committed = committed::commit(cluster, seat, offsets);
        self.heed(committed)
    }

    /// Leaves the group, so that others need not wait for the end of the session.
    pub fn leave(&mut self, cluster: &mut Cluster) {
        if self.has_joined() {
            // Without a response, the session's end does the same.
            let _ = self.heartbeat(cluster, LEAVING);
        }
    }

    /// Makes a heartbeat the next step, because the connection is new.
    pub fn hurry(&mut self) {
        self.coordinator = None;
        self.next_beat = Instant::now();
    }

    fn heartbeat(
        &mut self,
        cluster: &mut Cluster,
        epoch: i32,
    ) -> Result<ConsumerGroupHeartbeatResponse, ClientError> {
        let mut request = ConsumerGroupHeartbeatRequest::default();
        request.group_id = StrBytes::from(self.group.as_str());
        request.member_id = StrBytes::from(self.id.as_str());
        request.member_epoch = epoch;
        request.rebalance_timeout_ms = -1;
        if epoch >= JOINING {
            // Everything, each time: the response to the last heartbeat may be lost.
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS;
            request.subscribed_topic_names = Some(self.names.clone());
            request.subscribed_topic_regex = self.expression.as_deref().map(StrBytes::from);
            request.topic_partitions = Some(self.owned(epoch));
        }
        let response = self.ask(cluster, &request)?;
        let operation = || Operation::Join { group: self.group.clone() };
        let checked = Refusal::check(response.error_code, response.error_message.as_deref(), operation);
        self.heed(checked.map_err(|refusal| match refusal.error_code() {
            // The coordinator creates a group that does not exist: this is its response about a
            // group of another type.
            Some(ErrorCode::GroupIdNotFound) if epoch == JOINING => ClientError::OtherGroupType(refusal),
            _ => refusal.into(),
        }))?;
        Ok(response)
    }

    /// Partitions assigned to the member; none while it joins.
    fn owned(&self, epoch: i32) -> Vec<TopicPartitions> {
        let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in self.assigned.iter().flatten().filter(|_| epoch != JOINING) {
            topics.entry(*topic).or_default().push(*partition);
        }
        let of_topic = |(id, partitions)| {
            let mut topic = TopicPartitions::default();
            topic.topic_id = id;
            topic.partitions = partitions;
            topic
        };
        topics.into_iter().map(of_topic).collect()
    }

    fn ask<R: RequestResponsePair>(
        &mut self,
        cluster: &mut Cluster,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        let coordinator = match self.coordinator {
            Some(coordinator) => coordinator,
            None => cluster.coordinator(Coordinated::Group, &self.group)?,
        };
        let client = cluster.broker(coordinator)?;
        let missing = |reason| ClientError::NoMembers { group: self.group.clone(), reason };
        let version = client.best_version::<R>().map_err(missing)?;
        if self.expression.is_some() && version < WITH_EXPRESSION {
            let group = self.group.clone();
            return Err(ClientError::NoPatterns { group, node: coordinator, version });
        }
        self.coordinator = Some(coordinator);
        Ok(client.request_at(version, request)?)
    }

    /// A member that the group has rebalanced without rejoins; a member with a stale epoch requests
    /// the new one.
    fn heed<T>(&mut self, done: Result<T, ClientError>) -> Result<T, ClientError> {
        let Err(error) = &done else { return done };
        match error.cause().code() {
            Some(ErrorCode::StaleMemberEpoch) => self.hurry(),
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound) => {
                self.epoch = JOINING;
                self.assigned = None;
                self.idle_beats = 0;
                self.hurry();
            }
            _ => {}
        }
        done
    }

    /// Names for the ids of topics.
    fn places(
        &mut self,
        cluster: &mut Cluster,
        assigned: &BTreeSet<(Uuid, i32)>,
    ) -> Result<Held, ClientError> {
        if assigned.iter().any(|(id, _)| !self.topics.contains_key(id)) {
            let topics = cluster.metadata(None, false)?.topics.into_iter();
            self.topics = topics
                .map(|one| (one.topic_id, one.name.as_deref().unwrap_or_default().to_owned()))
                .collect();
        }
        let place = |(id, partition): &(Uuid, i32)| Some(((self.topics.get(id)?.clone(), *partition), *id));
        // A topic that has just been deleted has no name; the coordinator will take it back.
        Ok(assigned.iter().filter_map(place).collect())
    }
}

/// True for the cause of an error after which the member only has to send a heartbeat.
#[must_use]
pub fn is_healed_by_a_heartbeat(cause: Cause) -> bool {
    matches!(
        cause.code(),
        Some(
            ErrorCode::UnknownMemberId
                | ErrorCode::FencedMemberEpoch
                | ErrorCode::StaleMemberEpoch
                | ErrorCode::GroupIdNotFound
        )
    )
}

fn partitions(assignment: &Assignment) -> BTreeSet<(Uuid, i32)> {
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|one| one.partitions.iter().map(|index| (one.topic_id, *index))).collect()
}
