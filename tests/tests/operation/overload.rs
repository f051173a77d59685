//! More than the broker can do: requests by the gigabyte, consumers that do not read, connections
//! by the thousand, half requests, no descriptors left. It stays within its memory, loses nothing
//! that it acknowledged, and others are served meanwhile.
//!
//! Suite: long, alone; 33 s

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
/// Far more than a small request waits on a busy machine, and far less than the sum of the waits if
/// each slow client held up the others for a second.
const STALL_MAX: Duration = Duration::from_secs(10);
const JAAS: &str =
    r#"org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";"#;

fn create(node: &Node, topic: &str) -> Connection {
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
    await_some("the topic", SOON, || {
        (raw::topic_error(&connection.call(&raw::create_topic(topic, 1))) != NONE).then_some(())
    });
    connection
}

/// Bytes of requests that the broker holds.
fn held_bytes(node: &Node) -> u64 {
    let held = node.metrics().into_iter().find(|(name, _)| name == "levada_request_bytes_held");
    held.expect("a sample of the held bytes").1 as u64
}

/// Observations of other clients during some work, and the work's value.
struct Observed<T> {
    /// The longest time that a small request took.
    stall: Duration,
    /// The most bytes of requests that the broker held.
    held_bytes: u64,
    work: T,
}

fn observe<T: Send>(node: &Node, work: impl FnOnce() -> T + Send) -> Observed<T> {
    let is_done = AtomicBool::new(false);
    let mut other = Connection::open(node.address());
    thread::scope(|scope| {
        let work = scope.spawn(work);
        let held = scope.spawn(|| {
            let (start, mut most) = (Instant::now(), 0);
            while !is_done.load(Ordering::Relaxed) && start.elapsed() < SOON {
                most = most.max(held_bytes(node));
            }
            most
        });
        let mut stall = Duration::ZERO;
        while !work.is_finished() {
            let asked = Instant::now();
            other.call(&raw::api_versions(0));
            stall = stall.max(asked.elapsed());
        }
        is_done.store(true, Ordering::Relaxed);
        let held_bytes = held.join().expect("samples");
        Observed { stall, held_bytes, work: work.join().expect("the load") }
    })
}

#[test]
fn requests_over_memory_limit_wait_without_loss() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    const CLIENTS: usize = 64;
    const REQUESTS: usize = 4;
    const ALLOWED: u64 = 8 * MIB;
    let mut node = Node::new().option("queued.max.request.bytes", &ALLOWED.to_string());
    node.start();
    let mut connection = create(&node, "flood");
    let before = process::peak_bytes(node.pid());
    let request = raw::produce("flood", -1, &Batch::of(&[&vec![7; 1_000_000]]).encode());
    let Observed { stall, held_bytes: held, .. } = observe(&node, || {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut connection = Connection::open(node.address());
                    for _ in 0..REQUESTS {
                        connection.send_frame(&request).expect("a request");
                    }
                    for _ in 0..REQUESTS {
                        let answer = connection.response().expect("an answer");
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
        "64 clients with four requests of 1 MB together, 8 MiB allowed: {} MiB more at most, {held} \
         bytes held, longest stall {stall:?}",
        grown / MIB
    );
    assert!(grown < 48 * MIB, "{} MiB for requests of 8 MiB", grown / MIB);
    // All of the memory is used; one request may exceed it, and each shard may exceed it by a read.
    assert!(held > ALLOWED / 2, "{held} bytes held of {ALLOWED}: the clients sent too little");
    assert!(held < 2 * ALLOWED, "{held} bytes held of {ALLOWED}");
    assert!(stall < STALL_MAX, "{stall:?}");
    assert_eq!(held_bytes(&node), 0);
    node.stop();
}

/// The longest that a request of 300 KB of another client takes.
fn longest_produce(node: &Node, topic: &str) -> Duration {
    let batch = Batch::of(&[&vec![7; 300_000]]).encode();
    let mut other = Connection::open(node.address());
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(raw::produce_error(&other.call(&raw::produce(topic, -1, &batch))), NONE);
        longest = longest.max(asked.elapsed());
    }
    longest
}

