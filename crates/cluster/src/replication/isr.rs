//! Sends changes of in-sync replicas to the controller (AlterPartition). One request is in flight;
//! later changes go with the next one.
//!
//! The driver sends the request of [`IsrUpdates::poll`], passes its response to
//! [`IsrUpdates::answered`], and gives each result to the partition's [`Leader`](super::Leader). A
//! change whose response is missing or an error of the whole request stays, and is sent again after
//! a pause, which doubles with each such error.

use std::collections::BTreeMap;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    AlterPartitionRequest, AlterPartitionResponse, alter_partition_request, alter_partition_response,
};

use super::leader::{CommittedIsr, IsrChange};
use crate::directories::ReplicaKey;

#[cfg(test)]
mod tests;

/// Pause before a change is sent again, as in Kafka. In Kafka it does not grow; here it doubles, up
/// to [`RETRY_MAX_MS`], while the controller refuses whole requests.
const RETRY_MS: i64 = 50;
const RETRY_MAX_MS: i64 = 1000;

/// Maximum number of partitions in one request: the controller changes them in one transaction.
pub const MAX_CHANGES: usize = 1000;

/// The controller's result for one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrResult {
    /// The partition.
    pub partition: ReplicaKey,
    /// [`IsrChange::number`] of the change.
    pub number: u64,
    /// The committed ISR, or the error code of the partition.
    pub answer: Result<CommittedIsr, i16>,
}

/// The changes of one broker.
#[derive(Debug, Default)]
pub struct IsrUpdates {
    /// Changes that are not sent, or are to be sent again. A later change of a partition replaces
    /// an earlier one.
    waiting: BTreeMap<ReplicaKey, IsrChange>,
    in_flight: Option<(u64, BTreeMap<ReplicaKey, IsrChange>)>,
    last_request: u64,
    /// Number of whole requests that the controller has refused one after the other.
    refusals: u32,
    /// Time before which no request is sent; `None` unless a request has failed.
    retry_ms: Option<i64>,
}

impl IsrUpdates {
    /// A state without changes to send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a change of a partition. It replaces a waiting change of the partition, which the
    /// leader has dropped.
    pub fn submit(&mut self, partition: ReplicaKey, change: IsrChange) {
        self.waiting.insert(partition, change);
    }

    /// Queues a change again that the controller has refused for now, unless a later one waits.
    pub fn retry(&mut self, partition: ReplicaKey, change: IsrChange, now_ms: i64) {
        self.waiting.entry(partition).or_insert(change);
        self.retry_ms = Some(now_ms.saturating_add(RETRY_MS));
    }

    /// The time at which to poll again; `None` if nothing waits for a time.
    pub fn deadline(&self) -> Option<i64> {
        self.retry_ms.filter(|_| !self.waiting.is_empty() && self.in_flight.is_none())
    }

    /// The request to send now, with its number, if there is something to send.
    pub fn poll(
        &mut self,
        node_id: i32,
        broker_epoch: i64,
        now_ms: i64,
    ) -> Option<(u64, AlterPartitionRequest)> {
        let is_paused = self.retry_ms.is_some_and(|retry_ms| now_ms < retry_ms);
        if self.waiting.is_empty() || self.in_flight.is_some() || is_paused {
            return None;
        }
        self.retry_ms = None;
        let rest = self.waiting.keys().nth(MAX_CHANGES).copied();
        let rest = rest.map(|first| self.waiting.split_off(&first)).unwrap_or_default();
        let batch = std::mem::replace(&mut self.waiting, rest);
        self.last_request += 1;
        let mut request = AlterPartitionRequest::default();
        (request.broker_id, request.broker_epoch) = (node_id, broker_epoch);
        request.topics = grouped(&batch, (node_id, broker_epoch));
        self.in_flight = Some((self.last_request, batch));
        Some((self.last_request, request))
    }

    /// Processes the response to a request; `None` means no response. Returns the results of the
    /// changes that the controller has decided.
    pub fn answered(
        &mut self,
        request: u64,
        response: Option<&AlterPartitionResponse>,
        now_ms: i64,
    ) -> Vec<IsrResult> {
        let Some((_, mut left)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == request) else {
            return Vec::new();
        };
        let mut results = Vec::new();
        let judged = response.filter(|response| response.error_code == ErrorCode::None.code());
        for topic in judged.iter().flat_map(|response| &response.topics) {
            for partition in &topic.partitions {
                let key = ReplicaKey::new(topic.topic_id, partition.partition_index);
                if let Some(change) = left.remove(&key) {
                    results.push(IsrResult {
                        partition: key,
                        number: change.number,
                        answer: read(partition),
                    });
                }
            }
        }
        if !left.is_empty() {
            let pause = (RETRY_MS << self.refusals.min(16)).min(RETRY_MAX_MS);
            self.retry_ms = Some(now_ms.saturating_add(pause));
        }
        // Without a response, another controller may already be there.
        let is_refused = response.is_some() && judged.is_none();
        self.refusals = if is_refused { self.refusals.saturating_add(1) } else { 0 };
        for (partition, change) in left {
            self.waiting.entry(partition).or_insert(change);
        }
        results
    }
}

fn read(partition: &alter_partition_response::PartitionData) -> Result<CommittedIsr, i16> {
    if partition.error_code != ErrorCode::None.code() {
        return Err(partition.error_code);
    }
    Ok(CommittedIsr {
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        isr: partition.isr.clone(),
    })
}

/// The changes by topic.
fn grouped(
    batch: &BTreeMap<ReplicaKey, IsrChange>,
    own: (i32, i64),
) -> Vec<alter_partition_request::TopicData> {
    let mut topics: Vec<alter_partition_request::TopicData> = Vec::new();
    for (key, change) in batch {
        let topic_id = key.topic_id();
        if topics.last().is_none_or(|topic| topic.topic_id != topic_id) {
            let mut topic = alter_partition_request::TopicData::default();
            topic.topic_id = topic_id;
            topics.push(topic);
        }
        let topic = topics.last_mut().expect("a topic was pushed just now");
        topic.partitions.push(partition(key.partition(), change, own));
    }
    topics
}

fn partition(
    index: i32,
    change: &IsrChange,
    (node_id, own_epoch): (i32, i64),
) -> alter_partition_request::PartitionData {
    let member = |&(id, broker_epoch): &(i32, i64)| {
        let mut state = alter_partition_request::BrokerState::default();
        state.broker_id = id;
        state.broker_epoch = if id == node_id { own_epoch } else { broker_epoch };
        state
    };
    let mut data = alter_partition_request::PartitionData::default();
    data.partition_index = index;
    data.leader_epoch = change.leader_epoch;
    data.partition_epoch = change.partition_epoch;
    // A leader has recovered from an unclean election, as in Kafka.
    data.leader_recovery_state = 0;
    data.new_isr_with_epochs = change.isr.iter().map(member).collect();
    data
}
