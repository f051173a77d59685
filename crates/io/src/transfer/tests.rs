//! Tests of transfers on real sockets.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use levada_testing::scaled;
use proptest::prelude::*;

use super::plan::MAPPED_BYTES;
use super::*;
use crate::counters::Fallback;
use crate::error::SourceFault;
use crate::probe::{Means, Support};
use crate::residency::{Residency, Warmer, WarmerLimits};
use crate::tests::*;
use crate::{Counters, Path, Thresholds};

const FILE_LEN: usize = 2 << 20;

/// One run: what is sent, how, and how the peer behaves.
#[derive(Debug, Clone)]
struct Case {
    /// Kind, offset, length.
    pieces: Vec<(u8, u64, u64)>,
    /// True if there is splice, and sendfile; on the engine that steps first, and on the one that
    /// takes turns with it.
    means: [(bool, bool); 2],
    /// True if the kernel copies pages for both.
    copies: bool,
    tcp: bool,
    thresholds: Thresholds,
    reports_cold: bool,
    budgets: Vec<u64>,
    reads: Vec<usize>,
    /// The peer disconnects after this number of bytes.
    lost_after: Option<usize>,
}

impl Case {
    fn pieces(&self, file: &Arc<File>, content: &[u8]) -> (Vec<Piece>, Vec<u8>) {
        let mut expected = Vec::new();
        let pieces = self.pieces.iter().map(|&(kind, offset, len)| {
            let range = &content[usize::try_from(offset).unwrap()..][..usize::try_from(len).unwrap()];
            expected.extend_from_slice(range);
            match kind {
                0 => Piece::Bytes(Bytes::copy_from_slice(range)),
                1 => Piece::Volatile(Extent { file: Arc::clone(file), offset, len }),
                _ => extent(file, offset, len),
            }
        });
        (pieces.collect(), expected)
    }

    fn run(&self) {
        static SHARED: LazyLock<(Vec<u8>, Arc<File>)> = LazyLock::new(|| {
            let content = content(FILE_LEN);
            let file = file_of(&content);
            (content, file)
        });
        let (content, file) = &*SHARED;
        let (pieces, expected) = self.pieces(file, content);
        let counters = Arc::new(Counters::default());
        let mut engines = self.means.map(|(splice, sendfile)| {
            let caps = if self.copies { copying(splice, sendfile) } else { caps(splice, sendfile) };
            let mut engine = Engine::with_thresholds(&caps, Arc::clone(&counters), self.thresholds);
            engine.report_cold(self.reports_cold);
            engine
        });
        if self.reports_cold {
            chilled(file);
        }
        let (sender, receiver) = sockets(self.tcp, true);
        let mut transfer = Transfer::new(pieces);
        assert_eq!(transfer.remaining(), expected.len() as u64);
        let arrived = self.drive(&mut engines, &mut transfer, sender, receiver);
        let taken = expected.len() as u64 - transfer.remaining();
        let counted = counters.snapshot();
        assert_eq!(Path::ALL.map(|path| counted.bytes(path)).iter().sum::<u64>(), taken);
        let copied = counted.bytes(Path::Send) + counted.bytes(Path::ReadWrite);
        assert!(counted.copied() >= copied + counted.bytes(Path::ReadWrite));
        assert!(expected.starts_with(&arrived), "what arrived is not a prefix");
        if self.lost_after.is_none() {
            assert_eq!((arrived.len(), transfer.remaining()), (expected.len(), 0));
        }
    }

