//! The plan as a table.

use proptest::prelude::*;

use super::*;

const ALL: Means = crate::tests::ALL_MEANS;
const NO_SPLICE: Means = Means { splice: false, ..ALL };
const NO_SENDFILE: Means = Means { sendfile: false, ..ALL };
const NOTHING: Means =
    Means { splice: false, sendfile: false, page_references: false, nowait_reads: false, cachestat: false };
const COPYING: Means = Means { page_references: false, ..ALL };
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn transfer_plan_matches_its_table() {
    use SocketPath::{MmapWrite, ReadWrite, Sendfile, Splice};
    use Source::{File, Memory, VolatileFile};

    let copied = [ReadWrite; 5];
    let large = [Splice, Sendfile, Splice, ReadWrite, Splice];
    let mapped = [Splice, Sendfile, Splice, MmapWrite, MmapWrite];
    // Source, size, encryption → with all means, without splice, without sendfile, with nothing, on
    // a kernel that copies.
    let rows = [
        (Memory, 1, Tls::None, copied),
        (Memory, 64 * MIB, Tls::None, copied),
        (Memory, 64 * MIB, Tls::Kernel, copied),
        (File, 1, Tls::None, copied),
        (File, 16 * KIB, Tls::None, copied),
        (File, 16 * KIB + 1, Tls::None, large),
        (File, 256 * KIB - 1, Tls::None, large),
        (File, 256 * KIB, Tls::None, mapped),
        (File, u64::MAX, Tls::None, mapped),
        (File, 16 * KIB - 1, Tls::Kernel, copied),
        (File, 16 * KIB, Tls::Kernel, large),
        (File, MIB, Tls::Kernel, mapped),
        (VolatileFile, 1, Tls::None, copied),
        (VolatileFile, MIB, Tls::None, copied),
        (VolatileFile, MIB, Tls::Kernel, copied),
    ];
    for (source, len, tls, expected) in rows {
        for (means, path) in [ALL, NO_SPLICE, NO_SENDFILE, NOTHING, COPYING].into_iter().zip(expected) {
            let question = Question { source, len, tls, means };
            assert_eq!(plan(&question, &Thresholds::default()), path, "{question:?}");
        }
    }
}

#[test]
fn plan_uses_the_threshold_of_the_caller() {
    let thresholds = Thresholds { small_extent_bytes: 0, ..Thresholds::default() };
    let question = Question { source: Source::File, len: 1, tls: Tls::None, means: ALL };
    assert_eq!(plan(&question, &thresholds), SocketPath::Splice);
    assert_eq!(plan(&question, &Thresholds::default()), SocketPath::ReadWrite);
}

#[test]
fn refused_path_falls_back_until_copying() {
    assert_eq!(next_best(SocketPath::Splice, ALL), SocketPath::Sendfile);
    assert_eq!(next_best(SocketPath::Splice, NO_SENDFILE), SocketPath::ReadWrite);
    assert_eq!(next_best(SocketPath::Sendfile, ALL), SocketPath::ReadWrite);
    assert_eq!(next_best(SocketPath::MmapWrite, COPYING), SocketPath::Splice);
    assert_eq!(next_best(SocketPath::MmapWrite, NO_SPLICE), SocketPath::Sendfile);
    assert_eq!(next_best(SocketPath::MmapWrite, NOTHING), SocketPath::ReadWrite);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// No answer needs what the machine does not have, and nothing that may change goes by
    /// reference.
    #[test]
    fn plan_uses_only_available_paths(question in questions(), small_extent_bytes in any::<u64>()) {
        let path = plan(&question, &Thresholds { small_extent_bytes, ..Thresholds::default() });
        match path {
            SocketPath::Splice => prop_assert!(question.means.splice),
            SocketPath::Sendfile => prop_assert!(question.means.sendfile && !question.means.splice),
            SocketPath::ReadWrite => {}
            SocketPath::MmapWrite => prop_assert!(!question.means.page_references),
        }
        prop_assert!(path == SocketPath::ReadWrite || question.source == Source::File);
    }
}

fn questions() -> impl Strategy<Value = Question> {
    let source = prop::sample::select(vec![Source::Memory, Source::File, Source::VolatileFile]);
    let tls = prop::sample::select(vec![Tls::None, Tls::Kernel]);
    let len = prop_oneof![0_u64..100_000, any::<u64>()];
    (source, len, tls, any::<[bool; 5]>()).prop_map(|(source, len, tls, has)| {
        let [splice, sendfile, page_references, nowait_reads, cachestat] = has;
        Question {
            source,
            len,
            tls,
            means: Means { splice, sendfile, page_references, nowait_reads, cachestat },
        }
    })
}
