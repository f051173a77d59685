//! Offsets: commits (also in transactions), lookups, removals, expiry, and cleanup for deleted
//! topics.

use std::collections::BTreeSet;

use levada_wire::Uuid;

use super::Coordinator;
use super::appends::HeldFetch;
use super::held::HeldEvents;
use crate::group::classic::ClassicGroup;
use crate::group::config::GroupConfig;
use crate::group::consumer::ConsumerGroup;
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::offsets::expiry::{Age, Retention};
use crate::group::records::{OffsetKey, OffsetValue, Record};
use crate::group::request::{
    CommitPartition, CommitRequest, CommitTopic, CommittedTopic, EndTxnRequest, FetchRequest,
    OffsetDeleteRequest, TxnCommitRequest,
};
use crate::group::streams::StreamsGroup;
use crate::group::timers::{Alarm, TimerKey};
use crate::group::topics::GoneTopic;
use crate::group::turn::{AnyGroup, Continuation, PendingWrite};

/// The first version in which a commit to a missing group has a specific error.
const KNOWS_GROUP_ID_NOT_FOUND: i16 = 9;
/// The first version in which a transactional commit to a missing group, or with an earlier member
/// epoch, has a specific error.
const KNOWS_MEMBER_EPOCHS: i16 = 6;
/// Number of tombstones per batch, so that no batch exceeds the partition's limit.
const RECORDS_PER_APPEND: usize = 1_000;
/// Number of groups that are checked for expired offsets before waiting requests are processed.
const GROUPS_PER_TURN: usize = 1_000;
/// The pause before the next groups are checked.
const BETWEEN_TURNS_MS: i64 = 1;

impl Coordinator {
    pub(super) fn commit(&mut self, ticket: Ticket, request: CommitRequest, now_ms: i64) {
        if let Err(error) = self.admit_commit(&request, now_ms) {
            return self.reply(ticket, Outcome::Commit(Err(error)));
        }
        let expire_timestamp_ms =
            request.retention_ms.map(|retention_ms| now_ms.saturating_add(retention_ms));
        let times = Times { now_ms, expire_timestamp_ms };
        let (records, topics) = commit_records(&request.group_id, request.topics, &self.config, times);
        let outcome = Outcome::Commit(Ok(topics));
        if records.is_empty() {
            return self.reply(ticket, outcome);
        }
        self.append(PendingWrite { records, then: Continuation::Reply(ticket, outcome) }, now_ms);
    }

    fn admit_commit(&mut self, request: &CommitRequest, now_ms: i64) -> Result<(), GroupError> {
        if let Some(group) = self.consumers.get(&request.group_id) {
            let (epoch, version) = (request.generation, Some(request.api_version));
            return group.commit(&request.member_id, epoch, version, &request.topics, &*self.topics);
        }
        if let Some(group) = self.streams.get(&request.group_id) {
            let (epoch, version) = (request.generation, Some(request.api_version));
            return group.commit(&request.member_id, epoch, version, &request.topics);
        }
        if self.shares.contains_key(&request.group_id) {
            return Err(GroupError::GroupIdNotFound);
        }
        if !self.groups.contains_key(&request.group_id) {
            if request.generation >= 0 {
                return Err(match request.api_version {
                    KNOWS_GROUP_ID_NOT_FOUND.. => GroupError::GroupIdNotFound,
                    _ => GroupError::IllegalGeneration,
                });
            }
            self.found_simple(&request.group_id, now_ms);
        }
        let (groups, mut turn) = self.turn(now_ms);
        let group = groups.get_mut(&request.group_id).ok_or(GroupError::GroupIdNotFound)?;
        let instance = request.group_instance_id.as_deref();
        group.commit(&mut turn, &request.member_id, instance, request.generation)
    }

    /// Creates a group for a consumer that assigns its partitions itself: the group only holds
    /// offsets.
    fn found_simple(&mut self, group_id: &str, now_ms: i64) {
        let group = ClassicGroup::new(group_id.to_owned(), now_ms);
        self.groups.insert(group_id.to_owned(), group);
    }

