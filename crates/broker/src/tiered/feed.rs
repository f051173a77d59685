//! Reads the metadata topic: the records about partitions of this broker, from the beginning. Reads
//! a local replica directly, and otherwise fetches from the leader.
//!
//! A leader that was elected uncleanly may lack records that this broker has applied, or have
//! others at their offsets. Each read therefore names the leader epoch of the last record, as a
//! follower does. If the leader's log differs, the broker forgets all remote segments of this feed,
//! and reads from the first record on: their partitions are not ready until the leader's end is
//! reached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use levada_base::batch::{BatchView, records};
use levada_log::ReadError;
use levada_tiered::record::{METADATA_TOPIC, decode, metadata_partition};
use levada_tiered::{RemoteRecord, TopicIdPartition};
use levada_wire::Uuid;
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::{FetchRequest, RequestResponsePair};
use parking_lot::Mutex;

use super::{RemotePartition, Tiers};
use crate::end_offsets::{EARLIEST, Leaders, list_offsets};
use crate::peers::{Peer, Subject};
use crate::replica::Partition;

/// Bytes of records in one read.
const READ_BYTES: u32 = 1 << 20;

/// A partition of the metadata topic that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feed {
    next: Position,
    /// The end of the records that were applied before the reading began again for a further
    /// partition, until the leader has confirmed these records.
    reached: Option<Position>,
    /// Only the leader is read up to this offset, because a follower may have other records that it
    /// has not truncated yet. `None` until the leader has told its end.
    leader_end: Option<i64>,
}

/// A place in a partition of the metadata topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// Offset of the next record.
    offset: i64,
    /// Leader epoch of the record before, -1 if it is not known.
    epoch: i32,
}

impl Position {
    const START: Self = Self { offset: 0, epoch: -1 };
}

impl Default for Feed {
    fn default() -> Self {
        Self { next: Position::START, reached: None, leader_end: Some(0) }
    }
}

impl Feed {
    /// Begins again for a further partition. The others keep what they have.
    fn rewind(&mut self) {
        if self.reached.is_none_or(|reached| reached.offset < self.next.offset) {
            self.reached = Some(self.next).filter(|reached| *reached != Position::START);
        }
        self.next = Position::START;
    }
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

/// Result of one read.
enum Step {
    More,
    /// The feed is at the end of the metadata partition.
    End,
    /// The leader has other records before this position than those that were applied.
    Diverged(Position),
}

/// Response to a read.
enum FeedRead {
    Part(FeedPart),
    /// The leader does not have the record before the position.
    Diverged,
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
            feed.rewind();
        }
    }

    /// Reads a metadata partition up to its end. Blocks. False if it cannot be read now.
    pub(super) fn read_feed(&self, index: i32, origin: Origin) -> bool {
        let feed = self.feeds.read().get(&index).cloned();
        feed.is_none_or(|feed| FeedReader { tiers: self, index, feed }.read(origin))
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
}

/// Reads one partition of the metadata topic for all partitions whose records it has.
struct FeedReader<'t> {
    tiers: &'t Tiers,
    /// The partition of the metadata topic.
    index: i32,
    feed: Arc<Mutex<Feed>>,
}