    /// Steps and reads in turns; what arrived.
    fn drive(
        &self,
        engines: &mut [Engine; 2],
        transfer: &mut Transfer,
        sender: OwnedFd,
        receiver: File,
    ) -> Vec<u8> {
        let mut arrived = Vec::new();
        let mut reads = self.reads.iter().copied().cycle();
        let mut receiver = Some(receiver);
        for budget in self.budgets.iter().copied().cycle() {
            engines.swap(0, 1);
            let engine = &mut engines[0];
            let before = transfer.remaining();
            let turn = transfer.step(engine, sender.as_fd(), budget);
            assert!(before - transfer.remaining() < budget + engine.page_bytes, "the budget was overdrawn");
            match turn {
                Ok(Turn::Done) => break,
                Ok(Turn::Cold) => assert!(self.reports_cold && transfer.cold(0).is_some()),
                Ok(Turn::Yield) => assert!(before - transfer.remaining() >= budget, "it gave up early"),
                Ok(Turn::Blocked) => match &mut receiver {
                    Some(receiver) => {
                        wait(sender.as_fd(), receiver.as_fd());
                        read_some(receiver, reads.next().unwrap(), &mut arrived);
                    }
                    // Closed with nothing unread: the reset comes with the answer to what is sent
                    // next.
                    None => wait_for(sender.as_fd(), rustix::event::PollFlags::OUT),
                },
                Err(TransferError::Peer { remaining, .. }) => {
                    assert!(receiver.is_none(), "the peer is still there");
                    assert_eq!(remaining, transfer.remaining());
                    break;
                }
                Err(other) => panic!("{other}"),
            }
            if self.lost_after.is_some_and(|after| arrived.len() >= after) {
                receiver = None;
            }
        }
        drop(sender);
        if let Some(mut receiver) = receiver {
            read_to_end(&mut receiver, &mut arrived);
        }
        arrived
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![0_u64..200, 0_u64..40_000, 30_000_u64..400_000];
    let piece = (0_u8..5, 0..(FILE_LEN as u64 - 400_000), sizes);
    let thresholds = (
        prop::sample::select(vec![0_u64, 100, 32 << 10]),
        prop::sample::select(vec![1_000_usize, 4096, 128 << 10]),
        prop::sample::select(vec![4096_usize, 64 << 10, 1 << 20]),
        0_usize..3,
    );
    let thresholds = thresholds.prop_map(|(small_extent_bytes, copy_bytes, pipe_bytes, pipes)| Thresholds {
        small_extent_bytes,
        copy_bytes,
        pipe_bytes,
        pipe_floor_bytes: 0,
        pipes,
        cold_window_bytes: copy_bytes as u64,
        ..Thresholds::default()
    });
    let budget = prop_oneof![1_u64..300, 1_000_u64..100_000, Just(1 << 20)];
    let read = prop_oneof![1_usize..3_000, 3_000_usize..200_000];
    (
        prop::collection::vec(piece, 0..12),
        any::<[(bool, bool); 2]>(),
        any::<(bool, bool, bool)>(),
        thresholds,
        prop::collection::vec(budget, 1..6),
        prop::collection::vec(read, 1..6),
        prop::option::weighted(0.3, 0_usize..600_000),
    )
        .prop_map(
            |(pieces, means, (tcp, reports_cold, copies), thresholds, mut budgets, mut reads, lost_after)| {
                // At least one value in each round must be large enough to end within the test's
                // patience.
                budgets.push(200_000);
                reads.push(100_000);
                Case { pieces, means, copies, tcp, thresholds, reports_cold, budgets, reads, lost_after }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(120)))]

    #[test]
    fn transfer_sends_each_byte_once_in_order(case in cases()) {
        case.run();
    }
}

/// Sends `pieces` by the given means; what arrived, and the counters.
fn sent(means: (bool, bool), pieces: Vec<Piece>) -> (Vec<u8>, crate::Snapshot) {
    let mut engine = engine(&caps(means.0, means.1), Thresholds::default());
    let (arrived, outcome) = deliver(&mut engine, Transfer::new(pieces), sockets(true, false));
    outcome.unwrap();
    (arrived, engine.counters().snapshot())
}

/// Capabilities of a kernel that copies pages for `splice` and `sendfile`, as far as it has them.
fn copying(splice: bool, sendfile: bool) -> crate::Caps {
    let mut caps = caps(splice, sendfile);
    caps.page_references = Support::Absent { why: "assumed".to_owned(), remedy: "none" };
    caps
}

#[test]
fn pages_copied_by_kernel_are_counted_separately() {
    const LEN: u64 = MAPPED_BYTES - 1;
    let content = content(FILE_LEN);
    let file = file_of(&content);
    for (splice, path) in [(true, Path::SpliceCopy), (false, Path::SendfileCopy)] {
        let caps = copying(splice, true);
        if !path.works(&caps) {
            continue;
        }
        let mut engine = engine(&caps, Thresholds::default());
        let transfer = Transfer::new([extent(&file, 0, LEN)]);
        let (arrived, outcome) = deliver(&mut engine, transfer, sockets(true, false));
        outcome.unwrap();
        assert!(content.starts_with(&arrived) && arrived.len() as u64 == LEN, "{path}: other bytes arrived");
        let counted = engine.counters().snapshot();
        assert_eq!((counted.bytes(path), counted.copied_by_kernel()), (LEN, LEN));
        assert_eq!(counted.bytes(Path::Splice) + counted.bytes(Path::Sendfile), 0, "no zero copy is claimed");
    }
}