    pub(super) fn commit_in_transaction(&mut self, ticket: Ticket, request: TxnCommitRequest, now_ms: i64) {
        if let Err(error) = self.admit_commit_in_transaction(&request, now_ms) {
            return self.reply(ticket, Outcome::TxnCommit(Err(error)));
        }
        let times = Times { now_ms, expire_timestamp_ms: None };
        let (records, topics) = commit_records(&request.group_id, request.topics, &self.config, times);
        let outcome = Outcome::TxnCommit(Ok(topics));
        if records.is_empty() {
            return self.reply(ticket, outcome);
        }
        let write = PendingWrite { records, then: Continuation::Reply(ticket, outcome) };
        self.append_in_transaction(write, request.producer, now_ms);
    }

    fn admit_commit_in_transaction(
        &mut self,
        request: &TxnCommitRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let (member_id, epoch, topics) = (&request.member_id, request.generation, &request.topics);
        let consumer = self.consumers.get(&request.group_id);
        let consumer = consumer.map(|group| group.commit(member_id, epoch, None, topics, &*self.topics));
        let streams = || Some(self.streams.get(&request.group_id)?.commit(member_id, epoch, None, topics));
        if let Some(admitted) = consumer.or_else(streams) {
            if !request.names_member() {
                return Ok(());
            }
            return admitted.map_err(|error| match error {
                GroupError::StaleMemberEpoch if request.api_version < KNOWS_MEMBER_EPOCHS => {
                    GroupError::IllegalGeneration
                }
                error => error,
            });
        }
        let is_share_written = self.writing.get(&request.group_id).is_some_and(HeldEvents::is_share);
        if is_share_written || self.shares.contains_key(&request.group_id) {
            return Err(GroupError::GroupIdNotFound);
        }
        if !self.groups.contains_key(&request.group_id) {
            if request.generation >= 0 {
                return Err(match request.api_version {
                    KNOWS_MEMBER_EPOCHS.. => GroupError::GroupIdNotFound,
                    _ => GroupError::IllegalGeneration,
                });
            }
            if self.writing.contains_key(&request.group_id) {
                // Its first member has founded it.
                return Ok(());
            }
            self.found_simple(&request.group_id, now_ms);
        }
        let group = self.groups.get(&request.group_id).ok_or(GroupError::IllegalGeneration)?;
        group.commit_in_transaction(request)
    }

    pub(super) fn end_transaction(&mut self, ticket: Ticket, end: EndTxnRequest) {
        self.append_marker(end, Continuation::Reply(ticket, Outcome::EndTxn(Ok(()))));
    }

    /// Removes offsets that no member uses, also those of open transactions.
    pub(super) fn delete_offsets(&mut self, ticket: Ticket, request: OffsetDeleteRequest, now_ms: i64) {
        let classic = self.groups.get(&request.group_id);
        let consumer = self.consumers.get(&request.group_id);
        let streams = self.streams.get(&request.group_id);
        let allowed = match classic {
            Some(group) => group.validate_offset_delete(),
            None if consumer.is_none() && streams.is_none() => Err(GroupError::GroupIdNotFound),
            None => Ok(()),
        };
        if let Err(error) = allowed {
            return self.reply(ticket, Outcome::OffsetDelete(Err(error)));
        }
        let read = streams.map(StreamsGroup::in_use).unwrap_or_default();
        let is_in_use = |topic: &str| {
            classic.is_some_and(|group| group.is_subscribed_to(topic))
                || consumer.is_some_and(|group| group.is_subscribed_to(topic))
                || read.contains(topic)
        };
        let being_written: BTreeSet<&OffsetKey> = self.appends.keys_of_group(&request.group_id).collect();
        let mut records = Vec::new();
        let topics = request.topics.into_iter().map(|(name, partitions)| {
            let error = is_in_use(&name).then_some(GroupError::GroupSubscribedToTopic);
            if error.is_none() {
                let keys = partitions.iter().map(|&partition| OffsetKey {
                    group_id: request.group_id.clone(),
                    topic: name.clone(),
                    partition,
                });
                let known = keys.filter(|key| self.offsets.has(key) || being_written.contains(key));
                records.extend(known.map(|key| Record::Offset(key, None)));
            }
            let partitions = partitions.into_iter().map(|partition| (partition, error)).collect();
            CommittedTopic { name, topic_id: Uuid::ZERO, partitions }
        });
        let outcome = Outcome::OffsetDelete(Ok(topics.collect()));
        if records.is_empty() {
            return self.reply(ticket, outcome);
        }
        self.append(PendingWrite { records, then: Continuation::Reply(ticket, outcome) }, now_ms);
    }

