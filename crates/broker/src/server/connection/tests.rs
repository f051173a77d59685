//! Requests whose client is gone, and the memory of requests that come together.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use levada_config::{BrokerConfig, Sources};
use levada_metadata::image::{Image, Position};
use levada_metadata::records::{ClientQuotaRecord, Record};
use levada_security::Session;
use levada_wire::Uuid;
use levada_wire::fetch::{FetchPartition, FetchRequest, FetchTopic, LOWEST_ENCODED};
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ApiVersionsRequest, CreateTopicsRequest, ProduceRequest};
use socket2::SockRef;

use super::*;
use crate::quota::{self, Used};
use crate::server::Server;

/// Time within which a topic is created on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(home: &tempfile::TempDir) -> Server {
    let directory = format!("log.dirs={}", home.path().display());
    let flags = [&*directory, "listeners=PLAINTEXT://127.0.0.1:0", "levada.http.listen="];
    Server::start_without_http(BrokerConfig::load(&Sources::flags(flags)).unwrap()).unwrap()
}

#[test]
fn partial_request_memory_counts_after_previous_response() {
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
fn pipelined_change_completes_after_connection_reset() {
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
    // The first response is kept back while the second request is there, and the client resets the
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

/// A fetch by `client_id` that waits for a record of partition 0 of one of the topics, if all
/// exist.
fn fetch(client_id: &str, topics: impl Iterator<Item = Uuid>) -> Bytes {
    let partition = || FetchPartition {
        index: 0,
        current_leader_epoch: -1,
        fetch_offset: 0,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        max_bytes: 1 << 20,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    };
    let topics = topics.map(|topic_id| FetchTopic {
        topic_id,
        partitions: vec![partition()],
        ..FetchTopic::default()
    });
    let request = FetchRequest {
        cluster_id: None,
        replica_id: -1,
        replica_epoch: -1,
        max_wait_ms: i32::MAX,
        min_bytes: 1,
        max_bytes: 1 << 20,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        topics: topics.collect(),
        forgotten: Vec::new(),
        rack_id: "".into(),
    };
    request.encode(2, client_id, LOWEST_ENCODED).unwrap()
}

#[test]
fn half_closed_client_still_gets_fetch_response() {
    const TOPICS: usize = 20_000;
    let home = tempfile::tempdir().unwrap();
    let server = start(&home);
    let mut client = TcpStream::connect(server.kafka_addresses()[0]).unwrap();
    // Unknown topics are answered without a wait, but so many of them take several turns of the
    // shard.
    let topics = (1..=TOPICS).map(|id| Uuid::from_bytes((id as u128).to_be_bytes()));
    client.write_all(&fetch("", topics)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > TOPICS * size_of::<Uuid>(), "{} bytes", answer.len());
    server.stop();
}

#[test]
fn disconnected_client_still_uses_request_quota() {
    let home = tempfile::tempdir().unwrap();
    let server = start(&home);
    let mut client = TcpStream::connect(server.kafka_addresses()[0]).unwrap();
    let mut topic = CreatableTopic::default();
    (topic.name, topic.num_partitions, topic.replication_factor) = ("t".into(), 1, 1);
    let mut request = CreateTopicsRequest::default();
    (request.topics, request.timeout_ms) = (vec![topic], 30_000);
    client.write_all(&levada_wire::encode_request(1, None, 7, &request).unwrap()).unwrap();
    let mut size = [0; 4];
    client.read_exact(&mut size).unwrap();
    let mut image = Image::clone(&server.broker.metadata().image());
    let topic_id = image.topic("t").unwrap().id();
    let limit = ClientQuotaRecord {
        entity: vec![("client-id".to_owned(), Some("app".to_owned()))],
        key: "request_percentage".to_owned(),
        value: 1e-9,
        remove: false,
    };
    let position = Position { offset: image.offset() + 1, ..Position::default() };
    image.apply(&Record::from(limit), position).unwrap();
    server.broker.quotas().set_limits(image.quotas());
    let mut app = TcpStream::connect(server.kafka_addresses()[0]).unwrap();
    app.write_all(&fetch("app", [topic_id].into_iter())).unwrap();
    drop(app);
    let used = || {
        let client = quota::Client { user: Session::ANONYMOUS, client_id: "app" };
        !server.broker.quotas().book(Used::Time, client, 0.0).is_zero()
    };
    let begun = Instant::now();
    while !used() {
        assert!(begun.elapsed() < PATIENCE, "the time of the fetch does not count");
        std::thread::yield_now();
    }
    drop(client);
    server.stop();
}
