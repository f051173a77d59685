//! Any question to the plan, and any queue to be cut into runs: no answer needs what the machine does not have, no piece is lost.

#![no_main]

use levada_io::plan::{First, Means, Plan, Question, Route, Source, Thresholds, Tls, between_files, plan};
use levada_io::residency::Residency;
use levada_io::ring::Caching;
use levada_io::runs::{COPIED_PIECES, Length, REFERENCED_PIECES, Way, cut};
use levada_io::Path;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
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
});

fn ask(len: u64, bits: u32, thresholds: &Thresholds) {
    let bit = |at: u32| bits >> at & 1 == 1;
    let means = Means {
        splice: bit(0),
        sendfile: bit(1),
        nowait_reads: bit(2),
        cachestat: bit(3),
        ring: bit(4),
        ring_zero_copy: bit(4) && bit(5),
        msg_zerocopy: bit(6),
        uncached_reads: bit(7),
        copy_file_range: bit(8),
        reflink: bit(9),
    };
    let sources =
        [Source::File, Source::VolatileFile, Source::Memory { registered: false }, Source::Memory { registered: true }];
    let states = [Residency::Resident, Residency::Partly, Residency::Cold, Residency::Unknown];
    let question = Question {
        source: sources[(bits >> 10 & 3) as usize],
        len,
        residency: states[(bits >> 12 & 3) as usize],
        read_once: bit(14),
        tls: [Tls::None, Tls::Kernel, Tls::UserSpace][(bits >> 15 & 3).min(2) as usize],
        route: if bit(17) { Route::Copies } else { Route::ByReference },
        means,
    };
    let Plan { first, path, drop_behind } = plan(&question, thresholds);
    match path {
        Path::Splice => assert!(means.splice),
        Path::Sendfile => assert!(means.sendfile),
        Path::UringSendZc => assert!(means.ring_zero_copy && question.route == Route::ByReference),
        Path::MsgZerocopy => assert!(means.msg_zerocopy && question.route == Route::ByReference),
        other => assert!(matches!(other, Path::Send | Path::ReadWrite | Path::UserTls)),
    }
    assert!(means.ring || !matches!(first, Some(First::Read(_))));
    assert!(means.uncached_reads || first != Some(First::Read(Caching::Drop)));
    assert!(!drop_behind || question.read_once);
    assert_eq!(between_files(means).last(), Some(Path::ReadWrite));
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
        let limit = match run.way {
            Way::Copied => COPIED_PIECES,
            Way::Referenced => REFERENCED_PIECES,
            Way::Registered => 1,
        };
        assert!((1..=limit).contains(&run.count) && (may_refer || run.way == Way::Copied));
        rest = others;
    }
    assert!(rest.is_empty());
}
