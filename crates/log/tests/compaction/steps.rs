//! Events in the life of a compacted log, as data that proptest can shrink.

use levada_log::LogConfig;
use proptest::collection::vec;
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Append(Batch),
    /// A producer's transaction ends: committed or not, its epoch raised or not.
    End {
        producer: u8,
        commit: bool,
        bump: bool,
    },
    Roll,
    /// The clock advances by this number of milliseconds, then the log is compacted with room for
    /// this number of keys.
    Clean {
        after_ms: i64,
        keys: u8,
    },
    /// Like [`Step::Clean`], but the process ends after this number of changes to the disk.
    CrashAmidClean {
        changes: u8,
        lost_snapshots: bool,
    },
    AdvanceLogStart(u8),
    ReopenClean,
    Crash {
        lost_snapshots: bool,
    },
}

/// One batch; a record's key is a number, or none in a batch of a producer of its own.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) writer: Writing,
    pub(crate) codec: u8,
    pub(crate) stamped: bool,
    pub(crate) records: Vec<(u8, Option<u8>)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Writing {
    Plain,
    Keyless,
    Idempotent(u8),
    Transactional(u8),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..80)
}

pub(crate) fn config() -> impl Strategy<Value = LogConfig> {
    (700_u32..2_500, prop_oneof![Just(0_u32), Just(200), Just(4096)], 0_i64..300).prop_map(
        |(segment_bytes, index_interval_bytes, delete_retention_ms)| LogConfig {
            segment_bytes,
            index_interval_bytes,
            delete_retention_ms,
            segment_index_bytes: 200,
            retention_ms: -1,
            segment_ms: i64::MAX,
            ..LogConfig::default()
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => batch().prop_map(Step::Append),
        6 => (3_u8..6, any::<bool>(), any::<bool>())
            .prop_map(|(producer, commit, bump)| Step::End { producer, commit, bump }),
        4 => Just(Step::Roll),
        8 => (0_i64..200, prop_oneof![4 => Just(255_u8), 1 => 1_u8..8])
            .prop_map(|(after_ms, keys)| Step::Clean { after_ms, keys }),
        4 => (any::<u8>(), any::<bool>())
            .prop_map(|(changes, lost_snapshots)| Step::CrashAmidClean { changes, lost_snapshots }),
        1 => any::<u8>().prop_map(Step::AdvanceLogStart),
        1 => Just(Step::ReopenClean),
        2 => any::<bool>().prop_map(|lost_snapshots| Step::Crash { lost_snapshots }),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    let writer = prop_oneof![
        6 => Just(Writing::Plain),
        1 => Just(Writing::Keyless),
        4 => (0_u8..3).prop_map(Writing::Idempotent),
        8 => (3_u8..6).prop_map(Writing::Transactional),
    ];
    let value = prop_oneof![1 => Just(None), 3 => any::<u8>().prop_map(Some)];
    (writer, 0_u8..5, proptest::bool::weighted(0.2), vec((0_u8..12, value), 1..6))
        .prop_map(|(writer, codec, stamped, records)| Batch { writer, codec, stamped, records })
}
