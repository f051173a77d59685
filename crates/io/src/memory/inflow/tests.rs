//! Tests of reading through a ring, into an outbox and out of a socket.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use super::*;
use crate::ring::RingOptions;
use crate::tests::{chilled, content, file_of};

const LEN: usize = 1_000_003;

/// Reads everything, `kept` loads at most in our hands at a time.
fn read(inflow: &mut Inflow, pool: &BufferPool, counters: &Counters) -> Result<Vec<u8>, TransferError> {
    let mut ring = Ring::new(&RingOptions::default()).unwrap();
    let mut bytes = Vec::new();
    while !inflow.is_done() {
        inflow.submit(&mut ring, pool);
        ring.submit_and_wait(1, Some(std::time::Duration::from_secs(20))).unwrap();
        for completion in ring.reap() {
            inflow.take_in(completion, counters)?;
        }
        while let Some(load) = inflow.next_piece() {
            let MemoryPiece::Buffer(buffer, range) = load else { panic!("another kind") };
            bytes.extend_from_slice(&buffer.filled()[range]);
        }
    }
    Ok(bytes)
}

fn no_ring() -> bool {
    if crate::tests::cramped("a test of reading through a ring") {
        return true;
    }
    let refusal = Ring::new(&RingOptions::default()).err();
    refusal.is_some_and(|error| {
        crate::tests::links::skipped("a test of reading through a ring", &error.to_string());
        true
    })
}

#[test]
fn every_access_delivers_ranges_in_order() {
    if no_ring() {
        return;
    }
    let content = content(LEN);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, &content).unwrap();
    let cached = Arc::new(File::open(&path).unwrap());
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
    let mut files =
        vec![(cached, Caching::Keep, 1), (Arc::new(File::open(&path).unwrap()), Caching::Drop, 1)];
    files.extend(direct.ok().map(|file| (Arc::new(file), Caching::Keep, 4096)));
    for (file, caching, alignment) in files {
        chilled(&file);
        for (buffer_bytes, buffers, depth) in [(8192, 1, 4), (64 << 10, 8, 4), (1 << 20, 3, 1)] {
            let pool = BufferPool::new(buffer_bytes, buffers).unwrap();
            let ranges = [(5, 70_000), (0, LEN as u64), (4096, 4096), (LEN as u64 - 1, 1), (9, 0)];
            let extents = ranges.map(|(offset, len)| Extent { file: Arc::clone(&file), offset, len });
            let access = InflowOptions { caching, alignment, depth };
            let counters = Counters::default();
            let arrived = read(&mut Inflow::new(extents, access), &pool, &counters).unwrap();
            let expected = [&content[5..70_005], &content[..], &content[4096..8192], &content[LEN - 1..]];
            assert!(arrived == expected.concat(), "{access:?} {buffer_bytes}");
            assert_eq!(counters.snapshot().bytes(Path::UringRead), arrived.len() as u64);
        }
    }
}

#[test]
fn inflow_from_short_file_is_error_at_end() {
    if no_ring() {
        return;
    }
    let file = file_of(&content(10_000));
    let pool = BufferPool::new(4096, 4).unwrap();
    let mut inflow = Inflow::new(
        [Extent { file, offset: 100, len: 20_000 }],
        InflowOptions { depth: 1, ..InflowOptions::default() },
    );
    match read(&mut inflow, &pool, &Counters::default()) {
        Err(TransferError::Source { offset, cause: SourceFault::Truncated, .. }) => {
            assert_eq!(offset, 10_000)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn inflow_waits_for_a_free_buffer() {
    if no_ring() {
        return;
    }
    let mut ring = Ring::new(&RingOptions::default()).unwrap();
    let pool = BufferPool::new(4096, 2).unwrap();
    let file = file_of(&content(20_000));
    let mut inflow = Inflow::new([Extent { file, offset: 0, len: 20_000 }], InflowOptions::default());
    assert_eq!(inflow.submit(&mut ring, &pool).len(), 2);
    assert!(inflow.submit(&mut ring, &pool).is_empty());
    ring.submit_and_wait(2, None).unwrap();
    for completion in ring.reap() {
        inflow.take_in(completion, &Counters::default()).unwrap();
    }
    let load = inflow.next_piece().unwrap();
    assert!(inflow.submit(&mut ring, &pool).is_empty(), "both are ours");
    drop(load);
    assert_eq!(inflow.submit(&mut ring, &pool).len(), 1);
}

#[test]
fn from_disk_to_socket_in_registered_buffers() {
    use crate::outbox::{Outbox, Outcome, Terms};

    if no_ring() {
        return;
    }
    let content = content(3 << 20);
    let file = file_of(&content);
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let reader = std::thread::spawn(move || {
        let mut arrived = Vec::new();
        receiver.read_to_end(&mut arrived).unwrap();
        arrived
    });
    let mut ring = Ring::new(&RingOptions::default()).unwrap();
    let pool = BufferPool::new(64 << 10, 8).unwrap();
    ring.register_buffers(&pool).unwrap();
    let counters = Counters::default();
    let mut inflow = Inflow::new([Extent { file, offset: 0, len: 3 << 20 }], InflowOptions::default());
    let mut outbox = Outbox::new(Arc::new(sender));
    let thresholds = crate::Thresholds::default();
    let (mut reads, mut released) = (Vec::new(), 0);
    while !inflow.is_done() || outbox.is_busy() || outbox.queued_bytes() > 0 {
        while let Some(load) = inflow.next_piece() {
            outbox.push(load);
        }
        reads.extend(inflow.submit(&mut ring, &pool));
        outbox.submit(&mut ring, Terms { budget: 1 << 20, may_refer: true, thresholds: &thresholds });
        ring.submit_and_wait(1, Some(std::time::Duration::from_secs(20))).unwrap();
        for completion in ring.reap() {
            if reads.contains(&completion.key) {
                reads.retain(|key| *key != completion.key);
                inflow.take_in(completion, &counters).unwrap();
            } else if let Outcome::Released { copied } = outbox.take_in(completion, &counters) {
                assert!(copied, "loopback copies");
                released += 1;
            }
        }
    }
    drop(outbox);
    assert!(reader.join().unwrap() == content);
    assert!(released > 0);
    assert_eq!(counters.snapshot().bytes(Path::UringSendZc), 3 << 20);
}
