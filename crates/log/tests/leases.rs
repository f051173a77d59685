//! Ranges on their way to a socket while their log loses them: the receiver gets the bytes of
//! before, all of them.
//!
//! `splice` and `sendfile` hand on references to pages, so what is changed in a file changes what
//! lies in sockets already. The last test does just that, to show that the others would notice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use levada_base::batch::{self, Builder};
use levada_io::{Caps, Counters, Engine, Path, Piece, Transfer, TransferError, Turn};
use levada_log::compact::{Cleaning, DirtySection, Job};
use levada_log::{Append, LogConfig, OpenOptions, Partition, Writer};

const NOW_MS: i64 = 1_000;

/// Twice what the sockets below can hold.
const BATCHES: u8 = 80;

struct Log {
    dir: tempfile::TempDir,
    writer: Writer,
}

impl Log {
    /// Four megabytes in several segments, the same few keys in each.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig { segment_bytes: 700_000, ..LogConfig::default() };
        let options = OpenOptions { config, ..OpenOptions::new(dir.path()) };
        let mut log = Self { writer: Writer::open(options, NOW_MS).unwrap().0, dir };
        (0..BATCHES).for_each(|seed| log.append(seed));
        assert!(log.writer.partition().segment_count() > 4);
        log
    }

    fn append(&mut self, seed: u8) {
        let mut builder = Builder::new();
        for record in 0..50 {
            builder.push(NOW_MS, Some(&[record % 7]), Some(&[seed.wrapping_mul(31) ^ record; 1_000]));
        }
        let mut group = [Append::client(builder.build().unwrap())];
        self.writer.append(&mut group, NOW_MS).pop().unwrap().unwrap();
    }

    /// The whole log as readers are given it, and its bytes.
    fn ranges(&self) -> (Vec<Piece>, Vec<u8>) {
        let partition = self.writer.partition();
        let (mut at, mut pieces, mut bytes) = (partition.log_start(), Vec::new(), Vec::new());
        while at < partition.log_end() {
            let extent = partition.read(at, u32::MAX, partition.log_end(), true).unwrap().extent.unwrap();
            let start = bytes.len();
            bytes.resize(start + usize::try_from(extent.len).unwrap(), 0);
            extent.file.read_exact_at(&mut bytes[start..], extent.offset).unwrap();
            let mut rest = &bytes[start..];
            while !rest.is_empty() {
                let view = batch::check_stored(rest).unwrap();
                at = view.last_offset() + 1;
                rest = &rest[view.size_bytes()..];
            }
            pieces.push(Piece::Extent(extent));
        }
        (pieces, bytes)
    }
}

/// A transfer that has stopped because its receiver does not read: its sockets are full of
/// references.
struct Sending {
    engine: Engine,
    transfer: Transfer,
    sender: TcpStream,
    receiver: TcpStream,
    whole: Vec<u8>,
}

impl Sending {
    fn begin(log: &Log, path: Path) -> Self {
        let (pieces, whole) = log.ranges();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&sender, 512 << 10).unwrap();
        let receiver = listener.accept().unwrap().0;
        let mut engine = Engine::new(&Caps::probe(), Arc::new(Counters::default()));
        engine.force(path.to_socket());
        let mut sending = Self { engine, transfer: Transfer::new(pieces), sender, receiver, whole };
        while sending.step().unwrap() != Turn::Blocked {}
        let (left, all) = (sending.transfer.remaining(), sending.whole.len() as u64);
        assert!(left > 0 && left < all, "{left} of {all}");
        sending
    }

    fn step(&mut self) -> Result<Turn, TransferError> {
        self.transfer.step(&mut self.engine, self.sender.as_fd(), 1 << 20)
    }

    /// Lets the receiver read, sends the rest, and closes; what arrived.
    fn end(mut self) -> (Vec<u8>, Vec<u8>) {
        let mut receiver = self.receiver.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            receiver.read_to_end(&mut arrived).unwrap();
            arrived
        });
        self.sender.set_nonblocking(false).unwrap();
        while let Ok(turn) = self.step() {
            if turn == Turn::Done {
                break;
            }
        }
        drop((self.transfer, self.sender));
        (reader.join().unwrap(), self.whole)
    }
}

