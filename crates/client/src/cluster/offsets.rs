//! Offsets by time: ListOffsets requests to the leaders of partitions.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ListOffsetsRequest;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;

use super::{Cluster, NO_LEADER, Topic, until_settled};
use crate::error::{Cause, Caused, ClientError};
use crate::refusal::{Operation, Refusal};

/// Timestamp for the end of the log.
pub const LATEST: i64 = -1;
/// Timestamp for the start of the log.
pub const EARLIEST: i64 = -2;
/// Timestamp for the record with the greatest timestamp.
pub const MAX_TIMESTAMP: i64 = -3;
/// Timestamp for the first record on the leader's disk: earlier records are in remote storage. From
/// ListOffsets 8 on.
pub const EARLIEST_LOCAL: i64 = -4;
/// Timestamp for the last record in remote storage. From ListOffsets 9 on.
pub const LATEST_TIERED: i64 = -5;

/// The first version of ListOffsets with [`MAX_TIMESTAMP`].
const MAX_TIMESTAMP_VERSION: i16 = 7;

/// Errors of a leader that is not ready for its partition yet.
const COMING: [i16; 3] = [
    ErrorCode::UnknownTopicOrPartition.code(),
    ErrorCode::LeaderNotAvailable.code(),
    ErrorCode::NotLeaderOrFollower.code(),
];

/// A topic's name and a partition's number.
pub type TopicPartition = (String, i32);

/// Records up to which an end offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All records, including those of open and aborted transactions.
    Uncommitted = 0,
    /// Records before the first open transaction.
    Committed = 1,
}

/// A partition, its leader, and the requested time: milliseconds, or one of the constants of this
/// module.
#[derive(Clone, Copy, Debug)]
pub struct OffsetQuery<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The broker that leads it.
    pub leader: i32,
    /// Milliseconds since 1970, or a constant.
    pub timestamp: i64,
}

/// Result of a leader; both are -1 if there is no such record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl FoundOffset {
    /// The offset, if there is one.
    #[must_use]
    pub fn offset(self) -> Option<i64> {
        Some(self.offset).filter(|offset| *offset >= 0)
    }
}

impl Cluster {
    /// The offset of each partition at its timestamp; -1 if there is none.
    ///
    /// # Errors
    /// A partition does not exist or has no leader, or as [`Cluster::look_up`].
    pub fn offsets(
        &mut self,
        topic: &Topic,
        timestamps: &BTreeMap<i32, i64>,
    ) -> Result<BTreeMap<i32, i64>, ClientError> {
        let asked = timestamps.iter().map(|(partition, timestamp)| {
            let leader = topic.present_leader(*partition)?;
            Ok(OffsetQuery { topic: &topic.name, partition: *partition, leader, timestamp: *timestamp })
        });
        let asked = asked.collect::<Result<Vec<_>, ClientError>>()?;
        let found = self.look_up(&asked, Isolation::Uncommitted)?;
        Ok(found.into_iter().map(|((_, partition), found)| (partition, found.offset)).collect())
    }

