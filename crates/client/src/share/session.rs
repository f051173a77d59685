//! The share session of a member with one leader: the partitions that the leader knows of, and
//! acknowledgements on their way to it. A request names changes only. The session ends with its
//! connection, and then the leader releases all records of the member.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;
use levada_wire::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch,
};
use levada_wire::messages::share_fetch_request::{
    AcknowledgementBatch as FetchAcknowledgement, FetchPartition, FetchTopic, ForgottenTopic,
};

/// Epoch of the request that opens a session, and of the one that closes it.
const OPENING: i32 = 0;
pub(super) const CLOSING: i32 = -1;

/// A topic's id and a partition's number.
pub(super) type Place = (Uuid, i32);

/// Acknowledgement types by offset.
type Due = BTreeMap<Place, BTreeMap<i64, i8>>;

/// Share session of one broker; see the module.
#[derive(Debug)]
pub(super) struct Session {
    /// Distinguishes the sessions of a leader.
    pub(super) number: u64,
    epoch: i32,
    partitions: BTreeSet<Place>,
    due: Due,
}

/// First and last offset, and the type of each or one for all.
type AcknowledgedRange = (i64, i64, Vec<i8>);

impl Session {
    /// A session that the next fetch opens.
    pub(super) fn new(number: u64) -> Self {
        Self { number, epoch: OPENING, partitions: BTreeSet::new(), due: Due::new() }
    }

    /// True until the first response.
    pub(super) fn is_opening(&self) -> bool {
        self.epoch == OPENING
    }

    /// Epoch of the next request.
    pub(super) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// True if an acknowledgement has not been sent.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Notes the acknowledgement of a record; a later one of the same record replaces it.
    pub(super) fn acknowledge(&mut self, place: Place, offset: i64, kind: i8) {
        self.due.entry(place).or_default().insert(offset, kind);
    }

    /// Topics of a fetch of these partitions, with the acknowledgements that are due; and topics
    /// with partitions that are no longer fetched.
    pub(super) fn fetch(&self, wanted: &BTreeSet<Place>) -> (Vec<FetchTopic>, Vec<ForgottenTopic>) {
        let mut named: BTreeMap<Uuid, Vec<FetchPartition>> = BTreeMap::new();
        let new = wanted.difference(&self.partitions).copied();
        let places: BTreeSet<Place> = new.chain(self.due.keys().copied()).collect();
        for (topic, index) in places {
            let mut partition = FetchPartition::default();
            partition.partition_index = index;
            partition.acknowledgement_batches = self.due_ranges((topic, index), |(first, last, types)| {
                let mut batch = FetchAcknowledgement::default();
                (batch.first_offset, batch.last_offset, batch.acknowledge_types) = (first, last, types);
                batch
            });
            named.entry(topic).or_default().push(partition);
        }
        let mut forgotten: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, index) in self.partitions.difference(wanted) {
            forgotten.entry(*topic).or_default().push(*index);
        }
        let topic = |(id, partitions)| {
            let mut topic = FetchTopic::default();
            (topic.topic_id, topic.partitions) = (id, partitions);
            topic
        };
        let forgotten_topic = |(id, partitions)| {
            let mut topic = ForgottenTopic::default();
            (topic.topic_id, topic.partitions) = (id, partitions);
            topic
        };
        (named.into_iter().map(topic).collect(), forgotten.into_iter().map(forgotten_topic).collect())
    }

    /// Topics of a ShareAcknowledge with all that is due.
    pub(super) fn acknowledged(&self) -> Vec<AcknowledgeTopic> {
        let mut named: BTreeMap<Uuid, Vec<AcknowledgePartition>> = BTreeMap::new();
        for place in self.due.keys() {
            let mut partition = AcknowledgePartition::default();
            partition.partition_index = place.1;
            partition.acknowledgement_batches = self.due_ranges(*place, |(first, last, types)| {
                let mut batch = AcknowledgementBatch::default();
                (batch.first_offset, batch.last_offset, batch.acknowledge_types) = (first, last, types);
                batch
            });
            named.entry(place.0).or_default().push(partition);
        }
        let topic = |(id, partitions)| {
            let mut topic = AcknowledgeTopic::default();
            (topic.topic_id, topic.partitions) = (id, partitions);
            topic
        };
        named.into_iter().map(topic).collect()
    }

    fn due_ranges<T>(&self, place: Place, batch: impl Fn(AcknowledgedRange) -> T) -> Vec<T> {
        self.due.get(&place).map(ranges).unwrap_or_default().into_iter().map(batch).collect()
    }

    /// Records that the leader has accepted a fetch of these partitions.
    pub(super) fn fetched(&mut self, wanted: BTreeSet<Place>) {
        self.partitions = wanted;
        self.sent();
    }

    /// Records that the leader has accepted a request of the session.
    pub(super) fn sent(&mut self) {
        self.due.clear();
        // After the greatest epoch comes 1: 0 would open a session.
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
    }
}

/// Adjacent offsets as ranges, with one type in all if it is the same.
fn ranges(due: &BTreeMap<i64, i8>) -> Vec<AcknowledgedRange> {
    let mut ranges: Vec<AcknowledgedRange> = Vec::new();
    for (offset, kind) in due {
        match ranges.last_mut() {
            Some((_, last, types)) if *last + 1 == *offset => {
                *last = *offset;
                types.push(*kind);
            }
            _ => ranges.push((*offset, *offset, vec![*kind])),
        }
    }
    for (_, _, types) in &mut ranges {
        if types.iter().all(|kind| *kind == types[0]) {
            types.truncate(1);
        }
    }
    ranges
}
