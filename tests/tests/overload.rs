//! More than the broker can do: requests by the gigabyte, consumers that do not read, connections by the thousand, half requests, no
//! descriptors left. It stays within its memory, loses nothing that it acknowledged, and others are served meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Encoder, Outcome};
use levada_tests::{Node, await_some, process};

const SOON: Duration = Duration::from_secs(60);
const NONE: i16 = 0;
const MIB: u64 = 1 << 20;

fn create(node: &Node, topic: &str) -> Connection {
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
    await_some("the topic", SOON, || {
        (raw::topic_error(&connection.call(&raw::create_topic(topic, 1))) != NONE).then_some(())
    });
    connection
}

/// The longest that a small request of another client took while `work` ran, and what `work` returned.
fn longest_stall<T>(node: &Node, work: impl FnOnce() -> T + Send) -> (Duration, T)
where
    T: Send,
{
    let mut other = Connection::open(node.address());
    thread::scope(|scope| {
        let work = scope.spawn(work);
        let mut longest = Duration::ZERO;
        while !work.is_finished() {
            let asked = Instant::now();
            other.call(&raw::api_versions(0));
            longest = longest.max(asked.elapsed());
        }
        (longest, work.join().expect("the load"))
    })
}

#[test]
fn requests_beyond_their_memory_wait_in_the_sockets_and_none_is_lost() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    const CLIENTS: usize = 64;
    const REQUESTS: usize = 4;
    let mut node = Node::new().option("queued.max.request.bytes", "8388608");
    node.start();
    let mut connection = create(&node, "flood");
    let before = process::peak_bytes(node.pid());
    let batch = Batch::of(&[&vec![7; 1_000_000]]).encode();
    let (stall, ()) = longest_stall(&node, || {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut connection = Connection::open(node.address());
                    for _ in 0..REQUESTS {
                        let answer = connection.call(&raw::produce("flood", -1, &batch));
                        assert_eq!(raw::produce_error(&answer), NONE);
                    }
                });
            }
        });
    });
    let end = raw::listed_offset(&connection.call(&raw::list_end_offset("flood")));
    assert_eq!(end, (CLIENTS * REQUESTS) as i64, "every acknowledged record and no other");
    let grown = process::peak_bytes(node.pid()).saturating_sub(before);
    println!(
        "64 clients with 1 MB each, 8 MiB allowed: {} MiB more at most, longest stall {stall:?}",
        grown / MIB
    );
    assert!(grown < 48 * MIB, "{} MiB for requests of 8 MiB", grown / MIB);
    let held = node.metrics().into_iter().find(|(name, _)| name == "levada_request_bytes_held");
    assert_eq!(held.map(|(_, bytes)| bytes), Some(0.0));
    node.stop();
}

#[test]
fn thousands_of_connections_and_consumers_that_do_not_read_stay_small() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    let most =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX).min(20_000);
    let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)
        .expect("as many descriptors as are allowed");
    let connections = usize::try_from(most).unwrap_or(0).saturating_sub(500).min(5_000);
    let mut node = Node::started();
    let mut connection = create(&node, "wide");
    let batch = Batch::of(&[&vec![7; 900_000]]).encode();
    for _ in 0..20 {
        assert_eq!(raw::produce_error(&connection.call(&raw::produce("wide", -1, &batch))), NONE);
    }
    let before = process::resident_bytes(node.pid());
    let (stall, open) = longest_stall(&node, || {
        let mut open = Vec::new();
        for number in 0..connections {
            let mut slow = Connection::open(node.address());
            match number % 10 {
                // These never read what they ask for.
                0 => slow.send_frame(&raw::fetch("wide", 0, 16 << 20)).expect("a request"),
                _ => drop(slow.call(&raw::api_versions(0))),
            }
            open.push(slow);
        }
        open
    });
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("wide", -1, &batch))), NONE);
    let grown = process::peak_bytes(node.pid()).saturating_sub(before);
    println!(
        "{} connections, a tenth with 16 MiB unread: {} MiB more at most, longest stall {stall:?}",
        open.len(),
        grown / MIB
    );
    assert!(grown < 256 * MIB, "{} MiB for {} connections", grown / MIB, open.len());
    drop(open);
    node.stop();
}

#[test]
fn a_request_of_many_compressed_batches_gives_others_their_turns() {
    const PARTITIONS: i32 = 400;
    let mut node = Node::started();
    let mut connection = Connection::open(node.address());
    let created = connection.call(&raw::create_topic("many", PARTITIONS));
    assert_eq!(raw::topic_error(&created), NONE);
    // A kilobyte each, and nearly a megabyte once expanded.
    let batch = Batch { gzip: true, ..Batch::of(&[&vec![7; 900_000]]) }.encode();
    let mut request = Encoder::default().i16(0).i16(8).i32(7).string("raw").i16(-1).i16(-1).i32(30_000);
    request = request.i32(1).string("many").i32(PARTITIONS);
    for partition in 0..PARTITIONS {
        request = request.i32(partition).bytes(&batch);
    }
    // Enough that some are on the same shard.
    let mut others: Vec<_> = (0..8).map(|_| Connection::open(node.address())).collect();
    let answered = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let asked = others.iter_mut().map(|other| {
            scope.spawn(|| {
                let mut calls = 0;
                while !answered.load(Ordering::Relaxed) {
                    other.call(&raw::api_versions(0));
                    calls += 1;
                }
                calls
            })
        });
        let asked: Vec<_> = asked.collect();
        let answer = connection.call(&request.done());
        answered.store(true, Ordering::Relaxed);
        assert!(answer.len() > 400 * 10, "{} bytes of answer", answer.len());
        asked.into_iter().map(|thread| thread.join().expect("answers")).collect::<Vec<u32>>()
    });
    println!("requests of others answered meanwhile: {calls:?}");
    assert!(calls.iter().all(|calls| *calls >= 20), "{calls:?}");
    let end = raw::listed_offset(&connection.call(&raw::list_end_offset("many")));
    assert_eq!(end, 1);
    node.stop();
}

