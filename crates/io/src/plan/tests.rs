//! The plan as a table.

use super::*;

const ALL: Means = crate::tests::ALL_MEANS;
const NO_SPLICE: Means = Means { splice: false, ..ALL };
const NO_SENDFILE: Means = Means { sendfile: false, ..ALL };
const NOTHING: Means = Means { splice: false, sendfile: false, nowait_reads: false, cachestat: false };
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn every_row_of_the_table() {
    use Path::{ReadWrite, Send, Sendfile, Splice};
    use Source::{File, Memory, VolatileFile};

    // Source, size, who encrypts → with all means, without splice, without sendfile, with nothing.
    let rows = [
        (Memory, 1, Tls::None, [Send; 4]),
        (Memory, 64 * MIB, Tls::None, [Send; 4]),
        (Memory, 64 * MIB, Tls::Kernel, [Send; 4]),
        (Memory, 1, Tls::UserSpace, [ReadWrite; 4]),
        (File, 1, Tls::None, [ReadWrite; 4]),
        (File, 16 * KIB, Tls::None, [ReadWrite; 4]),
        (File, 16 * KIB + 1, Tls::None, [Splice, Sendfile, Splice, ReadWrite]),
        (File, u64::MAX, Tls::None, [Splice, Sendfile, Splice, ReadWrite]),
        (File, 16 * KIB - 1, Tls::Kernel, [ReadWrite; 4]),
        (File, 16 * KIB, Tls::Kernel, [Splice, Sendfile, Splice, ReadWrite]),
        (File, MIB, Tls::Kernel, [Splice, Sendfile, Splice, ReadWrite]),
        (File, 1, Tls::UserSpace, [ReadWrite; 4]),
        (File, MIB, Tls::UserSpace, [ReadWrite; 4]),
        (VolatileFile, 1, Tls::None, [ReadWrite; 4]),
        (VolatileFile, MIB, Tls::None, [ReadWrite; 4]),
        (VolatileFile, MIB, Tls::Kernel, [ReadWrite; 4]),
        (VolatileFile, MIB, Tls::UserSpace, [ReadWrite; 4]),
    ];
    for (source, len, tls, expected) in rows {
        for (means, path) in [ALL, NO_SPLICE, NO_SENDFILE, NOTHING].into_iter().zip(expected) {
            let question = Question { source, len, tls, means };
            assert_eq!(plan(&question, &Thresholds::default()), path, "{question:?}");
        }
    }
}

#[test]
fn the_threshold_is_the_callers() {
    let thresholds = Thresholds { small_extent_bytes: 0, ..Thresholds::default() };
    let question = Question { source: Source::File, len: 1, tls: Tls::None, means: ALL };
    assert_eq!(plan(&question, &thresholds), Path::Splice);
}

#[test]
fn a_refusal_leads_to_the_next_best_and_ends_at_copying() {
    assert_eq!(ALL.after(Path::Splice), Path::Sendfile);
    assert_eq!(NO_SENDFILE.after(Path::Splice), Path::ReadWrite);
    assert_eq!(ALL.after(Path::Sendfile), Path::ReadWrite);
}
