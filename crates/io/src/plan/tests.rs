//! The plan as a table.

use proptest::prelude::*;

use super::*;
use crate::residency::Residency::{Cold, Partly, Resident, Unknown};

const ALL: Means = crate::tests::ALL_MEANS;
const NO_SPLICE: Means = Means { splice: false, ..ALL };
const NO_SENDFILE: Means = Means { sendfile: false, ..ALL };
const NO_RING: Means = Means { ring: false, ring_zero_copy: false, ..ALL };
const NOTHING: Means = Means {
    splice: false,
    sendfile: false,
    nowait_reads: false,
    cachestat: false,
    msg_zerocopy: false,
    uncached_reads: false,
    copy_file_range: false,
    reflink: false,
    ..NO_RING
};
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MEMORY: Source = Source::Memory { registered: false };

/// A large range of a file that is in the cache, to a plain socket on a route that copies.
const HOT: Question = Question {
    source: Source::File,
    len: MIB,
    residency: Resident,
    read_once: false,
    tls: Tls::None,
    route: Route::Copies,
    means: ALL,
};

fn path(question: Question) -> Path {
    plan(&question, &Thresholds::default()).path
}

#[test]
fn what_needs_nothing_first() {
    use Path::{MsgZerocopy, ReadWrite, Send, Sendfile, Splice, UringSendZc, UserTls};
    use Source::{File, VolatileFile};

    let registered = Source::Memory { registered: true };
    // Source, size, who encrypts, route → with all means, without splice, sendfile, a ring, with nothing.
    let (copies, refers) = (Route::Copies, Route::ByReference);
    let refer = [UringSendZc, UringSendZc, UringSendZc, MsgZerocopy, Send];
    let large = [Splice, Sendfile, Splice, Splice, ReadWrite];
    let rows = [
        (MEMORY, 1, Tls::None, copies, [Send; 5]),
        (MEMORY, 64 * MIB, Tls::None, copies, [Send; 5]),
        (registered, 64 * MIB, Tls::None, copies, [Send; 5]),
        (MEMORY, 16 * KIB - 1, Tls::None, refers, [Send; 5]),
        (MEMORY, 16 * KIB, Tls::None, refers, refer),
        (registered, 4 * KIB - 1, Tls::None, refers, [Send; 5]),
        (registered, 4 * KIB, Tls::None, refers, refer),
        (MEMORY, 64 * MIB, Tls::Kernel, refers, [Send; 5]),
        (MEMORY, 1, Tls::UserSpace, refers, [UserTls; 5]),
        (File, 1, Tls::None, copies, [ReadWrite; 5]),
        (File, 16 * KIB, Tls::None, refers, [ReadWrite; 5]),
        (File, 16 * KIB + 1, Tls::None, copies, large),
        (File, u64::MAX, Tls::None, refers, large),
        (File, 16 * KIB - 1, Tls::Kernel, copies, [ReadWrite; 5]),
        (File, 16 * KIB, Tls::Kernel, copies, large),
        (File, MIB, Tls::Kernel, refers, large),
        (File, 1, Tls::UserSpace, copies, [UserTls; 5]),
        (File, MIB, Tls::UserSpace, refers, [UserTls; 5]),
        (VolatileFile, 1, Tls::None, copies, [ReadWrite; 5]),
        (VolatileFile, MIB, Tls::None, refers, [ReadWrite; 5]),
        (VolatileFile, MIB, Tls::Kernel, copies, [ReadWrite; 5]),
        (VolatileFile, MIB, Tls::UserSpace, refers, [UserTls; 5]),
    ];
    for (source, len, tls, route, expected) in rows {
        let means = [ALL, NO_SPLICE, NO_SENDFILE, NO_RING, NOTHING];
        for (means, path) in means.into_iter().zip(expected) {
            for residency in [Resident, Unknown] {
                let question = Question { source, len, tls, route, means, residency, read_once: true };
                let expected = Plan { first: None, path, drop_behind: false };
                assert_eq!(plan(&question, &Thresholds::default()), expected, "{question:?}");
            }
        }
    }
}

