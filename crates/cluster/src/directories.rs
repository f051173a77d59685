//! Reports to the controller which log directory holds each replica (AssignReplicasToDirs). One
//! request is in flight; later changes go with the next one.
//!
//! A replica in a directory other than the one that the metadata names must be reported before the
//! broker is unfenced: a later report does not make the controller elect a leader.

use std::collections::BTreeMap;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, Uuid, assign_replicas_to_dirs_request,
};

#[cfg(test)]
mod tests;

/// Maximum number of replicas in one request, as in Kafka.
pub const MAX_ASSIGNMENTS: usize = 2250;

const RETRY_MS: i64 = 100;
const RETRY_MAX_MS: i64 = 10_000;

/// A replica: the topic's id and the partition's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaKey {
    topic: [u8; 16],
    partition: i32,
}

impl ReplicaKey {
    /// The replica of this partition.
    pub fn new(topic_id: Uuid, partition: i32) -> Self {
        Self { topic: topic_id.to_bytes(), partition }
    }

    /// Id of the topic.
    pub fn topic_id(&self) -> Uuid {
        Uuid::from_bytes(self.topic)
    }

    /// Index of the partition.
    pub fn partition(&self) -> i32 {
        self.partition
    }
}

/// The reports of one broker.
#[derive(Debug, Default)]
pub struct Directories {
    /// Replicas whose directory is not reported yet, or was refused.
    ready: BTreeMap<ReplicaKey, [u8; 16]>,
    in_flight: Option<(u64, BTreeMap<ReplicaKey, [u8; 16]>)>,
    last_request: u64,
    failures: u32,
    retry_ms: i64,
}

impl Directories {
    /// A state without replicas to report.
    pub fn new() -> Self {
        Self { retry_ms: i64::MIN, ..Self::default() }
    }

    /// The directory of a replica that the metadata lacks.
    pub fn assign(&mut self, replica: ReplicaKey, directory: Uuid) {
        self.ready.insert(replica, directory.to_bytes());
    }

    /// Removes a replica that was removed, or whose directory the metadata has.
    pub fn forget(&mut self, replica: ReplicaKey) {
        self.ready.remove(&replica);
        if let Some((_, sent)) = &mut self.in_flight {
            sent.remove(&replica);
        }
    }

    /// True if nothing is left to be reported or acknowledged.
    pub fn is_settled(&self) -> bool {
        self.ready.is_empty() && self.in_flight.is_none()
    }

    /// The time at which to poll again after a failure; `None` if nothing has to be retried.
    pub fn deadline(&self) -> Option<i64> {
        let waits = !self.ready.is_empty() && self.in_flight.is_none() && self.retry_ms > i64::MIN;
        waits.then_some(self.retry_ms)
    }

    /// The request to send now, with its number, if there is something to report.
    pub fn poll(
        &mut self,
        node_id: i32,
        epoch: i64,
        now_ms: i64,
    ) -> Option<(u64, AssignReplicasToDirsRequest)> {
        if self.ready.is_empty() || self.in_flight.is_some() || now_ms < self.retry_ms {
            return None;
        }
        let rest = self.ready.keys().nth(MAX_ASSIGNMENTS).copied();
        let rest = rest.map(|first| self.ready.split_off(&first)).unwrap_or_default();
        let batch = std::mem::replace(&mut self.ready, rest);
        self.last_request += 1;
        let mut request = AssignReplicasToDirsRequest::default();
        (request.broker_id, request.broker_epoch) = (node_id, epoch);
        request.directories = grouped(&batch);
        self.in_flight = Some((self.last_request, batch));
        Some((self.last_request, request))
    }

    /// Processes the response to a request; `None` means no response. Replicas without an
    /// acknowledgement are reported again, unless the replica has moved since, or the controller no
    /// longer has it.
    pub fn answered(&mut self, request: u64, response: Option<&AssignReplicasToDirsResponse>, now_ms: i64) {
        let Some((_, mut left)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == request) else {
            return;
        };
        let sent = left.len();
        if let Some(response) = response.filter(|response| response.error_code == ErrorCode::None.code()) {
            for topic in response.directories.iter().flat_map(|directory| &directory.topics) {
                for partition in topic.partitions.iter().filter(|found| is_final(found.error_code)) {
                    left.remove(&ReplicaKey::new(topic.topic_id, partition.partition_index));
                }
            }
        }
        if left.len() < sent || sent == 0 {
            self.failures = 0;
        }
        if left.is_empty() {
            self.retry_ms = i64::MIN;
        } else {
            let pause = (RETRY_MS << self.failures.min(16)).min(RETRY_MAX_MS);
            self.failures = self.failures.saturating_add(1);
            self.retry_ms = now_ms.saturating_add(pause);
        }
        for (replica, directory) in left {
            self.ready.entry(replica).or_insert(directory);
        }
    }
}

/// True if the replica is acknowledged or removed: the same report would get the same result.
fn is_final(code: i16) -> bool {
    let finals = [
        ErrorCode::None.code(),
        ErrorCode::UnknownTopicOrPartition.code(),
        ErrorCode::UnknownTopicId.code(),
        ErrorCode::NotLeaderOrFollower.code(),
    ];
    finals.contains(&code)
}

/// The assignments by directory and topic.
fn grouped(batch: &BTreeMap<ReplicaKey, [u8; 16]>) -> Vec<assign_replicas_to_dirs_request::DirectoryData> {
    let mut groups: BTreeMap<[u8; 16], BTreeMap<[u8; 16], Vec<i32>>> = BTreeMap::new();
    for (replica, directory) in batch {
        let topics = groups.entry(*directory).or_default();
        topics.entry(replica.topic).or_default().push(replica.partition);
    }
    let partition = |index: i32| {
        let mut data = assign_replicas_to_dirs_request::PartitionData::default();
        data.partition_index = index;
        data
    };
    let topic = |(id, partitions): ([u8; 16], Vec<i32>)| {
        let mut data = assign_replicas_to_dirs_request::TopicData::default();
        data.topic_id = Uuid::from_bytes(id);
        data.partitions = partitions.into_iter().map(partition).collect();
        data
    };
    let directory = |(id, topics): ([u8; 16], BTreeMap<[u8; 16], Vec<i32>>)| {
        let mut data = assign_replicas_to_dirs_request::DirectoryData::default();
        data.id = Uuid::from_bytes(id);
        data.topics = topics.into_iter().map(topic).collect();
        data
    };
    groups.into_iter().map(directory).collect()
}
