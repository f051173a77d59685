//! Produce requests that name a partition more than once.

use std::net::Ipv4Addr;

use bytes::{Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_config::Protocol;
use levada_io::Piece;
use levada_security::Session;
use levada_wire::RequestHeader;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};

use super::OK;
use super::rig::Rig;
use crate::api::{self, Reply};

const PRODUCE_VERSION: i16 = 12;

/// Topic with the batches of its partition 0.
fn topic(name: &str, batches: &[&Bytes]) -> TopicProduceData {
    let partition = |batch: &&Bytes| message!(PartitionProduceData { records: Some((*batch).clone()) });
    message!(TopicProduceData { name: name.into(), partition_data: batches.iter().map(partition).collect() })
}

/// Answered topics: name, and number, error and base offset of each partition.
type Answered = Vec<(String, Vec<(i32, i16, i64)>)>;

fn produce(rig: &Rig, topics: Vec<TopicProduceData>) -> Answered {
    let request = message!(ProduceRequest { acks: 1, timeout_ms: 1000, topic_data: topics });
    let frame = levada_wire::encode_request(1, None, PRODUCE_VERSION, &request).unwrap();
    let mut body = BytesMut::from(&frame[4..]);
    let header = RequestHeader::decode(&mut body).unwrap();
    let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
    let context = rig.context_of((header.api, header.version), (Protocol::Plaintext, session));
    let reply = rig.run(api::answer(&context, body)).unwrap();
    let Reply::Send(pieces) = reply else { panic!("there is an answer") };
    let [Piece::Bytes(answer)] = &pieces[..] else { panic!("the answer is in memory") };
    let (_, answer): (_, ProduceResponse) =
        levada_wire::decode_response(answer.slice(4..), PRODUCE_VERSION).unwrap();
    let topics = answer.responses.iter().map(|topic| {
        let partitions = topic.partition_responses.iter();
        let partitions = partitions.map(|one| (one.index, one.error_code, one.base_offset)).collect();
        (topic.name.as_str().to_owned(), partitions)
    });
    topics.collect()
}

#[test]
fn repeated_produce_partition_appends_last_batch() {
    let rig = Rig::start();
    let batch = |records: usize| {
        let mut builder = Builder::new();
        for _ in 0..records {
            builder.push(0, None, Some(b"value"));
        }
        Bytes::from(builder.build().unwrap().to_vec())
    };
    let [one, two, three] = [1, 2, 3].map(batch);
    let answered =
        produce(&rig, vec![topic("t", &[&one, &two]), topic("none", &[&one]), topic("t", &[&three])]);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let expected = [("none".to_owned(), vec![(0, unknown, -1)]), ("t".to_owned(), vec![(0, OK, 0)])];
    assert_eq!(answered, expected);
    assert_eq!(rig.partition().log().log_end(), 3, "the last batch is in the log");
    assert_eq!(produce(&rig, vec![topic("t", &[&three, &one])]), [("t".to_owned(), vec![(0, OK, 3)])]);
    assert_eq!(rig.partition().log().log_end(), 4);
}