impl FeedReader<'_> {
    /// Reads up to the end of the metadata partition. Blocks. False if it cannot be read now.
    fn read(&self, origin: Origin) -> bool {
        let mut is_again = false;
        loop {
            match self.read_once(origin) {
                Some(Step::More) => {}
                Some(Step::End) => return true,
                Some(Step::Diverged(position)) if !is_again => {
                    is_again = true;
                    self.begin_again(position);
                }
                Some(Step::Diverged(_)) | None => return false,
            }
        }
    }

    fn read_once(&self, origin: Origin) -> Option<Step> {
        let known = *self.feed.lock();
        if known.leader_end.is_none() {
            return self.learn_end().then_some(Step::More);
        }
        // Not under the lock: a leader may take long to answer.
        let FeedRead::Part(part) = self.part(&known, origin)? else {
            return Some(Step::Diverged(known.next));
        };
        let read = {
            let mut feed = self.feed.lock();
            if *feed != known {
                // Another thread has read, or a new partition needs the records from the first on.
                return Some(Step::More);
            }
            feed.next = self.apply(&part, known.next);
            if feed.next.offset < part.end && *feed != known {
                return Some(Step::More);
            }
            self.fed().for_each(|partition| partition.applied_up_to(feed.next.offset));
            *feed
        };
        if self.fed().any(|partition| !partition.is_ready()) {
            // The end may be an older one than before: the leader has lost records meanwhile.
            self.learn_end();
        }
        match read.reached {
            Some(reached) => self.confirm(read, reached),
            None => Some(Step::End),
        }
    }

    /// Compares the records that were applied before the reading began again with those of the
    /// leader.
    fn confirm(&self, read: Feed, reached: Position) -> Option<Step> {
        let FeedRead::Part(_) = self.part(&Feed { next: reached, ..read }, Origin::Leader)? else {
            return Some(Step::Diverged(reached));
        };
        let mut feed = self.feed.lock();
        if *feed == read && read.next.offset >= reached.offset {
            feed.reached = None;
        }
        Some(Step::End)
    }

    /// Forgets all remote segments of a feed, unless another thread has done so, and begins again
    /// with the first record.
    fn begin_again(&self, diverged: Position) {
        let mut feed = self.feed.lock();
        if feed.next != diverged && feed.reached != Some(diverged) {
            return;
        }
        tracing::error!(
            partition = self.index,
            offset = diverged.offset,
            leader_epoch = diverged.epoch,
            "{METADATA_TOPIC} has lost records in an election; the broker reads the partition again, and until then copies, \
             deletes and serves none of its remote segments. Segments whose records are lost stay in the store, and are not \
             read any more if the disks do not have them"
        );
        for remote in self.fed() {
            let name = remote.name();
            let served = self.tiers.replicas.partitions().by_id(name.topic_id, name.partition);
            remote.begin_again(served.as_ref().map(|partition| partition.log()));
        }
        *feed = Feed { leader_end: None, ..Feed::default() };
    }

    /// Asks the leader up to which offset partitions have to be read that are not ready. Blocks.
    /// False if it is not known now.
    fn learn_end(&self) -> bool {
        let Some(end) = self.tiers.feed_ends(vec![self.index]).remove(&self.index) else { return false };
        let mut feed = self.feed.lock();
        feed.leader_end.get_or_insert(end);
        self.fed().for_each(|partition| partition.wait_for(end));
        true
    }

    /// The partitions whose records the metadata partition has.
    fn fed(&self) -> impl Iterator<Item = Arc<RemotePartition>> {
        let index = self.index;
        self.tiers.all().into_iter().filter(move |partition| partition.feed() == index)
    }

    /// Applies committed records from a position on; returns the position after them.
    fn apply(&self, part: &FeedPart, from: Position) -> Position {
        let mut next = from;
        if part.start > from.offset {
            next = Position { offset: part.start, ..Position::START };
        }
        let (mut rest, from) = (&*part.batches, next.offset);
        while let Ok(batch) = BatchView::parse(rest) {
            if batch.last_offset() >= part.end || batch.size_bytes() > rest.len() {
                break;
            }
            if batch.last_offset() >= from {
                if !batch.is_control() {
                    self.apply_batch(&batch, rest, from);
                }
                next =
                    Position { offset: batch.last_offset().saturating_add(1), epoch: batch.leader_epoch() };
            }
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
        let found = self.tiers.partition(name.topic_id, name.partition);
        let partition = match found {
            Some(partition) => partition,
            // The metadata of a broker alone has all topics: the topic was deleted, perhaps without
            // its remote segments.
            None if self.tiers.is_alone() && self.tiers.feed_of(name).is_some() => self.tiers.adopt(name),
            None => return,
        };
        partition.apply(offset, record);
    }

    /// Reads on from the replica of this broker, or from the leader. A follower that lacks the
    /// record before the position, or has another one, does not decide: its leader is asked.
    fn part(&self, feed: &Feed, origin: Origin) -> Option<FeedRead> {
        let next = feed.next;
        if let Ok(own) = self.tiers.replicas.partition(METADATA_TOPIC, self.index) {
            let is_leader = own.leadership().is_leader();
            let is_other = has_diverged(own.log(), next);
            if is_leader {
                return if is_other { Some(FeedRead::Diverged) } else { read_own(&own, next.offset) };
            }
            let is_whole = own.log().high_watermark() >= next.offset && !is_other;
            let is_settled = feed.leader_end.is_some_and(|end| next.offset >= end);
            if origin == Origin::Nearest && is_whole && is_settled {
                return read_own(&own, next.offset);
            }
        }
        self.ask_leader(next)
    }

    /// Fetches records from the leader of the metadata partition. Blocks until the response.
    fn ask_leader(&self, next: Position) -> Option<FeedRead> {
        let (image, index) = (self.tiers.metadata.image(), self.index);
        let topic = image.topic(METADATA_TOPIC)?;
        let (topic_id, leader_epoch) = (topic.id(), topic.partition(index)?.leader_epoch);
        let request = move |_| fetch_request(topic_id, (index, leader_epoch), next);
        let response = self.ask(controller::FETCH, request)?;
        let partition = response.responses.first()?.partitions.first()?;
        match ErrorCode::of_code(partition.error_code)? {
            ErrorCode::None if partition.diverging_epoch.epoch >= 0 => Some(FeedRead::Diverged),
            ErrorCode::None => Some(FeedRead::Part(FeedPart {
                batches: partition.records.clone().unwrap_or_default(),
                end: partition.high_watermark,
                start: partition.log_start_offset.max(0),
            })),
            // The records before an offset were deleted, or the log ends before the position.
            ErrorCode::OffsetOutOfRange => match self.first_offset()? {
                start if start > next.offset => {
                    Some(FeedRead::Part(FeedPart { batches: Bytes::new(), end: i64::MAX, start }))
                }
                _ => Some(FeedRead::Diverged),
            },
            _ => None,
        }
    }

    /// The first offset of the metadata partition, from its leader. Blocks until the response.
    fn first_offset(&self) -> Option<i64> {
        let topics = [(METADATA_TOPIC.to_owned(), vec![self.index])].into();
        let response = self.ask(controller::LIST_OFFSETS, move |_| list_offsets(&topics, EARLIEST))?;
        let partition = response.topics.first()?.partitions.first()?;
        Some(partition.offset).filter(|start| partition.error_code == 0 && *start >= 0)
    }

    /// The response of the metadata partition's leader, which is another broker. Blocks.
    fn ask<R: RequestResponsePair>(
        &self,
        api: ControllerApi,
        request: impl FnOnce(i16) -> R + Send + 'static,
    ) -> Option<R::Response>
    where
        R::Response: Send + 'static,
    {
        let image = self.tiers.metadata.image();
        let registered = image.topic(METADATA_TOPIC)?.partition(self.index);
        let registered = registered.filter(|found| found.has_leader())?;
        let leader = registered.leader;
        if leader == self.tiers.node_id() {
            return None;
        }
        let (sender, answer) = sync_channel(1);
        let call = move |peer: Option<Peer<'_>>| {
            // The requesting thread may have ended.
            let _ = sender.send(peer.and_then(|peer| peer.ask(api, request)));
        };
        self.tiers.transactions.peers().call(leader, Subject::RemoteSegments, Box::new(call));
        answer.recv().ok().flatten()
    }
}

