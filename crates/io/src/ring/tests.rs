//! Tests of the ring with the real kernel. Where it allows no ring, there is nothing to test.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::tests::{content, file_of};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn ring(options: &RingOptions) -> Option<Ring> {
    if crate::tests::cramped("a test of the ring") {
        return None;
    }
    match Ring::new(options) {
        Ok(ring) => Some(ring),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::OutOfMemory) => {
            crate::tests::links::skipped("a test of the ring", &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn default_ring() -> Option<Ring> {
    ring(&RingOptions::default())
}

/// Waits for the next completions.
fn completions(ring: &mut Ring) -> Vec<Completion> {
    ring.submit_and_wait(1, PATIENCE).unwrap();
    let completions = ring.reap();
    assert!(!completions.is_empty(), "nothing completed");
    completions
}

/// Runs one operation to its result.
fn run(ring: &mut Ring, operation: Operation) -> (io::Result<usize>, Memory) {
    ring.push(operation).unwrap();
    match completions(ring).remove(0).event {
        Event::Done { result, memory } => (result, memory),
        other => panic!("{other:?}"),
    }
}

fn tcp() -> (Arc<TcpStream>, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(sender), listener.accept().unwrap().0)
}

fn buffer_of(pool: &BufferPool, bytes: &[u8]) -> Memory {
    let mut buffer = pool.take().unwrap();
    buffer.space()[..bytes.len()].copy_from_slice(bytes);
    buffer.set_len(bytes.len());
    Memory::Buffer(buffer)
}

#[test]
fn ring_reads_file_contents() {
    let content = content(20_000);
    let file = file_of(&content);
    for mode in [Mode::Deferred, Mode::Plain, Mode::Polled { idle_ms: 1 }] {
        let Some(mut ring) = ring(&RingOptions { mode, ..RingOptions::default() }) else { return };
        let (own, registered) = (BufferPool::new(8192, 1).unwrap(), BufferPool::new(8192, 2).unwrap());
        ring.register_buffers(&registered).unwrap();
        assert!(ring.register_buffers(&own).is_err(), "one pool only");
        ring.register_files(4).unwrap();
        let slot = ring.attach(&file).unwrap();
        for (offset, len) in [(0, 8192), (1, 100), (19_990, 100), (20_000, 10), (0, 100_000)] {
            let expected = &content[offset..(offset + len.min(8192)).min(20_000)];
            for pool in [&own, &registered] {
                for target in [Target::from(Arc::clone(&file)), Target::from(&slot)] {
                    let read = Operation::read(target, offset as u64, len, pool.take().unwrap());
                    let (result, memory) = run(&mut ring, read);
                    let Memory::Buffer(buffer) = memory else { panic!("{mode:?}") };
                    assert_eq!(result.unwrap(), expected.len(), "{mode:?} {offset} {len}");
                    assert_eq!(buffer.filled(), expected, "{mode:?} {offset} {len}");
                }
            }
        }
    }
}

#[test]
fn ring_errors_return_the_memory() {
    let Some(mut ring) = default_ring() else { return };
    let pool = BufferPool::new(4096, 1).unwrap();
    let directory = Arc::new(File::open("/").unwrap());
    let (result, memory) =
        run(&mut ring, Operation::read(Arc::clone(&directory), 0, 10, pool.take().unwrap()));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::IsADirectory);
    assert!(memory.is_empty() && pool.take().is_none());
    drop(memory);
    assert!(pool.take().is_some());
    assert!(run(&mut ring, Operation::sync(file_of(b"x"))).0.is_ok());
    let (result, memory) = run(&mut ring, Operation::send(directory, Memory::Bytes(b"x"[..].into())));
    assert_eq!((result.unwrap_err().raw_os_error(), memory.len()), (Some(libc::ENOTSOCK), 1));
}

#[test]
fn uncached_reads_leave_no_page_in_cache() {
    let Some(mut ring) = default_ring() else { return };
    let content = content(64 << 10);
    let file = file_of(&content);
    if !crate::tests::chilled(&file) {
        return;
    }
    let pool = BufferPool::new(64 << 10, 1).unwrap();
    let read = Operation::read(Arc::clone(&file), 0, 64 << 10, pool.take().unwrap());
    let (result, memory) = run(&mut ring, read.caching(Caching::Drop));
    match result {
        Ok(count) => {
            let Memory::Buffer(buffer) = memory else { panic!("another memory") };
            assert!(count == 64 << 10 && buffer.filled() == content);
            assert_eq!(crate::sys::calls::cached_pages(file.as_fd(), 0, 0).unwrap(), 0);
        }
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
    }
}

