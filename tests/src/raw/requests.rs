//! One valid request of each kind, encoded field by field.

use super::{Batch, Encoder};

/// The number of an API.
pub type ApiKey = i16;

/// Header versions 1 (plain) and 2 (with tagged fields), correlation id 7.
fn head(api: ApiKey, version: i16) -> Encoder {
    Encoder::default().i16(api).i16(version).i32(7).string("raw")
}

fn flexible_head(api: ApiKey, version: i16) -> Encoder {
    head(api, version).varint(0)
}

/// ApiVersions without a body: versions 0 to 2.
pub fn api_versions(version: i16) -> Vec<u8> {
    head(18, version).done()
}

/// AlterConfigs of one key of broker 1.
pub fn alter_broker(key: &str, value: &str) -> Vec<u8> {
    let resource = head(33, 1).i32(1).i8(4).string("1");
    resource.i32(1).string(key).string(value).i8(0).done()
}

/// ApiVersions of a version from the future.
pub fn future_api_versions() -> Vec<u8> {
    flexible_head(18, 99).compact_string("raw").compact_string("1.0").varint(0).done()
}

/// Metadata request, version 4, for one topic.
pub fn metadata(topic: &str, create: bool) -> Vec<u8> {
    head(3, 4).i32(1).string(topic).i8(i8::from(create)).done()
}

/// Produce 8 of one batch to partition 0.
pub fn produce(topic: &str, acks: i16, batch: &[u8]) -> Vec<u8> {
    produce_to((topic, 0), acks, batch)
}

/// Produce 8 of one batch to a partition.
pub fn produce_to((topic, partition): (&str, i32), acks: i16, batch: &[u8]) -> Vec<u8> {
    let request = head(0, 8).i16(-1).i16(acks).i32(5_000);
    request.i32(1).string(topic).i32(1).i32(partition).bytes(batch).done()
}

/// Produce 8 with acks=all of one batch of a transaction to a partition.
pub fn produce_in(transaction: &str, (topic, partition): (&str, i32), batch: &[u8]) -> Vec<u8> {
    let request = head(0, 8).string(transaction).i16(-1).i32(5_000);
    request.i32(1).string(topic).i32(1).i32(partition).bytes(batch).done()
}

/// InitProducerId 1 of a producer, with a transactional id or without one, whose transactions may
/// last five minutes.
pub fn init_producer_id(transaction: Option<&str>) -> Vec<u8> {
    let request = head(22, 1);
    let request = match transaction {
        Some(id) => request.string(id),
        None => request.i16(-1),
    };
    request.i32(300_000).done()
}

/// AddPartitionsToTxn 1 of one partition.
pub fn add_to_transaction(
    transaction: &str,
    (producer, epoch): (i64, i16),
    (topic, partition): (&str, i32),
) -> Vec<u8> {
    let request = head(24, 1).string(transaction).i64(producer).i16(epoch);
    request.i32(1).string(topic).i32(1).i32(partition).done()
}

/// EndTxn request, version 1.
pub fn end_transaction(transaction: &str, (producer, epoch): (i64, i16), is_committed: bool) -> Vec<u8> {
    head(26, 1).string(transaction).i64(producer).i16(epoch).i8(i8::from(is_committed)).done()
}

/// Fetch 11 of partition 0, which does not wait.
pub fn fetch(topic: &str, offset: i64, max_bytes: i32) -> Vec<u8> {
    waiting_fetch(topic, offset, max_bytes, 0)
}

/// Fetch 11 of partition 0, which waits for a first byte.
pub fn waiting_fetch(topic: &str, offset: i64, max_bytes: i32, wait_ms: i32) -> Vec<u8> {
    FetchRequest { max_bytes, wait_ms, ..FetchRequest::of((topic, 0), offset) }.encode()
}

/// Fetch request, version 11, for one partition.
pub struct FetchRequest<'a> {
    /// Topic and index of the partition.
    pub partition: (&'a str, i32),
    /// The first offset.
    pub offset: i64,
    /// Number of bytes that the broker waits for.
    pub min_bytes: i32,
    /// Limit of the response, except for its first batch.
    pub max_bytes: i32,
    /// Limit of the wait, ms.
    pub wait_ms: i32,
    /// True for records of ended transactions alone.
    pub committed_only: bool,
}

impl<'a> FetchRequest<'a> {
    /// A request for up to 1 MiB of all records from this offset on, which does not wait.
    pub fn of(partition: (&'a str, i32), offset: i64) -> Self {
        Self { partition, offset, min_bytes: 1, max_bytes: 1 << 20, wait_ms: 0, committed_only: false }
    }

    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        let (topic, index) = self.partition;
        let request = head(1, 11).i32(-1).i32(self.wait_ms).i32(self.min_bytes).i32(self.max_bytes);
        let request = request.i8(i8::from(self.committed_only)).i32(0).i32(-1);
        let partition = request.i32(1).string(topic).i32(1).i32(index).i32(-1).i64(self.offset).i64(-1);
        partition.i32(self.max_bytes).i32(0).string("").done()
    }
}

/// CreateTopics 2 of one topic.
pub fn create_topic(topic: &str, partitions: i32) -> Vec<u8> {
    create_topic_with((topic, partitions, 1), &[])
}

/// CreateTopics 2 of a topic with this number of partitions, of replicas, and with values of keys.
pub fn create_topic_with(
    (topic, partitions, replicas): (&str, i32, i16),
    configs: &[(&str, &str)],
) -> Vec<u8> {
    let request = head(19, 2).i32(1).string(topic).i32(partitions).i16(replicas).i32(0);
    let request = request.i32(i32::try_from(configs.len()).expect("a few keys"));
    let request = configs.iter().fold(request, |request, (key, value)| request.string(key).string(value));
    request.i32(20_000).i8(0).done()
}