/// True if a log has another record before the position than the one that was applied, or ends
/// before the position.
fn has_diverged(log: &levada_log::Partition, at: Position) -> bool {
    if at.epoch < 0 {
        return log.log_end() < at.offset;
    }
    let (epoch, end) = log.epoch_end_offset(at.epoch);
    epoch < at.epoch || end < at.offset
}

fn read_own(partition: &Partition, offset: i64) -> Option<FeedRead> {
    let log = partition.log();
    let (start, end) = (log.log_start(), log.high_watermark());
    let offset = offset.max(start);
    if offset >= end {
        return Some(FeedRead::Part(FeedPart { batches: Bytes::new(), end, start }));
    }
    match log.read_batches(offset, READ_BYTES) {
        Ok(batches) => Some(FeedRead::Part(FeedPart { batches, end, start })),
        Err(ReadError::OutOfRange { .. }) => None,
        Err(error) => {
            tracing::warn!(partition = partition.name(), %error, "cannot read the metadata of remote segments");
            None
        }
    }
}

fn fetch_request(topic_id: Uuid, (index, leader_epoch): (i32, i32), next: Position) -> FetchRequest {
    let max_bytes = i32::try_from(READ_BYTES).unwrap_or(i32::MAX);
    let mut partition = FetchPartition::default();
    (partition.partition, partition.fetch_offset) = (index, next.offset);
    (partition.current_leader_epoch, partition.last_fetched_epoch) = (leader_epoch, next.epoch);
    partition.partition_max_bytes = max_bytes;
    let mut topic = FetchTopic::default();
    (topic.topic_id, topic.partitions) = (topic_id, vec![partition]);
    let mut request = FetchRequest::default();
    (request.max_bytes, request.topics) = (max_bytes, vec![topic]);
    // As a consumer: it gets committed records.
    request.replica_id = -1;
    request
}