#[test]
fn a_copying_kernel_gets_large_ranges_mapped() {
    let content = content(FILE_LEN);
    let mut engine = engine(&copying(true, true), Thresholds::default());
    let transfer = Transfer::new([extent(&file_of(&content), 0, FILE_LEN as u64)]);
    let (arrived, outcome) = deliver(&mut engine, transfer, sockets(true, false));
    outcome.unwrap();
    assert!(arrived == content, "the bytes are those of the file");
    let counted = engine.counters().snapshot();
    assert_eq!((counted.bytes(Path::MmapWrite), counted.copied()), (FILE_LEN as u64, FILE_LEN as u64));
    assert_eq!(counted.copied_by_kernel(), 0, "each byte was copied once, by a call of ours");
}

#[test]
fn a_file_without_mappings_takes_the_next_path() {
    // A file of sysfs claims a whole page, can be read, and cannot be mapped.
    let Ok(file) = File::open("/sys/kernel/mm/transparent_hugepage/enabled") else {
        crate::tests::links::skipped("a_file_without_mappings_takes_the_next_path", "sysfs has no such file");
        return;
    };
    let mut engine = engine(&copying(true, true), Thresholds::default());
    engine.force(Some(SocketPath::MmapWrite));
    let transfer = Transfer::new([extent(&Arc::new(file), 0, 10)]);
    let (arrived, outcome) = deliver(&mut engine, transfer, sockets(true, false));
    outcome.unwrap();
    assert_eq!(arrived.len(), 10);
    assert_eq!(engine.counters().snapshot().fallbacks(Fallback::MappingRefused), 1);
}

#[test]
fn counters_name_the_path_that_carried_each_byte() {
    if crate::tests::lacks(crate::Path::Splice, "counters_name_the_path_that_carried_each_byte") {
        return;
    }
    let content = content(FILE_LEN);
    let file = file_of(&content);
    let rows = [
        ((true, true), Path::Splice, 6),
        ((false, true), Path::Sendfile, 6),
        ((false, false), Path::ReadWrite, 6 + (2 << 20)),
    ];
    for (means, path, copied) in rows {
        let head = Piece::Bytes(Bytes::from_static(b"header"));
        let (arrived, counted) = sent(means, vec![head, extent(&file, 3, 1 << 20)]);
        assert!(arrived[6..] == content[3..3 + (1 << 20)], "{path}");
        assert_eq!((counted.bytes(path), counted.bytes(Path::Send)), (1 << 20, 6), "{path}");
        assert!(counted.copied() >= copied, "{path}");
        if path != Path::ReadWrite {
            assert_eq!((counted.copied(), counted.bytes(Path::ReadWrite)), (copied, 0), "{path}");
            assert!(counted.calls(path) > 0, "{path}");
        }
        assert!(Fallback::ALL.iter().all(|cause| counted.fallbacks(*cause) == 0), "{path}");
    }
}

#[test]
fn turns_end_where_pages_do() {
    let content = content(FILE_LEN);
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let (sender, mut receiver) = sockets(true, false);
    let pieces =
        [Piece::Bytes(Bytes::from_static(b"header")), extent(&file_of(&content), 0, FILE_LEN as u64)];
    let mut transfer = Transfer::new(pieces);
    let mut arrived = Vec::new();
    let mut left = Vec::new();
    while transfer.step(&mut engine, sender.as_fd(), 128 << 10).unwrap() != Turn::Done {
        left.push(transfer.remaining());
        read_some(&mut receiver, 1 << 20, &mut arrived);
    }
    assert!(left.iter().all(|left| left % engine.page_bytes == 0), "{left:?}");
    drop(sender);
    read_to_end(&mut receiver, &mut arrived);
    assert!(arrived[6..] == content);
}

#[test]
fn a_run_of_small_pieces_takes_one_send() {
    let content = content(FILE_LEN);
    let file = file_of(&content);
    let mut pieces = Vec::new();
    let mut expected = Vec::new();
    for at in 0..20 {
        pieces.push(Piece::Bytes(Bytes::from(vec![at; 30])));
        expected.extend([at; 30]);
        pieces.push(extent(&file, u64::from(at) * 1_000, 1_000));
        expected.extend_from_slice(&content[usize::from(at) * 1_000..][..1_000]);
    }
    let (arrived, counted) = sent((true, true), pieces);
    assert!(arrived == expected);
    // Twenty reads, one send.
    assert_eq!(counted.calls(Path::ReadWrite), 21);
    assert_eq!((counted.bytes(Path::Send), counted.bytes(Path::ReadWrite)), (600, 20_000));
}