#[test]
fn what_is_cold_is_brought_in_first() {
    use First::{Read, Warm};
    use Path::{ReadWrite, Send, Splice, UringSendZc, UserTls};
    use Route::{ByReference, Copies};
    use Source::{File, VolatileFile};

    let keep = Some(Read(Caching::Keep));
    let (no_dontcache, warm) = (Means { uncached_reads: false, ..ALL }, Some(Warm));
    // Source, size, read once, who encrypts, route, means → what first, how, and whether to drop it.
    let rows = [
        (File, 16 * KIB, false, Tls::None, Copies, ALL, (keep, Send, false)),
        (File, 16 * KIB, false, Tls::None, ByReference, ALL, (keep, UringSendZc, false)),
        (File, 4 * KIB, true, Tls::None, ByReference, ALL, (keep, Send, false)),
        (File, 4 * KIB, false, Tls::None, Copies, NO_RING, (warm, ReadWrite, false)),
        (File, MIB, false, Tls::None, Copies, ALL, (warm, Splice, false)),
        (File, MIB, false, Tls::None, ByReference, ALL, (warm, Splice, false)),
        (File, MIB, true, Tls::None, ByReference, ALL, (Some(Read(Caching::Drop)), UringSendZc, false)),
        (File, MIB, true, Tls::None, ByReference, no_dontcache, (keep, UringSendZc, true)),
        (File, MIB, true, Tls::None, ByReference, NO_RING, (warm, Splice, true)),
        (File, MIB, true, Tls::None, Copies, ALL, (warm, Splice, true)),
        (File, MIB, true, Tls::None, Copies, NOTHING, (warm, ReadWrite, true)),
        (File, MIB, true, Tls::Kernel, ByReference, ALL, (warm, Splice, true)),
        (File, KIB, false, Tls::UserSpace, Copies, ALL, (warm, UserTls, false)),
        (File, MIB, true, Tls::UserSpace, ByReference, ALL, (warm, UserTls, true)),
        (VolatileFile, MIB, false, Tls::None, ByReference, ALL, (warm, ReadWrite, false)),
    ];
    for (source, len, read_once, tls, route, means, (first, path, drop_behind)) in rows {
        for residency in [Cold, Partly] {
            let question = Question { source, len, residency, read_once, tls, route, means };
            let expected = Plan { first, path, drop_behind };
            assert_eq!(plan(&question, &Thresholds::default()), expected, "{question:?}");
        }
    }
}

#[test]
fn files_are_copied_by_what_there_is() {
    use Path::{CopyFileRange, ReadWrite, Reflink, Splice};

    let ways = |means| between_files(means).collect::<Vec<Path>>();
    assert_eq!(ways(ALL), [Reflink, CopyFileRange, Splice, ReadWrite]);
    assert_eq!(ways(Means { reflink: false, ..NO_SPLICE }), [CopyFileRange, ReadWrite]);
    assert_eq!(ways(NOTHING), [ReadWrite]);
}

#[test]
fn the_threshold_is_the_callers() {
    let thresholds = Thresholds { small_extent_bytes: 0, ..Thresholds::default() };
    assert_eq!(plan(&Question { len: 1, ..HOT }, &thresholds).path, Path::Splice);
    assert_eq!(path(Question { len: 1, ..HOT }), Path::ReadWrite);
}

#[test]
fn a_refusal_leads_to_the_next_best_and_ends_at_copying() {
    assert_eq!(ALL.after(Path::Splice), Path::Sendfile);
    assert_eq!(NO_SENDFILE.after(Path::Splice), Path::ReadWrite);
    assert_eq!(ALL.after(Path::Sendfile), Path::ReadWrite);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// No answer needs what the machine does not have, and nothing that may change goes by reference.
    #[test]
    fn no_answer_asks_for_too_much(question in questions()) {
        let Plan { first, path, drop_behind } = plan(&question, &Thresholds::default());
        let means = question.means;
        match path {
            Path::Splice => prop_assert!(means.splice),
            Path::Sendfile => prop_assert!(means.sendfile),
            Path::UringSendZc => prop_assert!(means.ring_zero_copy && question.route == Route::ByReference),
            Path::MsgZerocopy => prop_assert!(means.msg_zerocopy && question.route == Route::ByReference),
            Path::UserTls => prop_assert_eq!(question.tls, Tls::UserSpace),
            other => prop_assert!(matches!(other, Path::Send | Path::ReadWrite)),
        }
        prop_assert!(!matches!(first, Some(First::Read(_))) || means.ring);
        prop_assert!(first != Some(First::Read(Caching::Drop)) || means.uncached_reads);
        prop_assert_eq!(first.is_some(), matches!(question.residency, Cold | Partly) && !matches!(question.source, Source::Memory { .. }));
        prop_assert!(!drop_behind || (question.read_once && first.is_some()));
        if question.tls == Tls::UserSpace {
            prop_assert_eq!(path, Path::UserTls);
        } else if question.source == Source::VolatileFile {
            prop_assert_eq!(path, Path::ReadWrite);
        }
    }
}

fn questions() -> impl Strategy<Value = Question> {
    let source = prop::sample::select(vec![
        MEMORY,
        Source::Memory { registered: true },
        Source::File,
        Source::VolatileFile,
    ]);
    let residency = prop::sample::select(vec![Resident, Partly, Cold, Unknown]);
    let tls = prop::sample::select(vec![Tls::None, Tls::Kernel, Tls::UserSpace]);
    let len = prop_oneof![0_u64..100_000, any::<u64>()];
    (source, len, residency, any::<bool>(), tls, any::<bool>(), any::<[bool; 10]>()).prop_map(
        |(source, len, residency, read_once, tls, refers, has)| Question {
            source,
            len,
            residency,
            read_once,
            tls,
            route: if refers { Route::ByReference } else { Route::Copies },
            means: Means {
                splice: has[0],
                sendfile: has[1],
                nowait_reads: has[2],
                cachestat: has[3],
                ring: has[4],
                ring_zero_copy: has[4] && has[5],
                msg_zerocopy: has[6],
                uncached_reads: has[7],
                copy_file_range: has[8],
                reflink: has[9],
            },
        },
    )
}