#[test]
fn ring_sends_from_all_memory_kinds_in_order() {
    let Some(mut ring) = default_ring() else { return };
    let pool = BufferPool::new(4096, 4).unwrap();
    ring.register_buffers(&pool).unwrap();
    ring.register_files(1).unwrap();
    for (kind, zero_copy) in [("tcp", false), ("tcp", true), ("unix", false)] {
        let (sender, mut receiver): (Target, Box<dyn Read>) = if kind == "tcp" {
            let (sender, receiver) = tcp();
            (sender.into(), Box::new(receiver))
        } else {
            let (sender, receiver) = UnixStream::pair().unwrap();
            let slot = ring.attach(&sender).unwrap();
            (Target::from(&slot), Box::new(receiver))
        };
        let memories = [
            Memory::Bytes(Bytes::from_static(b"bytes, ")),
            buffer_of(&pool, b"a buffer, "),
            Memory::Pieces(vec![Bytes::from_static(b"and "), Bytes::new(), Bytes::from_static(b"pieces")]),
        ];
        let operations = memories.into_iter().map(|memory| {
            let send = Operation::send(sender.clone(), memory).more();
            if zero_copy { send.zero_copy() } else { send }
        });
        let keys = ring.push_linked(operations.collect()).unwrap();
        drop(sender);
        let mut sent = Vec::new();
        let mut back = 0;
        while back < 3 {
            for Completion { key, event } in completions(&mut ring) {
                match event {
                    Event::Done { result, .. } => {
                        assert!(!zero_copy);
                        sent.push((key, result.unwrap()));
                        back += 1;
                    }
                    Event::Sent { result } => sent.push((key, result.unwrap())),
                    Event::Released { memory, copied } => {
                        assert!(zero_copy && copied && !memory.is_empty(), "loopback copies");
                        back += 1;
                    }
                }
            }
        }
        assert_eq!(sent, [(keys[0], 7), (keys[1], 10), (keys[2], 10)], "{kind}");
        let mut arrived = [0; 27];
        receiver.read_exact(&mut arrived).unwrap();
        assert_eq!(&arrived, b"bytes, a buffer, and pieces", "{kind}");
        assert_eq!(ring.in_flight(), 0);
    }
}

