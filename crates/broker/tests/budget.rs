//! Memory allocations of a request, counted over the whole process while a client that allocates
//! nothing sends requests of one kind, prepared before. Counts do not depend on the speed or the
//! load of the machine: a regression shows immediately.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_broker::server::Server;
use levada_config::{BrokerConfig, Sources};
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::share_fetch_request::{AcknowledgementBatch, FetchPartition, FetchTopic};
use levada_wire::messages::{
    FindCoordinatorRequest, IncrementalAlterConfigsRequest, RequestResponsePair, ShareFetchRequest,
    ShareFetchResponse, ShareGroupHeartbeatRequest,
};
use levada_wire::{Uuid, decode_response, encode_request};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TOPIC: &str = "budget";
const GROUP: &str = "workers";

/// Id of the member of the share group.
const MEMBER: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// Resource type of groups in requests about configurations.
const GROUP_RESOURCE: i8 = 32;

/// Limit for the assignment of a partition to the member.
const ASSIGNED_WITHIN: Duration = Duration::from_secs(30);

/// Records of each of the batches with which the topic begins.
const BATCH_RECORDS: i64 = 16;

/// Number of requests of each kind that are counted. What housekeeping allocates meanwhile is lost
/// among them.
const COUNT: u32 = 2000;

/// Maximum number of allocations of one request.
struct Budget {
    allocations: f64,
    bytes: f64,
}

#[test]
fn requests_stay_within_their_budget() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let flags = [
        format!("log.dirs={}", dir.path().display()),
        "listeners=PLAINTEXT://127.0.0.1:0".to_owned(),
        "levada.http.listen=".to_owned(),
    ];
    let server = Server::start(BrokerConfig::load(&Sources::flags(flags)).expect("a configuration"), |_| {
        Err("no HTTP".into())
    })
    .expect("a broker");
    let mut client = Client::connect(&server);
    client.create_topic();
    let produced = Budget { allocations: 15.0, bytes: 1500.0 };
    let fetched = Budget { allocations: 13.0, bytes: 6000.0 };
    check(&mut client, "produce 16 KiB", &produce(16), &produced);
    check(&mut client, "produce 1 KiB", &produce(1), &produced);
    check(&mut client, "fetch 1 KiB", &fetch(1 << 10), &fetched);
    check(&mut client, "fetch 1 MiB", &fetch(1 << 20), &fetched);
    // Each acknowledges the records of the one before, which is a batch in the log of states.
    let shared = Budget { allocations: 118.0, bytes: 17_600.0 };
    let topic_id = client.join();
    let requests: Vec<Bytes> =
        (0..all_requests()).map(|number| share_fetch(topic_id, i64::from(number))).collect();
    count("share fetch 16 KiB", &shared, |number| {
        let response = client.ask(&requests[number as usize]);
        assert!(response.len() > 16_000, "request {number} gets a batch: {} bytes", response.len());
    });
    let last = Bytes::copy_from_slice(client.last());
    let (_, last) = decode_response::<ShareFetchResponse>(last, SHARE_VERSION).expect("a response");
    let acquired = &last.responses[0].partitions[0].acquired_records[0];
    let first = BATCH_RECORDS * i64::from(all_requests() - 1);
    assert_eq!((acquired.first_offset, acquired.delivery_count), (first, 1), "nothing is delivered again");
    drop(client);
    server.stop();
}

/// Number of requests that [`count`] sends, with those before the counted ones.
const fn all_requests() -> u32 {
    COUNT / 10 + COUNT
}

/// Counts the allocations of a request that is repeated.
fn check(client: &mut Client, name: &str, request: &[u8], budget: &Budget) {
    count(name, budget, |_| {
        client.ask(request);
    });
}

/// Counts the allocations of requests that are sent by number.
fn count(name: &str, budget: &Budget, mut ask: impl FnMut(u32)) {
    (0..COUNT / 10).for_each(&mut ask);
    let region = Region::new(ALLOCATOR);
    (COUNT / 10..all_requests()).for_each(&mut ask);
    let used = region.change();
    let (count, of) = (f64::from(COUNT), |count: usize| count as f64);
    let allocations = of(used.allocations + used.reallocations) / count;
    let bytes = of(used.bytes_allocated) / count;
    println!("{name}: {allocations:.2} allocations of {bytes:.0} bytes in all");
    assert!(
        allocations <= budget.allocations,
        "{name}: {allocations:.2} allocations, {} allowed",
        budget.allocations
    );
    assert!(bytes <= budget.bytes, "{name}: {bytes:.0} bytes allocated, {} allowed", budget.bytes);
}