#[test]
fn claimed_request_lengths_reserve_no_memory() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    let mut node = Node::new()
        .option("queued.max.request.bytes", "8388608")
        .option("listener.name.sasl.plain.sasl.jaas.config", JAAS)
        .option("sasl.enabled.mechanisms", "PLAIN");
    let secured = node.listen("SASL", "SASL_PLAINTEXT");
    node.start();
    drop(create(&node, "claims"));
    let claim = |address, bytes: u32| {
        let mut connection = Connection::open(address);
        connection.send_raw(&bytes.to_be_bytes()).expect("a length");
        connection
    };
    // The connections stay, and the broker holds no more than the answered request for a moment.
    let assert_harmless = |claims: Vec<Connection>| {
        let held = held_bytes(&node);
        assert!(held < MIB, "{held} bytes held for {} lengths", claims.len());
        for mut claim in claims {
            assert_eq!(claim.outcome(Duration::from_millis(1)), Outcome::Silence);
        }
    };
    let open = (0..8).map(|_| claim(node.address(), 100 << 20)).collect();
    let longest = longest_produce(&node, "claims");
    println!("8 connections that claim 100 MiB each: 300 KB took {longest:?} at most");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_harmless(open);
    let unknown = (0..200).map(|_| claim(secured, 512 << 10)).collect();
    let longest = longest_produce(&node, "claims");
    println!("200 connections that claim 512 KiB each before they authenticate: {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_harmless(unknown);
    node.stop();
}

#[test]
fn long_polls_do_not_retain_request_buffers() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    let mut node = Node::new().option("queued.max.request.bytes", "8388608");
    node.start();
    drop(create(&node, "polls"));
    // At the end of the log, so that it waits.
    let mut request = raw::waiting_fetch("polls", 0, 1 << 20, i32::MAX);
    request.resize(2 << 20, 0);
    let polls: Vec<_> = (0..8)
        .map(|_| {
            let mut poll = Connection::open(node.address());
            poll.send_frame(&request).expect("a request of 2 MiB");
            poll
        })
        .collect();
    await_some("the long polls", SOON, || {
        let asked =
            node.metrics().into_iter().find(|(name, _)| name.contains("requests") && name.contains("Fetch"));
        asked.filter(|(_, count)| *count >= 8.0).map(drop)
    });
    assert_eq!(held_bytes(&node), 0, "the long polls hold what was padded behind them");
    let longest = longest_produce(&node, "polls");
    drop(polls);
    println!("8 long polls with 2 MiB behind each: 300 KB took {longest:?} at most");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    node.stop();
}

#[test]
fn half_requests_filling_memory_delay_producers_briefly() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    let mut node = Node::new().option("queued.max.request.bytes", "4194304");
    node.start();
    drop(create(&node, "halves"));
    // All of it really sent, but for the last byte.
    let halves: Vec<_> = (0..5)
        .map(|_| {
            let mut half = Connection::open(node.address());
            half.send_raw(&(1_u32 << 20).to_be_bytes()).expect("a length");
            half.send_raw(&vec![0; (1 << 20) - 1]).expect("nearly all of a request");
            half
        })
        .collect();
    await_some("memory that is used up", SOON, || (held_bytes(&node) >= 4 * MIB).then_some(()));
    let longest = longest_produce(&node, "halves");
    drop(halves);
    println!("4 MiB of half requests, 4 MiB allowed: 300 KB took {longest:?} at most");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    node.stop();
}

#[test]
fn clients_that_have_not_authenticated_hold_little_memory() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's memory is the JVM's heap");
    }
    let mut node = Node::new()
        .option("listener.name.sasl.plain.sasl.jaas.config", JAAS)
        .option("sasl.enabled.mechanisms", "PLAIN");
    let secured = node.listen("SASL", "SASL_PLAINTEXT");
    node.start();
    let before = process::resident_bytes(node.pid());
    let half = |_| {
        let mut half = Connection::open(secured);
        half.send_raw(&(512_u32 << 10).to_be_bytes()).expect("a length");
        // The broker may close it before everything is sent.
        let _ = half.send_raw(&vec![0; (512 << 10) - 1]);
        half
    };
    let mut halves: Vec<_> = (0..200).map(half).collect();
    await_some("the end of those that hold too much", SOON, || {
        halves.retain_mut(|half| half.outcome(Duration::from_millis(1)) == Outcome::Silence);
        (halves.len() <= 4).then_some(())
    });
    let grown = process::peak_bytes(node.pid()).saturating_sub(before);
    println!("200 clients that sent 512 KiB each and no name: {} MiB more at most", grown / MIB);
    assert!(grown < 48 * MIB, "{} MiB", grown / MIB);
    drop(halves);
    node.stop();
}