/// DeleteTopics 1 of one topic.
pub fn delete_topic(topic: &str) -> Vec<u8> {
    head(20, 1).i32(1).string(topic).i32(20_000).done()
}

/// ListOffsets 1 for the end of partition 0.
pub fn list_end_offset(topic: &str) -> Vec<u8> {
    head(2, 1).i32(-1).i32(1).string(topic).i32(1).i32(0).i64(-1).done()
}

/// ListOffsets 11 for a timestamp in one partition, as a consumer of all or of committed records.
pub fn list_offset((topic, partition): (&str, i32), timestamp: i64, committed_only: bool) -> Vec<u8> {
    let request = flexible_head(2, 11).i32(-1).i8(i8::from(committed_only)).varint(2).compact_string(topic);
    let partition = request.varint(2).i32(partition).i32(-1).i64(timestamp).varint(0).varint(0);
    partition.i32(20_000).varint(0).done()
}

/// DeleteRecords 1 of one partition, before an offset.
pub fn delete_records((topic, partition): (&str, i32), before: i64) -> Vec<u8> {
    head(21, 1).i32(1).string(topic).i32(1).i32(partition).i64(before).i32(20_000).done()
}

/// FindCoordinator 1 of a group.
pub fn find_coordinator(group: &str) -> Vec<u8> {
    head(10, 1).string(group).i8(0).done()
}

/// FindCoordinator 1 of a transactional id.
pub fn find_transaction_coordinator(transaction: &str) -> Vec<u8> {
    head(10, 1).string(transaction).i8(1).done()
}

/// JoinGroup 2 of a new member with an empty subscription.
pub fn join_group(group: &str) -> Vec<u8> {
    let request = head(11, 2).string(group).i32(10_000).i32(1_000).string("").string("consumer");
    request.i32(1).string("range").bytes(&[]).done()
}

/// SyncGroup 1 of a leader, with an assignment for itself.
pub fn sync_group(group: &str, (generation, member): (i32, &str), assignment: &[u8]) -> Vec<u8> {
    let request = head(14, 1).string(group).i32(generation).string(member);
    request.i32(1).string(member).bytes(assignment).done()
}

/// Valid requests of every API that a broker without security serves, in old and in flexible
/// versions.
pub fn samples(topic: &str) -> Vec<Vec<u8>> {
    let batch = Batch::of(&[b"one", b"two", b"three"]).encode();
    let mut samples = vec![
        api_versions(0),
        flexible_head(18, 3).compact_string("raw").compact_string("1.0").varint(0).done(),
        metadata(topic, false),
        flexible_head(3, 12)
            .varint(2)
            .raw(&[0; 16])
            .compact_string(topic)
            .varint(0)
            .i8(0)
            .i8(0)
            .varint(0)
            .done(),
        produce(topic, 1, &batch),
        produce(topic, -1, &batch),
        flexible_produce(topic, &batch),
        fetch(topic, 0, 1 << 20),
        flexible_fetch(topic),
        list_end_offset(topic),
        flexible_head(22, 4).varint(0).i32(60_000).i64(-1).i16(-1).varint(0).done(),
        head(23, 2).i32(1).string(topic).i32(1).i32(0).i32(-1).i32(0).done(),
        flexible_head(60, 0).i8(0).varint(0).done(),
        head(32, 1).i32(1).i8(2).string(topic).i32(-1).i8(1).done(),
    ];
    samples.extend(administration());
    samples.extend(group());
    samples
}

fn flexible_produce(topic: &str, batch: &[u8]) -> Vec<u8> {
    let request = flexible_head(0, 9).varint(0).i16(1).i32(5_000).varint(2).compact_string(topic);
    let length = u32::try_from(batch.len()).expect("a small batch");
    request.varint(2).i32(0).varint(length + 1).raw(batch).varint(0).varint(0).varint(0).done()
}

fn flexible_fetch(topic: &str) -> Vec<u8> {
    let request = flexible_head(1, 12).i32(-1).i32(0).i32(1).i32(1 << 20).i8(0).i32(0).i32(-1);
    let partition = request.varint(2).compact_string(topic).varint(2).i32(0).i32(-1).i64(0).i32(-1).i64(-1);
    let partition = partition.i32(1 << 20).varint(0).varint(0);
    partition.varint(1).compact_string("").varint(0).done()
}

fn administration() -> [Vec<u8>; 4] {
    [
        // Only validated, so that ten thousand of them leave no topics behind.
        head(19, 2).i32(1).string("hostile").i32(1).i16(1).i32(0).i32(0).i32(1_000).i8(1).done(),
        head(20, 1).i32(1).string("nothing-of-that-name").i32(1_000).done(),
        head(37, 0).i32(1).string("nothing-of-that-name").i32(2).i32(-1).i32(1_000).i8(1).done(),
        head(42, 0).i32(1).string("nothing-of-that-name").done(),
    ]
}

fn group() -> [Vec<u8>; 9] {
    let group = "hostile-group";
    [
        head(10, 1).string(group).i8(0).done(),
        flexible_head(10, 4).i8(0).varint(2).compact_string(group).varint(0).done(),
        head(11, 5).string(group).i32(6_000).i32(6_000).string("").i16(-1).string("consumer").i32(0).done(),
        head(14, 3).string(group).i32(1).string("nobody").i16(-1).i32(0).done(),
        head(12, 3).string(group).i32(1).string("nobody").i16(-1).done(),
        head(13, 1).string(group).string("nobody").done(),
        head(8, 3).string(group).i32(-1).string("").i64(-1).i32(0).done(),
        head(9, 3).string(group).i32(-1).done(),
        head(15, 0).i32(1).string(group).done(),
    ]
}
