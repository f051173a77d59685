//! Answers to those requests.

use super::Decoder;

/// The error of the only partition in a Produce 8 response.
pub fn produce_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!((response.i32(), response.i32()), (7, 1), "correlation id and topics");
    response.string();
    assert_eq!((response.i32(), response.i32()), (1, 0), "partitions and the partition");
    response.i16()
}

/// The error of the only partition in a Fetch 11 response.
pub fn fetch_error(response: &[u8]) -> i16 {
    let mut response = Decoder::new(response);
    assert_eq!(
        (response.i32(), response.i32(), response.i16()),
        (7, 0, 0),
        "correlation id, throttling, error"
    );
    assert_eq!((response.i32(), response.i32()), (0, 1), "session and topics");
    response.string();
    assert_eq!((response.i32(), response.i32()), (1, 0), "partitions and the partition");
    response.i16()
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

/// Ids of the brokers in an answer of [`metadata`](super::metadata).
pub fn broker_ids(response: &[u8]) -> Vec<i32> {
    brokers(&mut Decoder::new(response))
}

/// Errors and leaders of the partitions of the topic in an answer of [`metadata`](super::metadata);
/// none if the broker does not know the topic.
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