fn check(loses: impl Fn(&mut Log)) {
    for path in [Path::Splice, Path::Sendfile, Path::MmapWrite, Path::ReadWrite] {
        let mut log = Log::new();
        let sending = Sending::begin(&log, path);
        loses(&mut log);
        let (arrived, whole) = sending.end();
        assert!(arrived == whole, "{path}: {} of {} bytes, or others", arrived.len(), whole.len());
    }
}

#[test]
fn leased_ranges_stay_readable_after_truncation() {
    for offset in [2_025, 25, 0] {
        check(|log| {
            let end = log.writer.truncate(offset, NOW_MS).unwrap();
            assert!(end <= offset);
            // Other records take the offsets, and would take the place in the file.
            (100..140).for_each(|seed| log.append(seed));
        });
    }
}

#[test]
fn leased_ranges_stay_readable_after_deletion() {
    check(|log| {
        let partition = log.writer.partition().clone();
        let gone = log.writer.advance_log_start(partition.log_end()).unwrap();
        assert!(gone.count() > 3);
        gone.remove().unwrap();
        (100..140).for_each(|seed| log.append(seed));
    });
    check(|log| {
        log.writer.set_config(LogConfig { retention_ms: 1, segment_bytes: 700_000, ..LogConfig::default() });
        let gone = log.writer.delete_old_segments(NOW_MS * 1_000).unwrap();
        gone.retire().unwrap().remove().unwrap();
        assert_eq!(log.writer.partition().size_bytes(), 0);
        (100..140).for_each(|seed| log.append(seed));
    });
    check(|log| std::fs::remove_dir_all(log.dir.path()).unwrap());
}

#[test]
fn leased_ranges_stay_readable_after_compaction() {
    check(|log| {
        let (partition, config) = (log.writer.partition().clone(), LogConfig::default());
        let dirt = DirtySection::of(&partition, &config, None, NOW_MS).unwrap();
        let job = Job { partition, config, dirt, memory_bytes: 1 << 20, load_factor: 0.9, now_ms: NOW_MS };
        let pace = |_| ControlFlow::Continue(());
        let mut cleaning = Cleaning::begin(job, &pace).unwrap();
        let before = log.writer.partition().size_bytes();
        while let Some(cleaned) = cleaning.next_segment(&log.writer.last_records(), &pace).unwrap() {
            log.writer.replace(cleaned).unwrap().unwrap().remove().unwrap();
        }
        assert!(log.writer.partition().size_bytes() < before / 2);
    });
}

/// A separate handle of the first segment's file, which the log does not use.
fn first_file(partition: &Partition) -> File {
    let path = partition.dir().join("00000000000000000000.log");
    File::options().write(true).open(path).unwrap()
}

/// Name of a change to a file, and the change.
type Mutation = (&'static str, fn(&File));

#[test]
fn lease_checker_detects_changed_bytes() {
    let mutations: [Mutation; 3] = [
        ("overwritten", |file| file.write_all_at(&[0xee; 600_000], 0).unwrap()),
        ("cut", |file| file.set_len(100_001).unwrap()),
        ("cut and grown again", |file| {
            let len = file.metadata().unwrap().len();
            file.set_len(3).unwrap();
            file.set_len(len).unwrap();
        }),
    ];
    for path in [Path::Splice, Path::Sendfile] {
        for (what, mutation) in mutations {
            let log = Log::new();
            let sending = Sending::begin(&log, path);
            mutation(&first_file(log.writer.partition()));
            let (arrived, whole) = sending.end();
            assert!(arrived != whole, "{path}: nobody noticed a file that was {what}");
        }
    }
}