#[test]
fn a_failed_zero_copy_send_is_released_too() {
    let Some(mut ring) = default_ring() else { return };
    let (sender, receiver) = tcp();
    drop(receiver);
    // The first sends may still be taken; then the reset is known.
    loop {
        let memory = Memory::Bytes(Bytes::from_static(b"into the void"));
        let key = ring.push(Operation::send(Arc::clone(&sender), memory).zero_copy()).unwrap();
        let mut failed = false;
        let mut over = false;
        while !over {
            for completion in completions(&mut ring) {
                assert_eq!(completion.key, key);
                match completion.event {
                    Event::Sent { result } => failed = result.is_err(),
                    Event::Done { result, memory } => {
                        assert_eq!(memory.len(), 13);
                        (failed, over) = (result.is_err(), true);
                    }
                    Event::Released { memory, .. } => {
                        assert_eq!(memory.len(), 13);
                        over = true;
                    }
                }
            }
        }
        if failed {
            break;
        }
    }
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_broken_chain_cancels_the_rest() {
    let Some(mut ring) = default_ring() else { return };
    for zero_copy in [false, true] {
        let (sender, _receiver) = tcp();
        let broken = Arc::new(File::open("/dev/null").unwrap());
        let send = |target: Target| {
            let send = Operation::send(target, Memory::Bytes(Bytes::from_static(b"piece")));
            if zero_copy { send.zero_copy() } else { send }
        };
        let chain = vec![send(Arc::clone(&sender).into()), send(broken.into()), send(sender.into())];
        let keys = ring.push_linked(chain).unwrap();
        let mut results = BTreeMap::new();
        while results.len() < 3 || ring.in_flight() > 0 {
            for Completion { key, event } in completions(&mut ring) {
                if let Event::Done { result, .. } | Event::Sent { result } = event {
                    let number = result.map_err(|error| error.raw_os_error());
                    assert_eq!(results.insert(key, number), None);
                }
            }
        }
        assert_eq!(results[&keys[0]], Ok(5));
        assert!(results[&keys[1]].is_err());
        assert_eq!(results[&keys[2]], Err(Some(libc::ECANCELED)));
    }
}

#[test]
fn polled_ring_never_runs_a_partial_chain() {
    let options = RingOptions { mode: Mode::Polled { idle_ms: 1_000 }, ..RingOptions::default() };
    let Some(mut ring) = ring(&options) else { return };
    let directory = Arc::new(File::open("/").unwrap());
    for round in 0..3_000 {
        // One that fails: nothing after it in the chain may be done.
        let fails = Operation::send(Arc::clone(&directory), Memory::Bytes(Bytes::from_static(b"x")));
        let rest = std::iter::repeat_with(Operation::nothing).take(31);
        let keys = ring.push_linked(std::iter::once(fails).chain(rest).collect()).unwrap();
        let mut results = BTreeMap::new();
        while results.len() < keys.len() {
            for Completion { key, event } in completions(&mut ring) {
                let Event::Done { result, .. } = event else { panic!("{event:?}") };
                results.insert(key, result.map_err(|error| error.raw_os_error()));
            }
        }
        assert_eq!(results[&keys[0]], Err(Some(libc::ENOTSOCK)));
        let done = keys[1..].iter().filter(|key| results[key].is_ok()).count();
        assert_eq!(done, 0, "in round {round}");
    }
}

#[test]
fn an_operation_can_be_cancelled() {
    let Some(mut ring) = default_ring() else { return };
    let (reader, _writer) = io::pipe().unwrap();
    let pool = BufferPool::new(4096, 1).unwrap();
    let read = Operation::read(Arc::new(reader), 0, 10, pool.take().unwrap());
    let waits = ring.push(read).unwrap();
    ring.submit().unwrap();
    assert!(ring.reap().is_empty());
    ring.cancel(waits).unwrap();
    while ring.in_flight() > 0 {
        for Completion { key, event } in completions(&mut ring) {
            let Event::Done { result, .. } = event else { panic!("{event:?}") };
            if key == waits {
                assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
            }
        }
    }
    assert!(pool.take().is_some());
}

#[test]
fn ring_completion_wakes_the_event_loop() {
    use rustix::event::epoll;
    for mode in [Mode::Deferred, Mode::Plain] {
        let Some(mut ring) = ring(&RingOptions { mode, ..RingOptions::default() }) else { return };
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let wakeups = ring.wakeups().unwrap();
        assert!(ring.wakeups().is_err(), "{mode:?}: once only");
        // As a runtime does it: told of changes only, and of all that it can be told.
        let wants = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&watch, &wakeups, epoll::EventData::new_u64(1), wants).unwrap();
        let woken = |milliseconds: i64| {
            let mut found = Vec::with_capacity(1);
            let limit = rustix::event::Timespec {
                tv_sec: milliseconds / 1000,
                tv_nsec: milliseconds % 1000 * 1_000_000,
            };
            let waited = epoll::wait(&watch, rustix::buffer::spare_capacity(&mut found), Some(&limit));
            // In the plain mode the kernel interrupts the thread.
            waited == Err(rustix::io::Errno::INTR) || !found.is_empty()
        };
        for _ in 0..3 {
            let (reader, mut writer) = io::pipe().unwrap();
            let pool = BufferPool::new(4096, 1).unwrap();
            let key = ring.push(Operation::read(Arc::new(reader), 0, 10, pool.take().unwrap())).unwrap();
            ring.submit().unwrap();
            assert!(ring.reap().is_empty());
            // Completions that earlier rounds have left.
            while woken(0) {}
            let late = std::thread::spawn(move || io::Write::write_all(&mut writer, b"x").map(|()| writer));
            while ring.in_flight() > 0 {
                assert!(woken(10_000), "{mode:?}: nobody was woken");
                for completion in ring.reap() {
                    assert_eq!(completion.key, key);
                }
            }
            late.join().unwrap().unwrap();
        }
    }
}

