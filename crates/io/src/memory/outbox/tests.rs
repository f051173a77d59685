//! Tests of the outbox: its bookkeeping with made-up completions, then real sockets with receivers
//! that are slow or disconnect.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use levada_testing::scaled;
use proptest::prelude::*;

use super::*;
use crate::buf::BufferPool;
use crate::ring::RingOptions;
use crate::tests::content;

fn ring() -> Option<Ring> {
    if crate::tests::role().is_none() && crate::tests::cramped("a test of sending through a ring") {
        return None;
    }
    let ring = Ring::new(&RingOptions { entries: 64, in_flight: 256, ..RingOptions::default() });
    ring.inspect_err(|error| {
        crate::tests::links::skipped("a test of sending through a ring", &error.to_string())
    })
    .ok()
}

fn tcp() -> (Target, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(sender).into(), listener.accept().unwrap().0)
}

fn unix() -> (Target, UnixStream) {
    let (sender, receiver) = UnixStream::pair().unwrap();
    (Arc::new(sender).into(), receiver)
}

const THRESHOLDS: Thresholds = Thresholds {
    small_extent_bytes: 0,
    copy_bytes: 0,
    pipe_bytes: 0,
    pipe_floor_bytes: 0,
    pipes: 0,
    zero_copy_send_bytes: 16 << 10,
    registered_send_bytes: 4 << 10,
    cold_window_bytes: 0,
};

fn terms(budget: usize, may_refer: bool) -> Terms<'static> {
    Terms { budget, may_refer, thresholds: &THRESHOLDS }
}

/// Sends until nothing is queued or the connection fails; how often the kernel said that it copied.
fn drive(
    outbox: &mut Outbox,
    ring: &mut Ring,
    terms: Terms<'_>,
    counters: &Counters,
) -> (usize, Option<io::Error>) {
    let mut copies = 0;
    while outbox.queued_bytes() > 0 {
        outbox.submit(ring, terms);
        ring.submit_and_wait(1, Some(Duration::from_secs(20))).unwrap();
        for completion in ring.reap() {
            match outbox.take_in(completion, counters) {
                Outcome::Failed(error) => return (copies, Some(error)),
                Outcome::Released { copied } => copies += usize::from(copied),
                Outcome::Waiting | Outcome::Settled => {}
            }
        }
    }
    (copies, None)
}

/// Received bytes, until the sender has closed.
fn receive(mut receiver: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut arrived = Vec::new();
        receiver.read_to_end(&mut arrived).unwrap();
        arrived
    })
}

/// Loads of these sizes, and their bytes; every third lies in a buffer.
fn loads(sizes: &[usize], pool: &BufferPool) -> (Vec<MemoryPiece>, Vec<u8>) {
    let all = content(sizes.iter().sum());
    let mut at = 0;
    let load = |(index, size): (usize, &usize)| {
        let part = &all[at..at + size];
        at += size;
        match pool.take().filter(|buffer| index % 3 == 2 && buffer.capacity() > size + 3) {
            Some(mut buffer) => {
                buffer.space()[3..3 + size].copy_from_slice(part);
                buffer.set_len(size + 3);
                MemoryPiece::Buffer(Arc::new(buffer), 3..3 + size)
            }
            None => MemoryPiece::Bytes(Bytes::copy_from_slice(part)),
        }
    };
    (sizes.iter().enumerate().map(load).collect(), all)
}

