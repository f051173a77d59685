//! Offsets by time: ListOffsets requests to the leaders of partitions.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ListOffsetsRequest;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;

use super::{COMING_POLL, COMING_WAIT, Cluster, NO_LEADER, Topic};
use crate::kafka_error;
use levada_terminal::failure::Failure;

/// Timestamp for the end of the log.
pub(crate) const LATEST: i64 = -1;
/// Timestamp for the start of the log.
pub(crate) const EARLIEST: i64 = -2;
/// Timestamp for the record with the greatest timestamp.
pub(crate) const MAX_TIMESTAMP: i64 = -3;

/// The first version of ListOffsets with [`MAX_TIMESTAMP`].
const MAX_TIMESTAMP_VERSION: i16 = 7;

/// Error of a leader until it has its partition.
const COMING: [i16; 3] = [
    ErrorCode::UnknownTopicOrPartition.code(),
    ErrorCode::LeaderNotAvailable.code(),
    ErrorCode::NotLeaderOrFollower.code(),
];

/// A topic's name and a partition's number.
pub(crate) type TopicPartition = (String, i32);

/// Records up to which an end offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// All.
    Uncommitted = 0,
    /// Records before the first open transaction.
    Committed = 1,
}

/// A partition, its leader, and the requested time: milliseconds or one of the constants above.
pub(crate) struct OffsetQuery<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) leader: i32,
    pub(crate) timestamp: i64,
}

/// Result of a leader; both are -1 if there is no such record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
}

impl FoundOffset {
    /// The offset, if there is one.
    pub(crate) fn offset(self) -> Option<i64> {
        Some(self.offset).filter(|offset| *offset >= 0)
    }
}

impl Cluster {
    /// The offset of each partition at its timestamp; -1 if there is none.
    pub(crate) fn offsets(
        &mut self,
        topic: &Topic,
        timestamps: &BTreeMap<i32, i64>,
    ) -> Result<BTreeMap<i32, i64>, Failure> {
        let asked = timestamps.iter().map(|(partition, timestamp)| {
            let leader = topic.present_leader(*partition)?;
            Ok(OffsetQuery { topic: &topic.name, partition: *partition, leader, timestamp: *timestamp })
        });
        let asked = asked.collect::<Result<Vec<_>, Failure>>()?;
        let found = self.look_up(&asked, Isolation::Uncommitted)?;
        Ok(found.into_iter().map(|((_, partition), found)| (partition, found.offset)).collect())
    }

    /// The offset of every partition of these topics at one time, of partitions with a leader.
    pub(crate) fn offsets_at<'a>(
        &mut self,
        topics: impl IntoIterator<Item = &'a Topic>,
        timestamp: i64,
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, Failure> {
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

    /// Sends requests to the leaders, and repeats them while a leader has not taken over its
    /// partition.
    pub(crate) fn look_up(
        &mut self,
        asked: &[OffsetQuery<'_>],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, Failure> {
        let started = Instant::now();
        loop {
            let answered = self.ask_leaders(asked, isolation)?;
            let coming = answered.values().any(|answer| COMING.contains(&answer.error_code));
            if coming && started.elapsed() < COMING_WAIT {
                thread::sleep(COMING_POLL);
                continue;
            }
            let found = answered.into_iter().map(|(place, answer)| {
                let doing = format!("offsets of {}/{}", place.0, place.1);
                let checked = kafka_error::check(answer.error_code, &doing, None);
                kafka_error::needing(checked, "describe", &format!("--topic {}", place.0))?;
                Ok((place, FoundOffset { offset: answer.offset, timestamp_ms: answer.timestamp }))
            });
            return found.collect();
        }
    }

    /// Sends one request to each leader.
    fn ask_leaders(
        &mut self,
        asked: &[OffsetQuery<'_>],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, ListOffsetsPartitionResponse>, Failure> {
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
                return Err(Failure::new(format!("broker {leader} cannot find the greatest timestamp")));
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