#[test]
fn refused_path_affects_only_one_piece() {
    if crate::tests::lacks(crate::Path::Splice, "refused_path_affects_only_one_piece") {
        return;
    }
    let content = content(FILE_LEN);
    let (pages, none) = (file_of(&content), Arc::new(File::open("/proc/self/maps").unwrap()));
    let mut engine = engine(&caps(true, true), Thresholds { small_extent_bytes: 0, ..Thresholds::default() });
    let transfer = Transfer::new([extent(&none, 0, 100), extent(&pages, 0, 1 << 20)]);
    let (arrived, outcome) = deliver(&mut engine, transfer, sockets(true, false));
    outcome.unwrap();
    assert!(arrived[100..] == content[..1 << 20]);
    let counted = engine.counters().snapshot();
    assert_eq!((counted.bytes(Path::ReadWrite), counted.bytes(Path::Splice)), (100, 1 << 20));
    assert_eq!(counted.fallbacks(Fallback::SpliceRefused), 1);
}

#[test]
fn transfer_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Transfer>();
    is_send::<Engine>();
}

#[test]
fn header_is_sent_together_with_its_range() {
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let (sender, mut receiver) = sockets(true, false);
    let header = || Piece::Bytes(Bytes::from_static(b"header"));
    let mut arrived = Vec::new();

    let mut alone = Transfer::new([header()]);
    assert_eq!(alone.step(&mut engine, sender.as_fd(), 1 << 20).unwrap(), Turn::Done);
    wait_readable(receiver.as_fd());
    read_some(&mut receiver, 100, &mut arrived);
    assert_eq!(arrived, b"header");

    // The range cannot be read, so the header stays in the socket until it closes or the kernel's
    // 200 ms are over.
    let mut cut = Transfer::new([header(), extent(&file_of(b"short"), 5, 1 << 20)]);
    assert!(cut.step(&mut engine, sender.as_fd(), 1 << 20).is_err());
    read_some(&mut receiver, 100, &mut arrived);
    assert_eq!(arrived.len(), 6, "the header went out alone");
    drop(sender);
    read_to_end(&mut receiver, &mut arrived);
    assert_eq!(arrived, b"headerheader");
}

#[test]
fn range_is_sent_together_with_bytes_after_it() {
    // The kernel holds back at most half a window.
    let content = content(20_000);
    let file = file_of(&content);
    for (bytes, held) in [(&b"after it"[..], true), (b"", false)] {
        let mut engine = engine(&caps(true, true), Thresholds::default());
        engine.report_cold(true);
        let (sender, mut receiver) = sockets(true, false);
        // The last range cannot be sent, so the bytes before it stay in the socket. A range that
        // precedes another range does not wait for it: its pages may be missing.
        let cut = extent(&file_of(b"short"), 5, 1 << 20);
        let range = extent(&file, 0, content.len() as u64);
        let mut transfer = Transfer::new([range, Piece::Bytes(Bytes::from_static(bytes)), cut]);
        let turn = transfer.step(&mut engine, sender.as_fd(), 1 << 20);
        assert!(matches!(turn, Ok(Turn::Cold) | Err(_)), "{turn:?}");
        if !held {
            wait_readable(receiver.as_fd());
        }
        let arrived = rustix::io::ioctl_fionread(&receiver).unwrap();
        assert_eq!(arrived, if held { 0 } else { 20_000 }, "before {} bytes", bytes.len());
        drop(sender);
        let mut all = Vec::new();
        read_to_end(&mut receiver, &mut all);
        assert!(all == [&content[..], bytes].concat(), "the bytes are those of the pieces");
    }
}

#[test]
fn transfer_step_after_blocking_keeps_to_budget() {
    let content = content(FILE_LEN);
    let thresholds = Thresholds {
        small_extent_bytes: 0,
        copy_bytes: 1000,
        cold_window_bytes: 1000,
        ..Thresholds::default()
    };
    let mut engine = engine(&caps(false, true), thresholds);
    engine.report_cold(true);
    let (sender, mut receiver) = sockets(false, false);
    let mut transfer = Transfer::new([extent(&file_of(&content), 0, content.len() as u64)]);
    let mut arrived = Vec::new();
    while transfer.remaining() > 500_000 {
        while transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() != Turn::Blocked {}
        read_some(&mut receiver, FILE_LEN, &mut arrived);
        let before = transfer.remaining();
        let turn = transfer.step(&mut engine, sender.as_fd(), 1001).unwrap();
        let sent = before - transfer.remaining();
        assert!(sent < 1001 + engine.page_bytes, "{sent} bytes in a turn of 1001: {turn:?}");
    }
}