#[test]
fn mixed_loads_arrive_in_order() {
    let Some(mut ring) = ring() else { return };
    let pool = BufferPool::new(64 << 10, 16).unwrap();
    ring.register_buffers(&pool).unwrap();
    for sizes in
        [vec![4096, 4096, 16384, 32768, 2048], vec![1], vec![0, 5, 0], vec![50_000; 40], vec![10; 3000]]
    {
        for may_refer in [false, true] {
            for tcp_socket in [false, true] {
                let counters = Counters::default();
                let (loads, expected) = loads(&sizes, &pool);
                let (socket, reader) = if tcp_socket {
                    let (socket, receiver) = tcp();
                    (socket, receive(receiver))
                } else {
                    let (socket, receiver) = unix();
                    (socket, receive(receiver))
                };
                let mut outbox = Outbox::new(socket);
                loads.into_iter().for_each(|load| outbox.push(load));
                assert_eq!(outbox.queued_bytes(), expected.len() as u64);
                let (_, failure) = drive(&mut outbox, &mut ring, terms(300_000, may_refer), &counters);
                assert!(failure.is_none(), "{failure:?}");
                drop(outbox);
                assert!(reader.join().unwrap() == expected, "{sizes:?} {may_refer} {tcp_socket}");
                let counted = counters.snapshot();
                let (copied, referred) = (counted.bytes(Path::UringSend), counted.bytes(Path::UringSendZc));
                assert_eq!(copied + referred, expected.len() as u64);
                if !may_refer || !tcp_socket {
                    assert_eq!(referred, 0);
                }
            }
        }
    }
}

#[test]
fn adjacent_small_pieces_are_merged() {
    let Some(mut ring) = ring() else { return };
    let pool = BufferPool::new(4 << 10, 16).unwrap();
    /// A number of pieces of one size, the queue after they have been put together, and the number
    /// of bytes copied for it.
    type Case = (&'static [(usize, usize)], &'static [usize], u64);
    let cases: [Case; 4] = [
        (
            &[(1000, 10), (1, 20_000), (1, 300), (2, 5), (2, 256), (1, 300), (1, 7)],
            &[10_000, 20_000, 300, 522, 300, 7],
            10_522,
        ),
        (&[(300, 256)], &[65_536, 11_264], 76_800),
        (&[(1, 200), (1, 257), (1, 200)], &[200, 257, 200], 0),
        (&[(2, 1)], &[2], 2),
    ];
    for (sizes, expected, gathered) in cases {
        let (socket, receiver) = tcp();
        let reader = receive(receiver);
        let sizes: Vec<usize> = sizes.iter().flat_map(|(count, size)| vec![*size; *count]).collect();
        let (loads, content) = loads(&sizes, &pool);
        let (mut outbox, counters) = (Outbox::new(socket), Counters::default());
        loads.into_iter().for_each(|load| outbox.push(load));
        let terms = terms(1 << 20, false);
        outbox.submit(&mut ring, terms);
        assert_eq!(outbox.queue.iter().map(MemoryPiece::len).collect::<Vec<_>>(), expected);
        ring.submit_and_wait(outbox.chain.len(), Some(Duration::from_secs(20))).unwrap();
        ring.reap().into_iter().for_each(|completion| drop(outbox.take_in(completion, &counters)));
        assert!(drive(&mut outbox, &mut ring, terms, &counters).1.is_none());
        drop(outbox);
        assert!(reader.join().unwrap() == content);
        assert_eq!(counters.snapshot().copied(), content.len() as u64 + gathered);
    }
}

#[test]
fn outbox_merges_pieces_up_to_a_bound() {
    let mut queue: VecDeque<MemoryPiece> =
        (0..1000).map(|_| MemoryPiece::Bytes(Bytes::from_static(&[1; 100]))).collect();
    assert_eq!(gather::gather(&mut queue, 30_000), 65_500);
    assert_eq!(queue.len(), 1 + 345);
    assert_eq!(gather::gather(&mut queue, 30_000), 0);
}

#[test]
fn outbox_sends_to_socket_without_zero_copy() {
    let Some(mut ring) = ring() else { return };
    let (socket, receiver) = unix();
    let reader = receive(receiver);
    let counters = Counters::default();
    let mut outbox = Outbox::new(socket);
    let expected = content(200_000);
    outbox.push(MemoryPiece::Bytes(expected.clone().into()));
    assert!(drive(&mut outbox, &mut ring, terms(1 << 20, true), &counters).1.is_none());
    drop(outbox);
    assert!(reader.join().unwrap() == expected);
    let counted = counters.snapshot();
    assert_eq!(counted.fallbacks(Fallback::ZeroCopyRefused), 1);
    assert_eq!(counted.bytes(Path::UringSend), 200_000);
}

