//! Requests whose client is gone, and the memory of requests that come together.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ApiVersionsRequest, CreateTopicsRequest, ProduceRequest};
use socket2::SockRef;

use super::*;
use crate::config::{BrokerConfig, Sources};
use crate::server::Server;

/// Time within which a topic is created on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(home: &tempfile::TempDir) -> Server {
    let directory = format!("log.dirs={}", home.path().display());
    let flags = [&*directory, "listeners=PLAINTEXT://127.0.0.1:0", "levada.http.listen="];
    Server::start(BrokerConfig::load(&Sources::flags(flags)).unwrap()).unwrap()
}

#[test]
fn the_beginning_of_a_request_behind_another_counts_once_that_is_answered() {
    let home = tempfile::tempdir().unwrap();
    let server = start(&home);
    let mut client = TcpStream::connect(server.kafka_addresses()[0]).unwrap();
    let mut partition = PartitionProduceData::default();
    partition.records = Some(Bytes::from(vec![0; 300_000]));
    let mut topic = TopicProduceData::default();
    (topic.name, topic.partition_data) = ("none".into(), vec![partition]);
    let mut request = ProduceRequest::default();
    (request.acks, request.topic_data) = (1, vec![topic]);
    let produce = levada_wire::encode_request(1, None, 9, &request).unwrap();
    client.write_all(&[&produce[..], &produce[..100_000]].concat()).unwrap();
    let mut size = [0; 4];
    client.read_exact(&mut size).unwrap();
    let (memory, begun) = (server.broker.request_memory(), Instant::now());
    while memory.held_bytes() < 100_000 {
        assert!(begun.elapsed() < PATIENCE, "{} bytes count", memory.held_bytes());
        std::thread::yield_now();
    }
    drop(client);
    server.stop();
}

#[test]
fn a_change_behind_an_answer_that_cannot_be_sent_runs_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let server = start(&home);
    let mut client = TcpStream::connect(server.kafka_addresses()[0]).unwrap();
    let versions = levada_wire::encode_request(1, None, 0, &ApiVersionsRequest::default()).unwrap();
    client.write_all(&versions).unwrap();
    let mut size = [0; 4];
    client.read_exact(&mut size).unwrap();
    client.read_exact(&mut vec![0; u32::from_be_bytes(size) as usize]).unwrap();
    let mut topic = CreatableTopic::default();
    topic.name = "t".into();
    (topic.num_partitions, topic.replication_factor) = (1, 1);
    let mut request = CreateTopicsRequest::default();
    (request.topics, request.timeout_ms) = (vec![topic], 30_000);
    let create = levada_wire::encode_request(2, None, 7, &request).unwrap();
    // The first answer is kept back while the second request is there, and the client resets the
    // connection.
    client.write_all(&[&versions[..], &create].concat()).unwrap();
    SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    let is_answered = || {
        let totals = server.broker.stats().requests();
        let of_api = totals.iter().find(|(api, _)| *api == "CreateTopics");
        of_api.is_some_and(|(_, totals)| totals.errors.iter().any(|(_, count)| *count > 0))
    };
    let begun = Instant::now();
    while !is_answered() {
        assert!(begun.elapsed() < PATIENCE, "the request has no end");
        std::thread::yield_now();
    }
    server.stop();
}