#[test]
fn last_bytes_are_held_until_connection_end() {
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let (sender, mut receiver) = sockets(true, false);
    let mut arrived = Vec::new();
    let mut last = Transfer::new([Piece::Bytes(Bytes::from_static(b"last"))]);
    last.expect_more(true);
    assert_eq!(last.step(&mut engine, sender.as_fd(), 1 << 20).unwrap(), Turn::Done);
    let unsent = rustix::io::ioctl_fionread(&receiver).unwrap();
    assert_eq!(unsent, 0, "the bytes went out before the connection ended");
    drop(sender);
    read_to_end(&mut receiver, &mut arrived);
    assert_eq!(arrived, b"last");
}

#[test]
fn turns_by_sendfile_end_with_no_incomplete_segment() {
    let content = content(64 << 10);
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.force(Some(SocketPath::Sendfile));
    let (sender, mut receiver) = sockets(true, false);
    let mut transfer = Transfer::new([extent(&file_of(&content), 0, content.len() as u64)]);
    assert_eq!(transfer.step(&mut engine, sender.as_fd(), 16 << 10).unwrap(), Turn::Yield);
    let arrived = rustix::io::ioctl_fionread(&receiver).unwrap();
    assert_eq!(arrived, 0, "a segment of 64 KiB went out with 16 KiB");
    while transfer.step(&mut engine, sender.as_fd(), 16 << 10).unwrap() != Turn::Done {}
    assert!(!rustix::net::sockopt::tcp_cork(&sender).unwrap(), "the end is held back");
    drop(sender);
    let mut arrived = Vec::new();
    read_to_end(&mut receiver, &mut arrived);
    assert!(arrived == content, "the bytes are those of the file");
}

#[test]
fn engine_prefers_sendfile_if_available() {
    let content = content(FILE_LEN);
    for has_sendfile in [true, false] {
        let caps = caps(true, has_sendfile);
        let mut engine = engine(&caps, Thresholds::default());
        let means = Means::from(&caps);
        let path = match means.page_references {
            true if has_sendfile => Path::Sendfile,
            true => Path::Splice,
            false => Path::MmapWrite,
        };
        engine.prefer_sendfile();
        let (sender, receiver) = sockets(true, false);
        let reader = std::thread::spawn(move || {
            let (mut receiver, mut arrived) = (receiver, Vec::new());
            read_to_end(&mut receiver, &mut arrived);
            arrived
        });
        let mut transfer = Transfer::new([extent(&file_of(&content), 0, content.len() as u64)]);
        while transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() != Turn::Done {}
        drop(sender);
        assert!(reader.join().unwrap() == content, "the bytes are those of the file");
        assert_eq!(engine.counters().snapshot().bytes(path), content.len() as u64);
    }
}

#[test]
fn empty_transfer_completes_immediately() {
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let (sender, _receiver) = sockets(false, false);
    let mut transfer = Transfer::new([Piece::Bytes(Bytes::new()), extent(&file_of(b"x"), 0, 0)]);
    assert_eq!(transfer.step(&mut engine, sender.as_fd(), 0).unwrap(), Turn::Done);
    let mut transfer = Transfer::new([Piece::Bytes(Bytes::from_static(b"x"))]);
    assert_eq!(transfer.step(&mut engine, sender.as_fd(), 0).unwrap(), Turn::Yield);
}

#[test]
fn transfer_of_truncated_file_fails_at_the_cut() {
    const CUT: u64 = 700_001;
    for means in [caps(true, true), caps(false, true), caps(false, false), copying(true, true)] {
        let content = content(FILE_LEN);
        let file = file_of(&content);
        let mut engine = engine(&means, Thresholds::default());
        let (sender, mut receiver) = sockets(true, false);
        let mut transfer = Transfer::new([extent(&file, 1, 1 << 20)]);
        assert_eq!(transfer.step(&mut engine, sender.as_fd(), 10_000).unwrap(), Turn::Yield);
        file.set_len(CUT).unwrap();
        let mut arrived = Vec::new();
        let error = loop {
            match transfer.step(&mut engine, sender.as_fd(), 10_000) {
                Ok(Turn::Done) => panic!("{means:?}: a short response passed for a whole one"),
                Ok(_) => drop(read_some(&mut receiver, 1 << 20, &mut arrived)),
                Err(error) => break error,
            }
        };
        let TransferError::Source { path, offset, missing, cause: SourceFault::Truncated } = error else {
            panic!("{means:?}: {error}");
        };
        assert!(path.is_absolute(), "{}", path.display());
        assert_eq!((offset, missing), (CUT, (1 << 20) + 1 - CUT), "{means:?}");
        drop((transfer, sender));
        read_to_end(&mut receiver, &mut arrived);
        assert!(content[1..].starts_with(&arrived), "{means:?}");
    }
}

