//! Memory allocations of a request, counted over the whole process while a client
//! that allocates nothing asks the same over and over. Counts do not depend on how fast or how busy
//! the machine is: a regression shows immediately.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;

use levada_base::batch::Builder;
use levada_broker::server::Server;
use levada_config::{BrokerConfig, Sources};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TOPIC: &str = "budget";

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
    drop(client);
    server.stop();
}

/// The counts of a kind of request.
fn check(client: &mut Client, name: &str, request: &[u8], budget: &Budget) {
    for _ in 0..COUNT / 10 {
        client.ask(request);
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..COUNT {
        client.ask(request);
    }
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

/// A connection that allocates nothing while it asks.
struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.kafka_addresses()[0]).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket option");
        Self { stream, answer: vec![0; 2 << 20] }
    }

    /// Sends a request and takes its response, whose bytes after the correlation id come back.
    fn ask(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).expect("the broker reads");
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).expect("the broker answers");
        let size = u32::from_be_bytes(size) as usize;
        let answer = &mut self.answer[..size];
        self.stream.read_exact(answer).expect("the broker answers");
        &answer[4..]
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