    /// The offset of every partition of these topics at one time, of partitions with a leader.
    ///
    /// # Errors
    /// Same as [`Cluster::look_up`].
    pub fn offsets_at<'a>(
        &mut self,
        topics: impl IntoIterator<Item = &'a Topic>,
        timestamp: i64,
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, ClientError> {
        let each = |topic: &'a Topic| {
            let led = topic.leaders.iter().filter(|(_, leader)| **leader != NO_LEADER);
            led.map(move |(partition, leader)| OffsetQuery {
                topic: &topic.name,
                partition: *partition,
                leader: *leader,
                timestamp,
            })
        };
        let asked: Vec<OffsetQuery<'_>> = topics.into_iter().flat_map(each).collect();
        self.look_up(&asked, isolation)
    }

    /// Sends requests to the leaders, and repeats them for up to 10 s while a leader is not ready
    /// for its partition.
    ///
    /// # Errors
    /// A request gets no response, or a leader refuses a partition.
    pub fn look_up(
        &mut self,
        asked: &[OffsetQuery<'_>],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, ClientError> {
        let is_coming = |answered: &BTreeMap<_, ListOffsetsPartitionResponse>| {
            answered.values().any(|answer| COMING.contains(&answer.error_code))
        };
        let answered = until_settled(is_coming, || self.ask_leaders(asked, isolation))?;
        let found = answered.into_iter().map(|(place, answer)| {
            let operation = || Operation::ListOffset { topic: place.0.clone(), partition: place.1 };
            Refusal::check(answer.error_code, None, operation)?;
            Ok((place, FoundOffset { offset: answer.offset, timestamp_ms: answer.timestamp }))
        });
        found.collect()
    }

    /// The ends of partitions whose leaders know them, by one request to each leader; partitions
    /// that a leader refuses, and those of a leader that does not respond, are omitted.
    ///
    /// # Errors
    /// The metadata of a topic is refused, or a response is not valid.
    pub fn known_ends<'a>(
        &mut self,
        places: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        let places: Vec<&TopicPartition> = places.into_iter().collect();
        let names: BTreeSet<&str> = places.iter().map(|place| place.0.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let topics = self.topics(Some(&names))?;
        let query = |(topic, partition): &'a TopicPartition| {
            let leader = *topics.get(topic)?.leaders.get(partition)?;
            Some(OffsetQuery { topic, partition: *partition, leader, timestamp: LATEST })
        };
        let mut by_leader: BTreeMap<i32, Vec<OffsetQuery<'_>>> = BTreeMap::new();
        for one in places.into_iter().filter_map(query).filter(|one| one.leader != NO_LEADER) {
            by_leader.entry(one.leader).or_default().push(one);
        }
        let mut ends = BTreeMap::new();
        for asked in by_leader.values() {
            match self.ask_leaders(asked, Isolation::Uncommitted) {
                Ok(answered) => ends.extend(answered),
                Err(error) if error.cause() == Cause::Connection => {}
                Err(error) => return Err(error),
            }
        }
        let known = ends.into_iter().filter(|(_, answer)| answer.error_code == 0 && answer.offset >= 0);
        Ok(known.map(|(place, answer)| (place, answer.offset)).collect())
    }

    /// Sends one request to each leader.
    fn ask_leaders(
        &mut self,
        asked: &[OffsetQuery<'_>],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, ListOffsetsPartitionResponse>, ClientError> {
        let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<ListOffsetsPartition>>> = BTreeMap::new();
        for one in asked {
            let mut partition = ListOffsetsPartition::default();
            partition.partition_index = one.partition;
            partition.current_leader_epoch = -1;
            partition.timestamp = one.timestamp;
            by_leader.entry(one.leader).or_default().entry(one.topic).or_default().push(partition);
        }
        let newest = asked.iter().any(|one| one.timestamp == MAX_TIMESTAMP);
        let mut answers = BTreeMap::new();
        for (leader, topics) in by_leader {
            let mut request = ListOffsetsRequest::default();
            request.replica_id = -1;
            request.isolation_level = isolation as i8;
            let topic = |(name, partitions): (&str, Vec<ListOffsetsPartition>)| {
                let mut topic = ListOffsetsTopic::default();
                topic.name = StrBytes::from(name);
                topic.partitions = partitions;
                topic
            };
            request.topics = topics.into_iter().map(topic).collect();
            let client = self.broker(leader)?;
            if newest && client.best_version::<ListOffsetsRequest>()? < MAX_TIMESTAMP_VERSION {
                return Err(ClientError::NoMaxTimestamp { node: leader });
            }
            for topic in client.request(&request)?.topics {
                let name = topic.name.as_str();
                answers.extend(
                    topic.partitions.into_iter().map(|one| ((name.to_owned(), one.partition_index), one)),
                );
            }
        }
        Ok(answers)
    }
}