#[test]
fn small_extent_beyond_file_end_is_an_error() {
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let transfer = Transfer::new([extent(&file_of(&[7; 100]), 60, 41)]);
    let (arrived, outcome) = deliver(&mut engine, transfer, sockets(false, false));
    assert!(arrived.is_empty());
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("at offset 100, 1 bytes before the end"), "{text}");
}

#[test]
fn offsets_beyond_any_file_are_errors() {
    for len in [10, 1 << 20, u64::MAX] {
        let mut engine = engine(&caps(true, true), Thresholds::default());
        let transfer = Transfer::new([extent(&file_of(b"x"), u64::MAX - 5, len)]);
        let (_, outcome) = deliver(&mut engine, transfer, sockets(false, false));
        assert!(matches!(outcome, Err(TransferError::Source { .. })), "{outcome:?}");
    }
}

#[test]
fn unspliceable_ranges_are_copied() {
    // procfs has no pages to share.
    let file = Arc::new(File::open("/proc/self/maps").unwrap());
    let mut engine = engine(&caps(true, true), Thresholds { small_extent_bytes: 0, ..Thresholds::default() });
    let (arrived, outcome) =
        deliver(&mut engine, Transfer::new([extent(&file, 0, 200)]), sockets(false, false));
    outcome.unwrap();
    assert_eq!(arrived.len(), 200);
    let counted = engine.counters().snapshot();
    assert_eq!(counted.bytes(Path::ReadWrite), 200);
}

#[test]
fn cold_pages_are_counted_and_waited_for() {
    if crate::tests::blind("cold_pages_are_counted_and_waited_for") {
        return;
    }
    let content = content(10_000);
    // Reading without waiting starts read-ahead. If the disk is there before the kernel looks
    // again, there was nothing to wait for and nothing to count; then another file shows it.
    let waited = (0..100).any(|_| {
        let file = file_of(&content);
        let cold = chilled(&file);
        let (arrived, counted) = sent((true, true), vec![extent(&file, 0, 10_000)]);
        assert!(arrived == content);
        let count = counted.fallbacks(Fallback::ColdRead);
        assert!(count <= u64::from(cold));
        count == 1 || !cold
    });
    assert!(waited, "none of 100 cold ranges was counted");
}

/// Steps to the end and has cold ranges brought in; which they were, what arrived, and the
/// counters.
fn warmed(pieces: Vec<Piece>) -> (Vec<Extent>, Vec<u8>, crate::Snapshot) {
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.report_cold(true);
    let warmer = Warmer::new(WarmerLimits::default(), Arc::clone(engine.counters()));
    let (sender, mut receiver) = sockets(true, false);
    let mut transfer = Transfer::new(pieces);
    let (mut reported, mut arrived) = (Vec::new(), Vec::new());
    loop {
        match transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() {
            Turn::Done => break,
            Turn::Yield => {}
            Turn::Blocked => {
                wait(sender.as_fd(), receiver.as_fd());
                read_some(&mut receiver, 1 << 20, &mut arrived);
            }
            Turn::Cold => {
                let warm = transfer.cold(0).unwrap();
                reported.push(warm.extent.clone());
                let (there, wait) = std::sync::mpsc::channel();
                warmer.submit(warm, move |_| there.send(()).unwrap()).unwrap();
                wait.recv().unwrap();
            }
        }
    }
    drop(sender);
    read_to_end(&mut receiver, &mut arrived);
    (reported, arrived, engine.counters().snapshot())
}

#[test]
fn cold_pages_are_reported_and_not_waited_for() {
    if crate::tests::lacks(crate::Path::Splice, "cold_pages_are_reported_and_not_waited_for") {
        return;
    }
    let content = content(FILE_LEN);
    let file = file_of(&content);
    if !chilled(&file) {
        return;
    }
    let head = || Piece::Bytes(Bytes::from_static(b"header"));
    let (reported, arrived, counted) = warmed(vec![head(), extent(&file, 0, FILE_LEN as u64)]);
    assert!(arrived[6..] == content);
    assert!(!reported.is_empty());
    assert!(reported.iter().all(|extent| extent.len <= 1 << 20), "{reported:?}");
    assert_eq!((counted.bytes(Path::Splice), counted.fallbacks(Fallback::ColdRead)), (2 << 20, 0));
    assert!(counted.warmed() > 0);

    // Small ranges as well, and nothing once they are there. Another file: sockets may still refer
    // to pages of the first.
    let file = file_of(&content);
    if !chilled(&file) {
        return;
    }
    let small = || vec![head(), extent(&file, 5, 9_000), head(), extent(&file, 1 << 20, 9_000)];
    let (_, _, counted) = warmed(small());
    // Nothing is reported if the disk was so quick that the pages are there by the second look.
    assert_eq!((counted.bytes(Path::ReadWrite), counted.fallbacks(Fallback::ColdRead)), (18_000, 0));
    let (reported, ..) = warmed(small());
    assert!(reported.is_empty(), "{reported:?}");
}

