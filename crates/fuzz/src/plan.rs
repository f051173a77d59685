//! Arbitrary questions to the plan, and arbitrary queues to be cut into runs: no answer needs a
//! missing capability of the machine, no piece is lost.

use levada_io::plan::{Question, Source, Tls, plan};
use levada_io::probe::Means;
use levada_io::runs::{COPIED_PIECES, Length, REFERENCED_PIECES, SendMode, cut};
use levada_io::{SocketPath, Thresholds};

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((head, rest)) = input.split_first_chunk::<24>() else { return };
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let thresholds = Thresholds {
        small_extent_bytes: number(0) & 0xff_ffff,
        zero_copy_send_bytes: usize::from(head[3]) << (head[4] % 16),
        registered_send_bytes: usize::from(head[5]) << (head[6] % 16),
        ..Thresholds::default()
    };
    ask(number(8), u32::from_le_bytes(head[16..20].try_into().expect("four bytes")), &thresholds);
    queue(rest, &thresholds, head[20] & 1 == 1);
}

fn ask(len: u64, bits: u32, thresholds: &Thresholds) {
    let bit = |at: u32| bits >> at & 1 == 1;
    let means = Means {
        splice: bit(0),
        sendfile: bit(1),
        page_references: bit(7),
        nowait_reads: bit(2),
        cachestat: bit(3),
    };
    let source = [Source::File, Source::VolatileFile, Source::Memory][(bits >> 4 & 3).min(2) as usize];
    let tls = if bit(6) { Tls::Kernel } else { Tls::None };
    let path = plan(&Question { source, len, tls, means }, thresholds);
    match path {
        SocketPath::Splice => assert!(means.splice),
        SocketPath::Sendfile => assert!(means.sendfile && !means.splice),
        SocketPath::ReadWrite => {}
        SocketPath::MmapWrite => assert!(!means.page_references),
    }
    assert!(path == SocketPath::ReadWrite || source == Source::File);
}

fn queue(sizes: &[u8], thresholds: &Thresholds, may_refer: bool) {
    let length = |pair: &[u8]| Length {
        bytes: usize::from(pair[0]) << (pair.get(1).unwrap_or(&0) % 20),
        registered: pair.get(1).is_some_and(|byte| byte & 0x80 != 0),
    };
    let lengths: Vec<Length> = sizes.chunks(2).map(length).collect();
    let mut rest = &lengths[..];
    for run in cut(lengths.clone(), thresholds, may_refer) {
        let (mine, others) = rest.split_at(run.count);
        assert_eq!(run.bytes, mine.iter().map(|length| length.bytes).sum::<usize>());
        let limit = match run.mode {
            SendMode::Copied => COPIED_PIECES,
            SendMode::Referenced => REFERENCED_PIECES,
            SendMode::Registered => 1,
        };
        assert!((1..=limit).contains(&run.count) && (may_refer || run.mode == SendMode::Copied));
        rest = others;
    }
    assert!(rest.is_empty());
}