    pub(super) fn fetch(&mut self, ticket: Ticket, request: FetchRequest) {
        // A stable response includes the commits of the group that are being written at the time of
        // the request.
        match self.appends.last_offsets(&request.group_id).filter(|_| request.require_stable) {
            Some(after) => self.held_fetches.push(HeldFetch { after, ticket, request }),
            None => self.answer_fetch(ticket, &request),
        }
    }

    pub(super) fn answer_fetch(&mut self, ticket: Ticket, request: &FetchRequest) {
        let (member_id, epoch) = (request.member_id.as_deref(), request.member_epoch);
        let consumer = self.consumers.get(&request.group_id);
        let consumer = consumer.map_or(Ok(()), |group| group.fetch(member_id, epoch));
        let streams = self.streams.get(&request.group_id);
        let streams = streams.map_or(Ok(()), |group| group.fetch(member_id, epoch));
        if let Err(error) = consumer.and(streams) {
            return self.reply(ticket, Outcome::Fetch(Err(error)));
        }
        let topics = self.offsets.fetch(&request.group_id, request.topics.as_deref(), request.require_stable);
        self.reply(ticket, Outcome::Fetch(Ok(topics)));
    }

    /// Applies a commit that is in the log. A group with offsets exists.
    pub(super) fn apply_offset(
        &mut self,
        record_offset: i64,
        transaction: Option<i64>,
        key: OffsetKey,
        value: Option<OffsetValue>,
    ) {
        if let Some(value) = &value
            && !self.knows(&key.group_id)
        {
            let group = ClassicGroup::new(key.group_id.clone(), value.commit_timestamp_ms);
            self.groups.insert(key.group_id.clone(), group);
        }
        self.offsets.apply(record_offset, transaction, key, value);
    }

    /// Deletes the committed offsets of deleted topics.
    pub(super) fn forget_topics(&mut self, topics: &[GoneTopic], now_ms: i64) {
        let mut keys = self.offsets.keys_of_topics(topics);
        keys.extend(self.appends.keys_of_topics(topics).cloned());
        keys.sort_unstable();
        keys.dedup();
        for keys in keys.chunks(RECORDS_PER_APPEND) {
            let records = keys.iter().map(|key| Record::Offset(key.clone(), None)).collect();
            self.append(PendingWrite { records, then: Continuation::Nothing }, now_ms);
        }
    }

    /// Removes expired offsets, and groups without members and offsets. Checks some groups only and
    /// sets the alarm for the next ones, so that requests do not wait.
    pub(super) fn expire_offsets(&mut self, now_ms: i64) {
        let from = self.expire_from.take().unwrap_or_default();
        let mut group_ids: Vec<String> =
            self.groups.range(from.clone()..).map(|(id, _)| id.clone()).take(GROUPS_PER_TURN + 1).collect();
        let consumers = self.consumers.range(from.clone()..).map(|(id, _)| id.clone());
        let streams = self.streams.range(from..).map(|(id, _)| id.clone());
        group_ids.extend(consumers.take(GROUPS_PER_TURN + 1).chain(streams.take(GROUPS_PER_TURN + 1)));
        group_ids.sort_unstable();
        let rest = group_ids.split_off(group_ids.len().min(GROUPS_PER_TURN));
        let mut ends = Ends::default();
        for group_id in group_ids {
            let (records, is_over) = self.expired(&group_id, now_ms);
            for record in records {
                if ends.records.len() == RECORDS_PER_APPEND {
                    self.append(std::mem::take(&mut ends).into(), now_ms);
                }
                ends.records.push(record);
            }
            if is_over {
                ends.groups.extend(self.remove_group(&group_id));
            }
        }
        if !ends.records.is_empty() {
            self.append(ends.into(), now_ms);
        }
        self.expire_from = rest.into_iter().next();
        let interval_ms = match self.expire_from {
            Some(_) => BETWEEN_TURNS_MS,
            None => self.config.offsets_retention_check_interval_ms.max(1),
        };
        self.timers.set_in(TimerKey::Expiry, interval_ms, Alarm::ExpiryDue);
    }