#[test]
fn neighbours_of_missing_pages_leave_by_reference() {
    if crate::tests::lacks(crate::Path::Splice, "neighbours_of_missing_pages_leave_by_reference") {
        return;
    }
    let content = content(FILE_LEN);
    let file = file_of(&content);
    if !chilled(&file) {
        return;
    }
    let (gap, behind) = (600 << 10, 700 << 10);
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for (offset, end) in [(0, gap), (behind, FILE_LEN)] {
        let mut bytes = vec![0; end - offset];
        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, offset as u64).unwrap();
    }
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.report_cold(true);
    let (sender, mut receiver) = sockets(true, false);
    let mut transfer = Transfer::new([extent(&file, 0, FILE_LEN as u64)]);
    let (mut reported, mut arrived) = (Vec::new(), Vec::new());
    loop {
        match transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() {
            Turn::Done => break,
            Turn::Yield => {}
            Turn::Blocked => {
                wait(sender.as_fd(), receiver.as_fd());
                read_some(&mut receiver, 1 << 20, &mut arrived);
            }
            Turn::Cold => {
                let range = transfer.cold(0).unwrap().extent;
                let (offset, len) =
                    (usize::try_from(range.offset).unwrap(), usize::try_from(range.len).unwrap());
                reported.push((offset, offset + len));
                transfer.supply([Bytes::copy_from_slice(&content[offset..offset + len])]);
            }
        }
    }
    drop(sender);
    read_to_end(&mut receiver, &mut arrived);
    assert!(arrived == content);
    assert_eq!(reported, [(gap, behind)]);
    let counted = engine.counters().snapshot();
    assert_eq!(counted.bytes(Path::Splice), (FILE_LEN - (behind - gap)) as u64);
    assert_eq!(counted.bytes(Path::Send), (behind - gap) as u64);
}

#[test]
fn transfer_counts_memory_bytes_before_next_extent() {
    let file = file_of(&content(FILE_LEN));
    let bytes = |len: usize| Piece::Bytes(Bytes::from(vec![0; len]));
    let mut engine = engine(&caps(true, true), Thresholds::default());
    let (sender, mut receiver) = sockets(true, false);
    let mut transfer = Transfer::new([bytes(10), bytes(2_000_000), extent(&file, 0, 9000), bytes(7)]);
    let (mut arrived, mut before) = (Vec::new(), 2_000_010);
    assert_eq!(transfer.in_memory(), before);
    while transfer.in_memory() > 0 && transfer.remaining() > 9007 {
        assert_eq!(transfer.in_memory(), transfer.remaining() - 9007);
        assert!(transfer.in_memory() <= before);
        before = transfer.in_memory();
        match transfer.step(&mut engine, sender.as_fd(), 100_000).unwrap() {
            Turn::Blocked => {
                wait(sender.as_fd(), receiver.as_fd());
                read_some(&mut receiver, 1 << 20, &mut arrived);
            }
            turn => assert_ne!(turn, Turn::Cold),
        }
    }
    assert_eq!(Transfer::new([extent(&file, 0, 5), bytes(9)]).in_memory(), 0);
    assert_eq!(Transfer::new([]).in_memory(), 0);
}

#[test]
fn residency_checks_follow_budget_and_grow_until_blocked() {
    if blind("asks about pages") {
        return;
    }
    const WINDOW: u64 = Thresholds::DEFAULT.cold_window_bytes;
    let file = file_of(&content(16 << 20));
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.report_cold(true);
    let mut queue = Queue::new(Tls::None, [extent(&file, 8192, (16 << 20) - 8192)]);
    let mut check = |budget: u64, expected: u64| {
        assert!(queue.ask(&engine, budget), "all is in the cache");
        assert_eq!(queue.resident_bytes(), expected, "for a turn of {budget}");
        queue.sent(expected - 4096);
        queue.blocked(&engine);
        assert_eq!(queue.resident_bytes(), 4096);
        queue.sent(4096);
    };
    // Each of these turns meets a full socket.
    check(WINDOW, WINDOW);
    check(96 << 12, 96 << 12);
    check(u64::MAX, WINDOW);
    for windows in 1..=4 {
        assert!(queue.ask(&engine, WINDOW), "all is in the cache");
        assert_eq!(queue.resident_bytes(), windows * WINDOW);
        queue.sent(WINDOW);
        if windows < 4 {
            queue.sent((windows - 1) * WINDOW);
        }
    }
    queue.blocked(&engine);
    assert_eq!(queue.resident_bytes(), WINDOW, "what lies further may have left the cache since");
}

