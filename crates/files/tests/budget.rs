//! The memory that a hot file costs: none for each request once its file is open, counted over the
//! whole process, client included.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use levada_files::{Address, Config, SEND_TIME, Server, SiteOptions};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUEST: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const ROUNDS: usize = 2000;

/// Sends a request and reads its response, whose body ends with `!`.
fn ask(stream: &mut TcpStream, answer: &mut [u8]) {
    stream.write_all(REQUEST).expect("sent");
    let mut filled = 0;
    while filled == 0 || answer[filled - 1] != b'!' {
        let count = stream.read(&mut answer[filled..]).expect("an answer");
        assert!(count > 0, "the connection has ended");
        filled += count;
    }
}

#[test]
fn a_hot_small_file_costs_no_allocation() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::write(home.path().join("small.txt"), "a small file!").unwrap();
    let server = Server::start(Config {
        site: SiteOptions { directory: home.path().to_owned(), ..SiteOptions::default() },
        listen: vec![Address::Tcp("127.0.0.1".to_owned(), 0)],
        listen_tls: Vec::new(),
        tls: None,
        proxy_protocol: false,
        metrics: None,
        access_log: None,
        shards: Some(1),
        connections_max: Some(10),
        connections_per_address_max: 10,
        send_time: SEND_TIME,
        grace: Duration::from_secs(1),
    })
    .unwrap();
    let mut stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    let mut answer = [0; 4096];
    // A file that was written a moment ago is not kept in memory.
    let written = Instant::now();
    while written.elapsed() < Duration::from_millis(300) {
        ask(&mut stream, &mut answer);
    }
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        ask(&mut stream, &mut answer);
    }
    let seconds = start.elapsed().as_secs() + 1;
    let allocations = region.change().allocations;
    // With each second come a new date and another look at the path.
    let allowed = usize::try_from(64 * seconds).unwrap();
    assert!(allocations <= allowed, "{allocations} allocations for {ROUNDS} requests");
    drop(stream);
    server.stop();
}