    /// Records that remove the group's expired offsets, and the group itself if nothing of it
    /// remains; true in the latter case.
    fn expired(&self, group_id: &str, now_ms: i64) -> (Vec<Record>, bool) {
        if self.appends.has_offsets(group_id) {
            // The store does not have the newest offsets yet: the next check decides.
            return (Vec::new(), false);
        }
        let expired_by = |retention: Option<&Retention<'_>>| {
            let (keys, all) =
                self.offsets.expired(group_id, retention, now_ms, self.config.offsets_retention_ms);
            (keys.into_iter().map(|key| Record::Offset(key, None)).collect::<Vec<_>>(), all)
        };
        if let Some(group) = self.groups.get(group_id) {
            let (mut records, all) = expired_by(group.retention().as_ref());
            let is_over = all && group.validate_delete().is_ok();
            records.extend(is_over.then(|| Record::Group(group_id.to_owned(), None)));
            return (records, is_over);
        }
        let consumer = self.consumers.get(group_id).map(ConsumerGroup::in_use);
        let in_use = consumer.or_else(|| self.streams.get(group_id).map(StreamsGroup::in_use));
        let in_use = in_use.filter(|_| !self.writing.contains_key(group_id));
        let Some(in_use) = in_use else { return (Vec::new(), false) };
        let retention = Retention { age: Age::SinceCommit, in_use: Some(&in_use), all_in_use: false };
        let (mut records, all) = expired_by(Some(&retention));
        let is_over = all && self.validate_delete(group_id).is_ok();
        if is_over {
            records.extend(self.end_of(group_id));
        }
        (records, is_over)
    }
}

/// Expired offsets, to be written together.
#[derive(Default)]
struct Ends {
    records: Vec<Record>,
    groups: Vec<AnyGroup>,
}

impl From<Ends> for PendingWrite {
    fn from(ends: Ends) -> Self {
        Self { records: ends.records, then: Continuation::Expired(ends.groups) }
    }
}

/// Time of the commit, and its expiration if the client set one.
#[derive(Clone, Copy)]
struct Times {
    now_ms: i64,
    expire_timestamp_ms: Option<i64>,
}

/// The records of a commit, and the response to send when they are stored.
fn commit_records(
    group_id: &str,
    topics: Vec<CommitTopic>,
    config: &GroupConfig,
    times: Times,
) -> (Vec<Record>, Vec<CommittedTopic>) {
    let mut records = Vec::new();
    let topics = topics.into_iter().map(|topic| {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = partition.index;
            if is_too_long(&partition, config.offset_metadata_max_bytes) {
                partitions.push((index, Some(GroupError::OffsetMetadataTooLarge)));
                continue;
            }
            let key =
                OffsetKey { group_id: group_id.to_owned(), topic: topic.name.clone(), partition: index };
            let value = OffsetValue {
                offset: partition.offset,
                leader_epoch: partition.leader_epoch.max(-1),
                metadata: partition.metadata.unwrap_or_default(),
                commit_timestamp_ms: times.now_ms,
                expire_timestamp_ms: times.expire_timestamp_ms,
                topic_id: topic.topic_id,
            };
            records.push(Record::Offset(key, Some(value)));
            partitions.push((index, None));
        }
        CommittedTopic { name: topic.name, topic_id: topic.topic_id, partitions }
    });
    let topics = topics.collect();
    (records, topics)
}

/// Java counts UTF-16 units; never more of them than bytes.
fn is_too_long(partition: &CommitPartition, max_units: usize) -> bool {
    let metadata = partition.metadata.as_deref().unwrap_or_default();
    metadata.len() > max_units && metadata.encode_utf16().count() > max_units
}