#[test]
fn unauthenticated_connection_is_closed_at_timeout() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka waits for connections.max.idle.ms");
    }
    let mut node = Node::new()
        .option("listener.name.sasl.plain.sasl.jaas.config", JAAS)
        .option("sasl.enabled.mechanisms", "PLAIN");
    let secured = node.listen("SASL", "SASL_PLAINTEXT");
    node.start();
    let mut silent = Connection::open(secured);
    let mut asking = Connection::open(secured);
    asking.call(&raw::api_versions(0));
    let mut open = Connection::open(node.address());
    for connection in [&mut silent, &mut asking] {
        assert_eq!(connection.outcome(Duration::from_secs(40)), Outcome::Closed);
    }
    open.call(&raw::api_versions(0));
    assert!(node.talk().contains("did not authenticate within"), "{}", node.talk());
    node.stop();
}

#[test]
fn thousands_of_slow_connections_use_little_memory() {
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
    let Observed { stall, work: open, .. } = observe(&node, || {
        let mut open = Vec::new();
        for number in 0..connections {
            let mut slow = Connection::open(node.address());
            match number % 10 {
                // The clients never read what they ask for.
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
    assert!(stall < STALL_MAX, "{stall:?}");
    drop(open);
    node.stop();
}

#[test]
fn large_compressed_request_does_not_starve_others() {
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
fn slow_incomplete_requests_are_closed_when_idle() {
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
fn idle_connections_leave_descriptors_for_files() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: it takes a Levada");
    }
    let mut node = Node::new();
    node.wrap(&["sh", "-c", r#"ulimit -n 160; "$0" "$@" & trap "kill -TERM $!" TERM; wait $!"#]);
    node.start();
    let mut first = create(&node, "few");
    let batch = Batch::of(&[b"one"]).encode();
    assert_eq!(raw::produce_error(&first.call(&raw::produce("few", -1, &batch))), NONE);
    let mut held: Vec<Connection> = (0..200).map(|_| Connection::open(node.address())).collect();
    await_some("a listener that waits", SOON, || {
        node.talk().contains("descriptors are reserved for log files").then_some(())
    });
    // There are descriptors for the files of another topic, and for those that a broker opens and
    // closes.
    assert_eq!(raw::topic_error(&first.call(&raw::create_topic("late", 4))), NONE);
    await_some("the late topic", SOON, || {
        (raw::produce_error(&first.call(&raw::produce("late", -1, &batch))) == NONE).then_some(())
    });
    let mut acknowledged = 1;
    for _ in 0..20 {
        assert_eq!(raw::produce_error(&first.call(&raw::produce("few", -1, &batch))), NONE);
        acknowledged += 1;
    }
    assert_eq!(raw::fetch_error(&first.call(&raw::fetch("few", 0, 1 << 20))), NONE);
    held.clear();
    await_some("a connection again", SOON, || {
        Connection::try_open(node.address()).ok()?.try_call(&raw::api_versions(0)).ok()
    });
    assert_eq!(raw::listed_offset(&first.call(&raw::list_end_offset("few"))), acknowledged);
    assert_eq!(node.http("/healthz").0, 200);
    let told = node.talk().matches("descriptors are reserved for log files").count();
    assert!(told < 10, "told {told} times");
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: it is the JVM that does it");
    }
    let mut node = Node::new();
    node.wrap(&["sh", "-c", r#"ulimit -Sn 64; "$0" "$@" & trap "kill -TERM $!" TERM; wait $!"#]);
    node.start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid())).expect("the limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("descriptors");
    let mut words = line.split_whitespace().skip(3);
    assert_eq!(words.next(), words.next(), "{line}");
    node.stop();
}

#[test]
fn per_ip_connection_limit_can_be_overridden() {
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
    // A Kafka that is its own controller has connections to itself from the address.
    let others = if Kind::under_test() == Kind::Kafka { 1..=3 } else { 3..=3 };
    assert!(others.contains(&served), "{served} connections from an address that may have 3");
    drop(held);
}

#[test]
fn connection_creation_rate_quota_refuses_excess_connections() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka measures over windows that this test does not wait for");
    }
    let mut node = Node::started();
    node.levada("config set quota ip=127.0.0.1 connection_creation_rate=5").run();
    let mut served = 0;
    let mut turned_away = 0;
    let mut held = Vec::new();
    let start = Instant::now();
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
    let seconds = start.elapsed().as_secs_f64();
    println!("at 5 a second {served} were served immediately and {turned_away} turned away in {seconds} s");
    // A new client has credit for ten seconds.
    let expected = 45.0..=55.0 + 5.0 * seconds;
    assert!(expected.contains(&f64::from(served)) && turned_away > 2, "{served} in {seconds} s");
    node.stop();
}
