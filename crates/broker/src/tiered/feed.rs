//! Reads the metadata topic: the records about partitions of this broker, from the beginning. Reads
//! a local replica directly, and otherwise fetches from the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use levada_base::batch::{BatchView, records};
use levada_log::ReadError;
use levada_tiered::record::{METADATA_TOPIC, decode, metadata_partition};
use levada_tiered::{RemoteRecord, TopicIdPartition};
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::{FetchRequest, FetchResponse, RequestResponsePair};

use super::{RemotePartition, Tiers};
use crate::end_offsets::Leaders;
use crate::peers::{Peer, Subject};
use crate::replica::Partition;

/// Bytes of records in one read.
const READ_BYTES: u32 = 1 << 20;

/// A partition of the metadata topic that is read.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Offset of the next record.
    next: i64,
}

/// The replica of a metadata partition that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The replica of this broker, or otherwise the leader.
    Nearest,
    /// The leader, which has a record that it has acknowledged before the followers know that it is
    /// committed.
    Leader,
}

/// Records of a metadata partition.
struct FeedPart {
    batches: Bytes,
    /// Offset from which on records are not committed.
    end: i64,
    /// First offset of the partition.
    start: i64,
}

impl Tiers {
    /// Number of partitions of the metadata topic; none if it does not exist.
    pub(super) fn feed_count(&self) -> Option<i32> {
        let image = self.metadata.image();
        let topic = image.topic(METADATA_TOPIC)?;
        i32::try_from(topic.partition_count()).ok().filter(|count| *count > 0)
    }

    /// The partition of the metadata topic with the records of a partition.
    pub(crate) fn feed_of(&self, name: &TopicIdPartition) -> Option<i32> {
        Some(metadata_partition(name, self.feed_count()?))
    }

    /// Begins to read the records of partitions: from the first on, also if other partitions have
    /// been read further. Those whose metadata has no known end stay out. Blocks until the leaders
    /// of the metadata have answered, which are asked at the same time and once each.
    pub(crate) fn subscribe(&self, names: impl Iterator<Item = TopicIdPartition>) {
        let mut by_feed = BTreeMap::<i32, Vec<TopicIdPartition>>::new();
        for name in names {
            if let Some(index) = self.feed_of(&name) {
                by_feed.entry(index).or_default().push(name);
            }
        }
        let ends = self.feed_ends(by_feed.keys().copied().collect());
        for (index, names) in by_feed {
            let Some(ready_at) = ends.get(&index) else { continue };
            let feed = self.feeds.write().entry(index).or_default().clone();
            // No record passes between the entries and the new beginning.
            let mut feed = feed.lock();
            let mut partitions = self.partitions.write();
            for name in names {
                let key = (name.topic_id, name.partition);
                partitions.insert(key, Arc::new(RemotePartition::new(name, index, *ready_at)));
            }
            feed.next = 0;
        }
    }

    /// Reads a metadata partition up to its end. Blocks. False if it cannot be read now.
    pub(super) fn read_feed(&self, index: i32, origin: Origin) -> bool {
        let feed = self.feeds.read().get(&index).cloned();
        let Some(feed) = feed else { return true };
        loop {
            let next = feed.lock().next;
            // Not under the lock: a leader may take long to answer.
            let Some(part) = self.part(index, next, origin) else { return false };
            let mut feed = feed.lock();
            if feed.next != next {
                // Another thread has read, or a new partition needs the records from the first on.
                continue;
            }
            let from = next.max(part.start);
            feed.next = self.apply(&part, from);
            if feed.next < part.end && feed.next != from {
                continue;
            }
            let fed = self.all().into_iter().filter(|partition| partition.feed() == index);
            fed.for_each(|partition| partition.applied_up_to(feed.next));
            return true;
        }
    }

    /// Applies committed records from `from` on; returns the offset of the next one.
    fn apply(&self, part: &FeedPart, from: i64) -> i64 {
        let (mut rest, mut next) = (&*part.batches, from);
        while let Ok(batch) = BatchView::parse(rest) {
            if batch.last_offset() >= part.end || batch.size_bytes() > rest.len() {
                break;
            }
            if batch.last_offset() >= from && !batch.is_control() {
                self.apply_batch(&batch, rest, from);
            }
            next = next.max(batch.last_offset().saturating_add(1));
            rest = &rest[batch.size_bytes()..];
        }
        next
    }

    fn apply_batch(&self, batch: &BatchView<'_>, bytes: &[u8], from: i64) {
        let expanded = match records(&bytes[..batch.size_bytes()]) {
            Ok(expanded) => expanded,
            Err(error) => {
                let offset = batch.base_offset();
                tracing::error!(offset, %error, "cannot read a batch of {METADATA_TOPIC}; its remote segments are not known");
                return;
            }
        };
        for record in expanded.flatten() {
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            let Some(value) = record.value.filter(|_| offset >= from) else { continue };
            match decode(value) {
                Ok(record) => self.apply_record(offset, &record),
                Err(error) => {
                    tracing::warn!(offset, %error, "skipped a record of {METADATA_TOPIC}; its remote segment is not known");
                }
            }
        }
    }