#[test]
fn kernel_copies_of_sent_bytes_are_counted() {
    let Some(mut ring) = ring() else { return };
    let (socket, receiver) = tcp();
    let reader = receive(receiver);
    let counters = Counters::default();
    let mut outbox = Outbox::new(socket);
    outbox.push(MemoryPiece::Bytes(content(100_000).into()));
    drive(&mut outbox, &mut ring, terms(1 << 20, true), &counters);
    while !outbox.parked.is_empty() {
        ring.submit_and_wait(1, Some(Duration::from_secs(20))).unwrap();
        for completion in ring.reap() {
            outbox.take_in(completion, &counters);
        }
    }
    assert_eq!(counters.snapshot().copied_by_kernel(), 100_000);
    drop(outbox);
    reader.join().unwrap();
}

#[test]
fn kernel_copied_bytes_never_exceed_accepted_bytes() {
    let Some(mut ring) = ring() else { return };
    let reset = || io::Error::from_raw_os_error(libc::ECONNRESET);
    for (result, taken) in [(Ok(600), 600), (Err(reset()), 0)] {
        let (socket, _receiver) = tcp();
        let (mut outbox, counters) = (Outbox::new(socket), Counters::default());
        outbox.push(MemoryPiece::Bytes(vec![1; 20_000].into()));
        let key = keys(&mut ring, 1)[0];
        outbox.chain = vec![Link { key, mode: SendMode::Referenced, result: None }];
        let released = Event::Released { memory: Memory::Nothing, copied: true };
        for event in [Event::Sent { result }, released] {
            outbox.take_in(Completion { key, event }, &counters);
        }
        let counted = counters.snapshot();
        assert_eq!((counted.bytes(Path::UringSendZc), counted.copied_by_kernel()), (taken, taken));
    }
}

#[test]
fn a_reset_fails_and_leaves_a_prefix() {
    let Some(mut ring) = ring() else { return };
    for may_refer in [false, true] {
        let (socket, mut receiver) = tcp();
        let expected = content(30 << 20);
        let mut outbox = Outbox::new(socket);
        for piece in Bytes::from(expected.clone()).chunks(100_000) {
            outbox.push(MemoryPiece::Bytes(Bytes::copy_from_slice(piece)));
        }
        let reader = std::thread::spawn(move || {
            let mut arrived = vec![0; 1 << 20];
            receiver.read_exact(&mut arrived).unwrap();
            arrived
        });
        let (_, failure) = drive(&mut outbox, &mut ring, terms(1 << 20, may_refer), &Counters::default());
        assert!(failure.is_some());
        assert!(outbox.queued_bytes() > 0);
        assert!(expected.starts_with(&reader.join().unwrap()));
        // Parked buffers come back although their owner was dropped.
        drop(outbox);
        while ring.in_flight() > 0 {
            ring.submit_and_wait(1, Some(Duration::from_secs(20))).unwrap();
            ring.reap();
        }
    }
}