/// A connection that allocates nothing in [`Client::ask`].
struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
    /// Size of the last response.
    size: usize,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.kafka_addresses()[0]).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket option");
        Self { stream, answer: vec![0; 2 << 20], size: 0 }
    }

    /// Sends a request and takes its response, whose bytes after the correlation id come back.
    fn ask(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).expect("the broker reads");
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).expect("the broker answers");
        self.size = u32::from_be_bytes(size) as usize;
        let answer = &mut self.answer[..self.size];
        self.stream.read_exact(answer).expect("the broker answers");
        &answer[4..]
    }

    /// The last response, from the correlation id on.
    fn last(&self) -> &[u8] {
        &self.answer[..self.size]
    }

    fn call<R: RequestResponsePair>(&mut self, version: i16, request: &R) -> R::Response {
        let frame = encode_request(7, Some("budget"), version, request).expect("a request");
        self.ask(&frame);
        decode_response(Bytes::copy_from_slice(self.last()), version).expect("a response").1
    }

    /// Joins a share group that begins at the first record; returns the id of the topic.
    fn join(&mut self) -> Uuid {
        let setting = |name: &str, value: &str| {
            let mut setting = AlterableConfig::default();
            (setting.name, setting.value) = (name.into(), Some(value.into()));
            setting
        };
        let mut resource = AlterConfigsResource::default();
        (resource.resource_type, resource.resource_name) = (GROUP_RESOURCE, GROUP.into());
        resource.configs = vec![
            setting("share.auto.offset.reset", "earliest"),
            setting("share.isolation.level", "read_uncommitted"),
        ];
        let mut configs = IncrementalAlterConfigsRequest::default();
        configs.resources = vec![resource];
        assert_eq!(self.call(1, &configs).responses[0].error_code, 0);
        // Creates the topic of the groups.
        let mut find = FindCoordinatorRequest::default();
        find.coordinator_keys = vec![GROUP.into()];
        self.call(4, &find);
        let mut beat = ShareGroupHeartbeatRequest::default();
        (beat.group_id, beat.member_id) = (GROUP.into(), MEMBER.into());
        beat.subscribed_topic_names = Some(vec![TOPIC.into()]);
        let start = Instant::now();
        loop {
            let response = self.call(1, &beat);
            if let Some(topic) = response.assignment.and_then(|all| all.topic_partitions.into_iter().next()) {
                return topic.topic_id;
            }
            assert!(start.elapsed() < ASSIGNED_WITHIN, "no partition, error {}", response.error_code);
            if response.error_code == 0 {
                (beat.member_epoch, beat.subscribed_topic_names) = (response.member_epoch, None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn create_topic(&mut self) {
        // CreateTopics 2: name, one partition, one replica; no assignments, no settings; a
        // time-out; for real.
        let body = [
            array(&[&string(TOPIC), &1_i32.to_be_bytes(), &1_i16.to_be_bytes(), &[0; 8]]),
            [0, 0, 0x27, 0x10, 0].into(),
        ];
        let answer = self.ask(&frame(19, 2, &body.concat()));
        let error = &answer[4 + 4 + 2 + TOPIC.len()..][..2];
        assert_eq!(error, [0, 0], "the topic is created: {answer:?}");
    }
}

/// Produce 7, acks 1, one batch with records of about a kibibyte.
fn produce(kibibytes: usize) -> Vec<u8> {
    let mut batch = Builder::new();
    for _ in 0..kibibytes {
        batch.push(1, None, Some(&[b'x'; 1000]));
    }
    let batch = batch.build().expect("no compression, no failure");
    let size = (batch.len() as u32).to_be_bytes();
    let partition = array(&[&0_i32.to_be_bytes(), &size, &batch]);
    let topics = array(&[&string(TOPIC), &partition]);
    frame(
        0,
        7,
        &[&(-1_i16).to_be_bytes()[..], &1_i16.to_be_bytes(), &5000_i32.to_be_bytes(), &topics].concat(),
    )
}

/// Fetch 11 from the start, without a session.
fn fetch(bytes: i32) -> Vec<u8> {
    let (none, limit) = ((-1_i32).to_be_bytes(), bytes.to_be_bytes());
    let partition =
        array(&[&0_i32.to_be_bytes(), &none, &0_i64.to_be_bytes(), &(-1_i64).to_be_bytes(), &limit]);
    let topics = array(&[&string(TOPIC), &partition]);
    let (wait, least) = (500_i32.to_be_bytes(), 1_i32.to_be_bytes());
    let session = [0_i32.to_be_bytes(), none].concat();
    frame(1, 11, &[&none[..], &wait, &least, &limit, &[0], &session, &topics, &[0; 4], &string("")].concat())
}

const SHARE_VERSION: i16 = 2;

/// ShareFetch of the next batch, with the acknowledgement of the one before. The session begins
/// with the first.
fn share_fetch(topic_id: Uuid, number: i64) -> Bytes {
    let mut partition = FetchPartition::default();
    if number > 0 {
        let mut batch = AcknowledgementBatch::default();
        (batch.first_offset, batch.last_offset) = ((number - 1) * BATCH_RECORDS, number * BATCH_RECORDS - 1);
        batch.acknowledge_types = vec![1];
        partition.acknowledgement_batches = vec![batch];
    }
    let mut topic = FetchTopic::default();
    (topic.topic_id, topic.partitions) = (topic_id, vec![partition]);
    let mut request = ShareFetchRequest::default();
    (request.group_id, request.member_id) = (Some(GROUP.into()), Some(MEMBER.into()));
    request.share_session_epoch = number as i32;
    (request.max_wait_ms, request.min_bytes, request.max_bytes) = (5_000, 1, 16 << 10);
    (request.max_records, request.batch_size) = (BATCH_RECORDS as i32, BATCH_RECORDS as i32);
    request.topics = vec![topic];
    encode_request(7, Some("budget"), SHARE_VERSION, &request).expect("a request")
}

fn frame(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let header =
        [&key.to_be_bytes()[..], &version.to_be_bytes(), &7_i32.to_be_bytes(), &string("budget")].concat();
    let size = ((header.len() + body.len()) as u32).to_be_bytes();
    [&size[..], &header, body].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// An array of one element with these fields.
fn array(fields: &[&[u8]]) -> Vec<u8> {
    [&1_i32.to_be_bytes()[..], &fields.concat()].concat()
}