#[test]
fn half_requests_do_not_live_for_ever_however_they_drip() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: one byte now and then keeps a connection to Kafka open");
    }
    let mut node = Node::new().option("connections.max.idle.ms", "1500");
    node.start();
    let mut halves: Vec<Connection> = (0..50).map(|_| Connection::open(node.address())).collect();
    for half in &mut halves {
        half.send_raw(&1_000_000_u32.to_be_bytes()).expect("a length");
    }
    let mut talking = Connection::open(node.address());
    await_some("the end of all that only drip", SOON, || {
        talking.call(&raw::api_versions(0));
        halves.retain_mut(|half| {
            half.send_raw(&[0]).is_ok() && half.outcome(Duration::from_millis(1)) == Outcome::Silence
        });
        halves.is_empty().then_some(())
    });
    // One that makes progress may take as long as it likes.
    let batch = Batch::of(&[&vec![7; 700_000]]).encode();
    let mut steady = create(&node, "steady");
    let request = raw::produce("steady", -1, &batch);
    steady.send_raw(&u32::try_from(request.len()).expect("a length").to_be_bytes()).expect("a length");
    for part in request.chunks(70_000) {
        steady.send_raw(part).expect("a part");
        talking.call(&raw::api_versions(0));
        thread::park_timeout(Duration::from_millis(300));
    }
    assert_eq!(raw::produce_error(&steady.response().expect("an answer")), NONE);
    node.stop();
}

#[test]
fn a_broker_out_of_descriptors_serves_those_it_has_and_recovers() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: it takes a Levada");
    }
    let mut node = Node::new();
    node.wrap(&["sh", "-c", r#"ulimit -n 100; "$0" "$@" & trap "kill -TERM $!" TERM; wait $!"#]);
    node.start();
    let mut first = create(&node, "few");
    let batch = Batch::of(&[b"one"]).encode();
    assert_eq!(raw::produce_error(&first.call(&raw::produce("few", -1, &batch))), NONE);
    let mut held: Vec<Connection> = (0..150).map(|_| Connection::open(node.address())).collect();
    await_some("no descriptors left", SOON, || node.talk().contains("accept failed").then_some(()));
    let mut acknowledged = 1;
    for _ in 0..20 {
        assert_eq!(raw::produce_error(&first.call(&raw::produce("few", -1, &batch))), NONE);
        acknowledged += 1;
    }
    // There is no descriptor for its files: refused, and nothing else.
    let refused = raw::topic_error(&first.call(&raw::create_topic("late", 8)));
    assert_eq!(raw::fetch_error(&first.call(&raw::fetch("few", 0, 1 << 20))), NONE);
    held.clear();
    await_some("a connection again", SOON, || {
        Connection::try_open(node.address()).ok()?.try_call(&raw::api_versions(0)).ok()
    });
    await_some("the late topic", SOON, || {
        first.call(&raw::create_topic("late", 8));
        (raw::produce_error(&first.call(&raw::produce("late", -1, &batch))) == NONE).then_some(())
    });
    println!("creating a topic without descriptors: error {refused}, afterwards none");
    assert_eq!(raw::listed_offset(&first.call(&raw::list_end_offset("few"))), acknowledged);
    await_some("good health", SOON, || (node.http("/healthz").0 == 200).then_some(()));
}

#[test]
fn an_address_may_have_a_limit_of_its_own() {
    let mut node = Node::new()
        .option("max.connections.per.ip", "1000")
        .option("max.connections.per.ip.overrides", "127.0.0.1:3,10.1.2.3:7");
    node.start();
    let mut outcomes = BTreeSet::new();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut connection = Connection::open(node.address());
        let outcome = connection.try_call(&raw::api_versions(0));
        outcomes.insert(outcome.is_ok());
        held.push((connection, outcome.is_ok()));
    }
    assert_eq!(outcomes, BTreeSet::from([true, false]));
    let served = held.iter().filter(|(_, served)| *served).count();
    assert!(served <= 3, "{served} connections from an address that may have 3");
    drop(held);
}

#[test]
fn an_address_that_connects_too_often_is_turned_away() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka measures over windows that this test does not wait for");
    }
    let mut node = Node::started();
    node.levada("config set quota ip=127.0.0.1 connection_creation_rate=5").run();
    let mut served = 0;
    let mut turned_away = 0;
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut connection = Connection::open(node.address());
        match connection.try_call(&raw::api_versions(0)) {
            Ok(_) => served += 1,
            Err(_) => turned_away += 1,
        }
        held.push(connection);
        if turned_away > 2 {
            break;
        }
    }
    println!("at 5 a second {served} were served at once and {turned_away} turned away");
    assert!((1..=60).contains(&served) && turned_away > 2);
    node.stop();
}