/// A key for each of `count` operations that succeed by doing nothing.
fn keys(ring: &mut Ring, count: usize) -> Vec<Key> {
    (0..count).map(|_| ring.push(Operation::nothing()).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(60)))]

    /// For all results of a chain's links, in any order: the queue goes on at the first
    /// byte not taken.
    #[test]
    fn a_broken_chain_resumes_at_its_byte(
        sizes in prop::collection::vec(1_usize..60_000, 1..20),
        breaks in (0_usize..20, 0_usize..60_000, any::<bool>()),
        parks in prop::collection::vec(any::<bool>(), 20),
        backwards in any::<bool>(),
    ) {
        let Some(mut ring) = ring() else { return Ok(()) };
        let (socket, _receiver) = tcp();
        let mut outbox = Outbox::new(socket);
        sizes.iter().for_each(|size| outbox.push(MemoryPiece::Bytes(vec![1; *size].into())));
        let total: usize = sizes.iter().sum();
        let runs = outbox.runs(&terms(usize::MAX, true), &ring);
        let keys = keys(&mut ring, runs.len());
        let link = |(key, run): (&Key, &Run)| Link { key: *key, mode: run.mode, result: None };
        outbox.chain = keys.iter().zip(&runs).map(link).collect();
        // One link stops short or fails; those after it are cancelled.
        let (broken, short, fails) = (breaks.0 % runs.len(), breaks.1 % runs[breaks.0 % runs.len()].bytes, breaks.2);
        let mut taken = 0;
        let mut completions = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let result = match index.cmp(&broken) {
                std::cmp::Ordering::Less => Ok(runs[index].bytes),
                std::cmp::Ordering::Equal if fails => Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
                std::cmp::Ordering::Equal => Ok(short),
                std::cmp::Ordering::Greater => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            };
            taken += *result.as_ref().unwrap_or(&0);
            let parks = parks[index] && runs[index].mode != SendMode::Copied;
            let event = if parks { Event::Sent { result } } else { Event::Done { result, memory: Memory::Nothing } };
            completions.push(Completion { key: *key, event });
        }
        if backwards {
            completions.reverse();
        }
        let failed = fails && runs[broken].mode == SendMode::Copied;
        let counters = Counters::default();
        let last = completions.len() - 1;
        for (index, completion) in completions.into_iter().enumerate() {
            match outbox.take_in(completion, &counters) {
                Outcome::Waiting => prop_assert!(index < last),
                Outcome::Settled => prop_assert!(index == last && !failed),
                Outcome::Failed(_) => prop_assert!(index == last && failed),
                Outcome::Released { .. } => prop_assert!(false),
            }
        }
        prop_assert_eq!(outbox.queued_bytes(), (total - taken) as u64);
        prop_assert_eq!(outbox.queue.iter().map(MemoryPiece::len).sum::<usize>(), total - taken);
        prop_assert!(!outbox.is_busy());
        // Sends by reference that could not pin their pages are not tried again.
        prop_assert_eq!(outbox.refused, fails && !failed);
    }
}

#[test]
fn small_memlock_limit_falls_back_to_copies() {
    const NAME: &str = "memory::outbox::tests::small_memlock_limit_falls_back_to_copies";
    if crate::tests::role().is_none() {
        // Root of a namespace of its own is bound by the limit; root outside is not.
        let mut command = std::process::Command::new("unshare");
        command.args(["-Ur", "sh", "-c", "ulimit -l 64 && exec \"$0\" \"$@\""]);
        command.arg(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]);
        let Ok(output) = command.env("LEVADA_IO_TEST_ROLE", "inside").output() else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("running 1 test") || said.contains("all of it arrived"), "{said}");
        return;
    }
    let (mut ring, pool) = (ring(), BufferPool::new(1 << 20, 4).unwrap());
    if let Some(ring) = &mut ring {
        assert_eq!(ring.register_buffers(&pool).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        let (socket, receiver) = tcp();
        let reader = receive(receiver);
        let counters = Counters::default();
        let mut outbox = Outbox::new(socket);
        let expected = content(20 << 20);
        outbox.push(MemoryPiece::Bytes(expected.clone().into()));
        assert!(drive(&mut outbox, ring, terms(usize::MAX, true), &counters).1.is_none());
        drop(outbox);
        assert!(reader.join().unwrap() == expected);
        assert_eq!(counters.snapshot().fallbacks(Fallback::NoLockedMemory), 1);
    }
    println!("all of it arrived");
}