#[test]
fn cold_ranges_can_be_supplied_in_parts() {
    let content = content(FILE_LEN);
    let file = file_of(&content);
    for (len, small) in [(FILE_LEN as u64 - 5, false), (9_000, true)] {
        if !chilled(&file) {
            return;
        }
        let mut engine = engine(&caps(true, true), Thresholds::default());
        engine.report_cold(true);
        let (sender, mut receiver) = sockets(true, false);
        let head = Piece::Bytes(Bytes::from_static(b"header"));
        let tail = Piece::Bytes(Bytes::from_static(b"tail"));
        let mut transfer = Transfer::new([head, extent(&file, 5, len), tail]);
        let (mut supplied, mut arrived) = (0, Vec::new());
        loop {
            match transfer.step(&mut engine, sender.as_fd(), 300_000).unwrap() {
                Turn::Done => break,
                Turn::Yield => {}
                Turn::Blocked => {
                    wait(sender.as_fd(), receiver.as_fd());
                    read_some(&mut receiver, 1 << 20, &mut arrived);
                }
                Turn::Cold => {
                    let range = transfer.cold(0).unwrap().extent;
                    // Not all that was asked for, and not in one piece.
                    let bytes = Bytes::from(content.clone()).slice(range.offset as usize..);
                    let count = (range.len as usize).min(100_000);
                    transfer.supply([bytes.slice(..count / 3), Bytes::new(), bytes.slice(count / 3..count)]);
                    assert!(transfer.cold(0).is_none());
                    supplied += count as u64;
                }
            }
        }
        drop(sender);
        read_to_end(&mut receiver, &mut arrived);
        let end = 5 + usize::try_from(len).unwrap();
        assert!(arrived == [b"header", &content[5..end], b"tail"].concat(), "{len}");
        let counted = engine.counters().snapshot();
        assert!(supplied > 0 || small, "a large range that is not there is reported");
        assert_eq!(counted.bytes(Path::Send), supplied + 10);
        assert_eq!(counted.fallbacks(Fallback::ColdRead), 0);
    }
}

#[test]
fn a_range_is_reported_cold_once() {
    let content = content(FILE_LEN);
    let file = file_of(&content);
    for len in [10_000, 1 << 20] {
        if !chilled(&file) {
            return;
        }
        let mut engine = engine(&caps(true, true), Thresholds::default());
        engine.report_cold(true);
        let (sender, mut receiver) = sockets(true, false);
        let mut transfer = Transfer::new([extent(&file, 0, len)]);
        if transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() != Turn::Cold {
            // The disk was quicker than the question, which starts read-ahead for small extents.
            assert_eq!(len, 10_000);
            continue;
        }
        assert_eq!(transfer.cold(0).unwrap().extent.len, len);
        // No read has brought it in, and the next step does not insist.
        assert_ne!(transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap(), Turn::Cold);
        assert!(transfer.remaining() < len);
        read_some(&mut receiver, 1 << 20, &mut Vec::new());
    }
}

#[test]
fn transfer_lists_extents_after_cold_pages() {
    let content = content(FILE_LEN);
    let (file, other) = (file_of(&content), file_of(&content));
    if !chilled(&file) {
        return;
    }
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.report_cold(true);
    let (sender, _receiver) = sockets(true, false);
    let head = Piece::Bytes(Bytes::from_static(b"header"));
    let pieces = [extent(&file, 5, (1 << 20) + 100_000), head, extent(&other, 7, 1_000)];
    let mut transfer = Transfer::new(pieces);
    assert_eq!(transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap(), Turn::Cold);
    let ahead = |bytes| -> Vec<(u64, u64)> {
        let warm = transfer.cold(bytes).unwrap();
        assert_eq!((warm.extent.offset, warm.extent.offset + warm.extent.len), (5, (1 << 20) + 4096));
        warm.ahead.iter().map(|extent| (extent.offset, extent.len)).collect()
    };
    let next = (1 << 20) + 4096;
    assert_eq!(ahead(0), []);
    assert_eq!(ahead(10), [(next, 10)]);
    assert_eq!(ahead(200_000), [(next, 95_909), (7, 104_091)]);
    assert_eq!(
        crate::residency::of(&transfer.cold(0).unwrap().extent, crate::tests::ALL_MEANS),
        Residency::Cold
    );
}