#[test]
fn one_wakeup_is_enough_for_many_completions() {
    use rustix::event::epoll;
    let Some(mut ring) = default_ring() else { return };
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let wakeups = ring.wakeups().unwrap();
    epoll::add(&watch, &wakeups, epoll::EventData::new_u64(1), epoll::EventFlags::IN | epoll::EventFlags::ET)
        .unwrap();
    // The kernel hands over no more than 20 in one call.
    let count = 100;
    let (reader, writer) = io::pipe().unwrap();
    let (reader, pool) = (Arc::new(reader), BufferPool::new(4096, count).unwrap());
    for _ in 0..count {
        ring.push(Operation::read(Arc::clone(&reader), 0, 10, pool.take().unwrap())).unwrap();
    }
    ring.submit().unwrap();
    assert!(ring.reap().is_empty());
    drop(writer);
    let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    while ring.in_flight() > 0 {
        let mut found = Vec::with_capacity(1);
        epoll::wait(&watch, rustix::buffer::spare_capacity(&mut found), Some(&limit)).unwrap();
        assert!(!found.is_empty(), "{} are not told of", ring.in_flight());
        ring.reap();
    }
}

#[test]
fn full_ring_returns_the_operations() {
    let options = RingOptions { entries: 2, in_flight: 4, mode: Mode::Deferred };
    let Some(mut ring) = ring(&options) else { return };
    let room = ring.room();
    for _ in 0..room {
        ring.push(Operation::nothing()).unwrap();
    }
    let RingFull(back) = ring.push(Operation::nothing()).unwrap_err();
    assert_eq!((back.len(), ring.room()), (1, 0));
    let mut done = 0;
    while done < room {
        done += completions(&mut ring).len();
    }
    // Longer than the submission queue: can never be one chain.
    let chain = (0..3).map(|_| Operation::nothing()).collect();
    assert_eq!(ring.push_linked(chain).unwrap_err().0.len(), 3);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn memory_in_flight_survives_its_ring() {
    let Some(mut ring) = default_ring() else { return };
    let pool = BufferPool::new(4096, 2).unwrap();
    ring.register_buffers(&pool).unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let (reader, held) = (Arc::new(reader), pool.take().unwrap());
    ring.push(Operation::read(Arc::clone(&reader), 0, 10, held)).unwrap();
    // The peer never reads, so the notification cannot come; its socket is not kept open for it.
    let (sender, receiver) = tcp();
    let big = Memory::Bytes(content(16 << 20).into());
    ring.push(Operation::send(Arc::clone(&sender), big).zero_copy()).unwrap();
    ring.submit().unwrap();
    drop(ring);
    assert_eq!((Arc::strong_count(&reader), Arc::strong_count(&sender)), (1, 1));
    drop((writer, receiver));
    assert!(pool.take().is_some(), "what was never lent");
}

#[test]
fn dropped_ring_waits_for_memory_in_flight() {
    // Here a thread of the kernel cancels the operation. One that is late has the memory leaked,
    // but not that of every ring.
    let options = RingOptions { mode: Mode::Polled { idle_ms: 1 }, ..RingOptions::default() };
    let came_back = (0..10).any(|_| {
        let Some(mut ring) = ring(&options) else { return true };
        let (reader, _writer) = io::pipe().unwrap();
        let pool = BufferPool::new(4096, 1).unwrap();
        ring.push(Operation::read(Arc::new(reader), 0, 10, pool.take().unwrap())).unwrap();
        ring.submit().unwrap();
        drop(ring);
        pool.take().is_some()
    });
    assert!(came_back);
}

/// A connection whose sender takes a megabyte that its receiver has no room for, so that the kernel
/// keeps referring to it.
fn stuffed() -> (Arc<TcpStream>, TcpStream) {
    use rustix::net::sockopt;
    let (sender, receiver) = tcp();
    sockopt::set_socket_send_buffer_size(&*sender, 8 << 20).unwrap();
    sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
    (sender, receiver)
}

/// Waits until `key` is released; what else was meanwhile.
fn released(ring: &mut Ring, key: Key) -> Vec<Key> {
    let mut others = Vec::new();
    loop {
        for completion in completions(ring) {
            match completion.event {
                Event::Released { memory, .. } if completion.key == key => {
                    assert!(!memory.is_empty());
                    return others;
                }
                Event::Released { .. } => others.push(completion.key),
                Event::Sent { result } => drop(result.unwrap()),
                Event::Done { .. } => panic!("{completion:?}"),
            }
        }
    }
}

#[test]
fn parked_memory_returns_unordered_and_on_reset() {
    let Some(mut ring) = default_ring() else { return };
    let bytes = Bytes::from(content(1 << 20));
    let send = |ring: &mut Ring, to: &Arc<TcpStream>, len: usize| {
        let memory = Memory::Bytes(bytes.slice(..len));
        ring.push(Operation::send(Arc::clone(to), memory).zero_copy()).unwrap()
    };
    let (slow, mut reads_later) = stuffed();
    let (lost, resets) = stuffed();
    let (quick, _reads_at_once) = tcp();
    let first = send(&mut ring, &slow, 1 << 20);
    let second = send(&mut ring, &lost, 1 << 20);
    let third = send(&mut ring, &quick, 4096);
    assert_eq!(released(&mut ring, third), [], "the last is the first");
    // Both sockets have taken all bytes, and the kernel still refers to the unsent ones.
    rustix::net::sockopt::set_socket_linger(&resets, Some(Duration::ZERO)).unwrap();
    drop(resets);
    assert_eq!(released(&mut ring, second), [], "a reset between the two completions");
    let mut arrived = vec![0; 1 << 20];
    reads_later.read_exact(&mut arrived).unwrap();
    assert!(arrived == bytes);
    assert_eq!(released(&mut ring, first), []);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_send_that_is_refused_is_released_too() {
    let Some(mut ring) = default_ring() else { return };
    // No socket. The first completion has the error and says that another follows.
    let send = Operation::send(file_of(b"no socket"), Memory::Bytes(b"x"[..].into())).zero_copy();
    let key = ring.push(send).unwrap();
    let mut events = Vec::new();
    while ring.in_flight() > 0 {
        events.extend(completions(&mut ring));
    }
    assert!(events.iter().all(|completion| completion.key == key));
    match events.remove(0).event {
        Event::Sent { result } => {
            assert!(result.is_err());
            assert!(matches!(events[..], [Completion { event: Event::Released { .. }, .. }]), "{events:?}");
        }
        Event::Done { result, .. } => assert!(result.is_err() && events.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_parked_send_does_not_keep_its_socket() {
    let Some(mut ring) = default_ring() else { return };
    let (sender, mut receiver) = tcp();
    let memory = Memory::Bytes(Bytes::from_static(b"last words"));
    ring.push(Operation::send(Arc::clone(&sender), memory).zero_copy()).unwrap();
    let first = completions(&mut ring).remove(0);
    assert!(matches!(first.event, Event::Sent { result: Ok(10) }), "{first:?}");
    assert_eq!(Arc::strong_count(&sender), 1);
    drop(sender);
    let mut arrived = String::new();
    receiver.read_to_string(&mut arrived).unwrap();
    assert_eq!(arrived, "last words");
}

#[test]
fn ring_slot_is_freed_when_unreferenced() {
    let Some(mut ring) = default_ring() else { return };
    ring.register_files(1).unwrap();
    let (one, other) = (file_of(b"one"), file_of(b"other"));
    let pool = BufferPool::new(4096, 2).unwrap();
    let slot = ring.attach(&one).unwrap();
    assert_eq!(ring.attach(&other).unwrap_err().kind(), ErrorKind::StorageFull);
    // The operation names it, so it still means the first file.
    ring.push(Operation::read(&slot, 0, 10, pool.take().unwrap())).unwrap();
    drop(slot);
    assert!(ring.attach(&other).is_err());
    let event = completions(&mut ring).remove(0).event;
    let Event::Done { memory: Memory::Buffer(buffer), .. } = event else { panic!("{event:?}") };
    assert_eq!(buffer.filled(), b"one");
    let slot = ring.attach(&other).unwrap();
    let (_, memory) = run(&mut ring, Operation::read(&slot, 0, 10, pool.take().unwrap()));
    assert_eq!(memory.len(), 5);
}

#[test]
fn a_slot_of_another_ring_is_refused() {
    let (Some(mut ring), Some(mut other)) = (default_ring(), default_ring()) else { return };
    ring.register_files(1).unwrap();
    other.register_files(1).unwrap();
    let _own = ring.attach(file_of(b"own")).unwrap();
    let slot = other.attach(file_of(b"other")).unwrap();
    let buffer = BufferPool::new(4096, 1).unwrap().take().unwrap();
    let push = || ring.push(Operation::read(&slot, 0, 5, buffer));
    assert!(catch_unwind(AssertUnwindSafe(push)).is_err(), "the same place has another file there");
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn ring_refuses_bytes_outside_a_shared_buffer() {
    let Some(mut ring) = default_ring() else { return };
    let pool = BufferPool::new(4096, 1).unwrap();
    let Memory::Buffer(buffer) = buffer_of(&pool, b"ten bytes.") else { panic!("another memory") };
    let buffer = Arc::new(buffer);
    let (sender, mut receiver) = UnixStream::pair().unwrap();
    let sender = Arc::new(sender);
    let send = |range| Operation::send(Arc::clone(&sender), Memory::Shared(Arc::clone(&buffer), range));
    #[expect(clippy::reversed_empty_ranges, reason = "a range that a caller has computed wrongly")]
    let outside = [0..11, 10..11, 11..11, 4..3];
    for range in outside {
        let operations = vec![send(0..10), send(range.clone())];
        let push = || ring.push_linked(operations);
        assert!(catch_unwind(AssertUnwindSafe(push)).is_err(), "{range:?}");
        assert_eq!(ring.in_flight(), 0, "the operation before it is not queued");
    }
    assert_eq!(run(&mut ring, send(4..10)).0.unwrap(), 6);
    drop((sender, ring));
    let mut arrived = String::new();
    receiver.read_to_string(&mut arrived).unwrap();
    assert_eq!(arrived, "bytes.");
}

/// Ten thousand zero-copy sends on connections that are reset at random: every payload comes back
/// once, every prefix is right.
#[test]
fn ten_thousand_sends_under_random_resets() {
    const SENDS: u32 = 10_000;
    let Some(mut ring) = ring(&RingOptions { entries: 64, in_flight: 256, mode: Mode::Deferred }) else {
        return;
    };
    let mut seed = 0x2545_f491_u32;
    let mut random = move |below: u32| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed % below
    };
    let content = Bytes::from(content(64 << 10));
    let mut connections: VecDeque<(Arc<TcpStream>, TcpStream)> = VecDeque::new();
    let (mut started, mut results, mut back) = (0, 0, 0);
    let mut under_way: BTreeMap<Key, usize> = BTreeMap::new();
    while back < SENDS {
        while connections.len() < 8 {
            connections.push_back(tcp());
        }
        while started < SENDS && ring.room() > 0 {
            let (sender, _) = &connections[random(8) as usize];
            let memory = Memory::Bytes(content.slice(..1 + random(16 << 10) as usize));
            let len = memory.len();
            let key = ring.push(Operation::send(Arc::clone(sender), memory).zero_copy()).unwrap();
            assert_eq!(under_way.insert(key, len), None, "a key is used twice at a time");
            started += 1;
        }
        let at = random(8) as usize;
        if random(3) == 0 {
            // Closed with unread bytes: a reset.
            connections.remove(at);
        } else {
            let (_, receiver) = &mut connections[at];
            receiver.set_nonblocking(true).unwrap();
            while matches!(receiver.read(&mut [0; 4096]), Ok(count) if count > 0) {}
        }
        ring.submit_and_wait(1, Some(Duration::from_millis(1))).unwrap();
        for Completion { key, event } in ring.reap() {
            match event {
                Event::Sent { .. } => results += 1,
                Event::Done { memory, .. } => {
                    results += 1;
                    back += 1;
                    assert_eq!(under_way.remove(&key), Some(memory.len()));
                }
                Event::Released { memory, .. } => {
                    back += 1;
                    assert_eq!(under_way.remove(&key), Some(memory.len()));
                }
            }
        }
    }
    assert_eq!((results, under_way.len(), ring.in_flight()), (SENDS, 0, 0));
}
