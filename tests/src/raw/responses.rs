//! Answers to those requests.

use super::Decoder;

/// The error of the only partition in a Produce 8 response.
pub fn produce_error(response: &[u8]) -> i16 {
    produced(response).0
}

/// Error and first offset of the only partition in a Produce 8 response.
pub fn produced(response: &[u8]) -> (i16, i64) {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 1), "correlation id and topics");
    response.string();
    let (partitions, _index) = (response.i32(), response.i32());
    assert_eq!(partitions, 1, "partitions");
    (response.i16(), response.i64())
}

/// Error of an InitProducerId 1 response, id and epoch of the producer.
pub fn producer_id(response: &[u8]) -> (i16, (i64, i16)) {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 0), "correlation id, throttling");
    (response.i16(), (response.i64(), response.i16()))
}

/// The error of the only partition in an AddPartitionsToTxn 1 response.
pub fn added_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32(), response.i32()), (7, 0, 1), "id, throttling, topics");
    response.string();
    let (partitions, _index) = (response.i32(), response.i32());
    assert_eq!(partitions, 1, "partitions");
    response.i16()
}

/// The error of an EndTxn 1 or FindCoordinator 1 response.
pub fn leading_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 0), "correlation id, throttling");
    response.i16()
}

/// The error of the only partition in a Fetch 11 response.
pub fn fetch_error(response: &[u8]) -> i16 {
    fetched(response).error
}

/// The only partition of a Fetch 11 response.
#[derive(Debug)]
pub struct Fetched {
    /// The error.
    pub error: i16,
    /// The high watermark.
    pub high_watermark: i64,
    /// The last stable offset.
    pub last_stable: i64,
    /// The first offset of the log.
    pub log_start: i64,
    /// Producers and first offsets of aborted transactions.
    pub aborted: Vec<(i64, i64)>,
    /// The records.
    pub records: Vec<u8>,
}

/// Reads a Fetch 11 response with one partition.
pub fn fetched(response: &[u8]) -> Fetched {
    let mut response = Decoder::new(response);
    assert_eq!(
        (response.i32(), response.i32(), response.i16()),
        (7, 0, 0),
        "correlation id, throttling, error"
    );
    assert_eq!((response.i32(), response.i32()), (0, 1), "session and topics");
    response.string();
    let (partitions, _index) = (response.i32(), response.i32());
    assert_eq!(partitions, 1, "partitions");
    let error = response.i16();
    let (high_watermark, last_stable, log_start) = (response.i64(), response.i64(), response.i64());
    let count = response.i32();
    let aborted = (0..count).map(|_| (response.i64(), response.i64())).collect();
    let _preferred_replica = response.i32();
    let records = response.bytes().to_vec();
    Fetched { error, high_watermark, last_stable, log_start, aborted, records }
}

/// The error of the only topic in a CreateTopics 2 or DeleteTopics 1 response.
pub fn topic_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!(
        (response.i32(), response.i32(), response.i32()),
        (7, 0, 1),
        "correlation id, throttling, topics"
    );
    response.string();
    response.i16()
}

/// The offset in a ListOffsets 1 response about one partition, without an error.
pub fn listed_offset(response: &[u8]) -> i64 {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 1), "correlation id and topics");
    response.string();
    assert_eq!((response.i32(), response.i32(), response.i16()), (1, 0, 0), "partition without error");
    response.i64();
    response.i64()
}

/// Error, offset and leader epoch in a ListOffsets 11 response about one partition.
pub fn found_offset(response: &[u8]) -> (i16, i64, i32) {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.varint(), response.i32()), (7, 0, 0), "id, tags, throttling");
    assert_eq!(response.varint(), 2, "topics");
    response.compact_string();
    let (partitions, _index) = (response.varint(), response.i32());
    assert_eq!(partitions, 2, "partitions");
    let (error, _timestamp) = (response.i16(), response.i64());
    (error, response.i64(), response.i32())
}

/// Error of a DeleteRecords 1 response about one partition, and the first offset of the log.
pub fn deleted_before(response: &[u8]) -> (i16, i64) {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32(), response.i32()), (7, 0, 1), "id, throttling, topics");
    response.string();
    let (partitions, _index) = (response.i32(), response.i32());
    assert_eq!(partitions, 1, "partitions");
    let low_watermark = response.i64();
    (response.i16(), low_watermark)
}

/// A JoinGroup 2 response, as far as a member needs it.
pub struct Joined {
    /// The error.
    pub error: i16,
    /// The generation.
    pub generation: i32,
    /// The id that the member got.
    pub member: String,
}

/// Reads a JoinGroup 2 response.
pub fn joined(response: &[u8]) -> Joined {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 0), "correlation id, throttling");
    let (error, generation) = (response.i16(), response.i32());
    response.string();
    response.string();
    Joined { error, generation, member: response.string() }
}

/// The error of a SyncGroup 1 response.
pub fn sync_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 0), "correlation id, throttling");
    response.i16()
}

/// Ids of the brokers in a response of [`metadata`](super::metadata).
pub fn broker_ids(response: &[u8]) -> Vec<i32> {
    brokers(&mut Decoder::new(response))
}

/// Errors and leaders of the partitions of the topic in a response of
/// [`metadata`](super::metadata); none if the broker does not know the topic.
pub fn leaders(response: &[u8]) -> Option<Vec<(i16, i32)>> {
    let mut decoder = Decoder::new(response);
    brokers(&mut decoder);
    let (_cluster, _controller, _topics) = (decoder.nullable_string(), decoder.i32(), decoder.i32());
    let (error, _name, _internal) = (decoder.i16(), decoder.string(), decoder.i8());
    let count = decoder.i32();
    let mut partition = || {
        let (error, _index, leader) = (decoder.i16(), decoder.i32(), decoder.i32());
        for _replicas_and_isr in 0..2 {
            for _id in 0..decoder.i32() {
                decoder.i32();
            }
        }
        (error, leader)
    };
    let found = (0..count).map(|_| partition()).collect();
    (error == 0).then_some(found)
}

fn brokers(decoder: &mut Decoder<'_>) -> Vec<i32> {
    assert_eq!((decoder.i32(), decoder.i32()), (7, 0), "correlation id, throttling");
    let count = decoder.i32();
    let mut broker = || {
        let id = decoder.i32();
        let (_host, _port, _rack) = (decoder.string(), decoder.i32(), decoder.nullable_string());
        id
    };
    (0..count).map(|_| broker()).collect()
}