    fn apply_record(&self, offset: i64, record: &RemoteRecord) {
        // The record of a snapshot does not name its partition; brokers write none to the topic.
        let name = record.partition();
        let found = self.partition(name.topic_id, name.partition);
        let partition = match found {
            Some(partition) => partition,
            // The metadata of a broker alone has all topics: the topic was deleted, perhaps without
            // its remote segments.
            None if self.is_alone() && self.feed_of(name).is_some() => self.adopt(name),
            None => return,
        };
        partition.apply(offset, record);
    }

    /// An entry for a partition that the metadata does not have.
    fn adopt(&self, name: &TopicIdPartition) -> Arc<RemotePartition> {
        let index = self.feed_of(name).unwrap_or(0);
        let mut partitions = self.partitions.write();
        let fresh = || Arc::new(RemotePartition::new(name.clone(), index, 0));
        partitions.entry((name.topic_id, name.partition)).or_insert_with(fresh).clone()
    }

    /// The ends of metadata partitions, as their leaders know them; without those that are not
    /// known now. Blocks. A follower, or a leader after its election, may have an older one, for
    /// example after a crash, and records after it say which remote segments exist.
    pub(crate) fn feed_ends(&self, indexes: Vec<i32>) -> BTreeMap<i32, i64> {
        if indexes.is_empty() {
            return BTreeMap::new();
        }
        let image = self.metadata.image();
        let (node_id, replicas, peers) = (self.node_id(), &*self.replicas, self.transactions.peers());
        let leaders = Leaders { image: &image, node_id, replicas, peers };
        let asked = leaders.ask(Subject::RemoteSegments, [(METADATA_TOPIC.to_owned(), indexes)].into());
        let known = |((_, index), end): ((String, i32), Result<i64, _>)| Some((index, end.ok()?));
        asked.wait().into_iter().filter_map(known).collect()
    }

    fn part(&self, index: i32, offset: i64, origin: Origin) -> Option<FeedPart> {
        let is_wanted = |own: &Arc<Partition>| origin == Origin::Nearest || own.leadership().is_leader();
        let Some(partition) = self.replicas.partition(METADATA_TOPIC, index).ok().filter(is_wanted) else {
            return self.ask_leader(index, offset, READ_BYTES);
        };
        let log = partition.log();
        let (start, end) = (log.log_start(), log.high_watermark());
        let offset = offset.max(start);
        if offset >= end {
            return Some(FeedPart { batches: Bytes::new(), end, start });
        }
        match log.read_batches(offset, READ_BYTES) {
            Ok(batches) => Some(FeedPart { batches, end, start }),
            Err(ReadError::OutOfRange { .. }) => None,
            Err(error) => {
                tracing::warn!(partition = partition.name(), %error, "cannot read the metadata of remote segments");
                None
            }
        }
    }

    /// Fetches records from the leader of a metadata partition. Blocks until the response.
    fn ask_leader(&self, index: i32, offset: i64, max_bytes: u32) -> Option<FeedPart> {
        let topic_id = self.metadata.image().topic(METADATA_TOPIC)?.id();
        let request = move |_| fetch_request(topic_id, (index, offset), max_bytes);
        part_in(&self.ask(index, controller::FETCH, request)?)
    }

    /// The response of a metadata partition's leader, which is another broker. Blocks.
    fn ask<R: RequestResponsePair>(
        &self,
        index: i32,
        api: ControllerApi,
        request: impl FnOnce(i16) -> R + Send + 'static,
    ) -> Option<R::Response>
    where
        R::Response: Send + 'static,
    {
        let image = self.metadata.image();
        let registered = image.topic(METADATA_TOPIC)?.partition(index).filter(|found| found.has_leader())?;
        let leader = registered.leader;
        if leader == self.node_id() {
            return None;
        }
        let (sender, answer) = sync_channel(1);
        let call = move |peer: Option<Peer<'_>>| {
            // The requesting thread may have ended.
            let _ = sender.send(peer.and_then(|peer| peer.ask(api, request)));
        };
        self.transactions.peers().call(leader, Subject::RemoteSegments, Box::new(call));
        answer.recv().ok().flatten()
    }
}

fn fetch_request(topic_id: levada_wire::Uuid, (index, offset): (i32, i64), max_bytes: u32) -> FetchRequest {
    let max_bytes = i32::try_from(max_bytes).unwrap_or(i32::MAX);
    let mut partition = FetchPartition::default();
    (partition.partition, partition.fetch_offset) = (index, offset);
    partition.partition_max_bytes = max_bytes;
    let mut topic = FetchTopic::default();
    (topic.topic_id, topic.partitions) = (topic_id, vec![partition]);
    let mut request = FetchRequest::default();
    (request.max_bytes, request.topics) = (max_bytes, vec![topic]);
    // As a consumer: it gets committed records.
    request.replica_id = -1;
    request
}

/// The records of the only partition; none after an error.
fn part_in(response: &FetchResponse) -> Option<FeedPart> {
    let topic = response.responses.first()?;
    let partition = topic.partitions.first().filter(|partition| partition.error_code == 0)?;
    let batches = partition.records.clone().unwrap_or_default();
    Some(FeedPart { batches, end: partition.high_watermark, start: partition.log_start_offset.max(0) })
}
