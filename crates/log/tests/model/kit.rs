//! Events in the life of a log, as data that proptest can shrink.

use levada_base::compress::Compression;
use levada_log::{AppendBy, LogConfig};
use proptest::collection::vec;
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Append(Vec<Batch>),
    Roll,
    Flush,
    FlushSealed,
    /// To a place in the log, in 1/255.
    Truncate(u8),
    AdvanceLogStart(u8),
    Retain(u8),
    NextEpoch,
    ReopenClean,
    /// With each kind of damage to what was not flushed.
    Crash(Damage),
}

/// Damage that a crash does beside ending the process.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    None,
    /// A file that was not flushed loses its end; the number is the remaining part of the unflushed
    /// bytes, in 255ths.
    Cut(u8, u8),
    /// One byte of it changes.
    Flip(u8, u8),
    /// The file is zero from there on.
    Zero(u8, u8),
    /// Bytes that are not a batch follow the last one.
    Garbage(u8),
    /// An index file is gone.
    LostIndex(u8),
    /// The last segment's indexes hold garbage.
    WildIndex(u8),
    LostSnapshot(u8),
    /// The epochs' file is empty.
    LostEpochs,
}

/// One batch, relative to what its producer wrote before.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) kind: Kind,
    pub(crate) codec: u8,
    pub(crate) records: u8,
    pub(crate) value_len: u16,
    pub(crate) timestamp: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Plain,
    /// The producer's next batch.
    Next(u8),
    /// A repetition of an earlier batch of the producer: this number of batches before the last.
    Again(u8, u8),
    /// A sequence number too far.
    Gap(u8),
    /// A new epoch, from sequence 0.
    Bump(u8),
    /// An epoch that has passed.
    Stale(u8),
    /// The next batch of a transaction.
    Transactional(u8),
    Commit(u8),
    Abort(u8),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..60)
}

pub(crate) fn config() -> impl Strategy<Value = LogConfig> {
    let intervals = prop_oneof![Just(0_u32), Just(150), Just(600), Just(4096)];
    let ways = prop_oneof![Just(AppendBy::Pwrite), Just(AppendBy::Mapped)];
    (1_500_u32..6_000, intervals, 24_u32..240, ways).prop_map(
        |(segment_bytes, index_interval_bytes, segment_index_bytes, append_by)| LogConfig {
            append_by,
            segment_bytes,
            index_interval_bytes,
            segment_index_bytes,
            retention_ms: -1,
            segment_ms: i64::MAX,
            ..LogConfig::default()
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => vec(batch(), 1..6).prop_map(Step::Append),
        2 => Just(Step::Roll),
        2 => Just(Step::Flush),
        2 => Just(Step::FlushSealed),
        2 => any::<u8>().prop_map(Step::Truncate),
        2 => any::<u8>().prop_map(Step::AdvanceLogStart),
        1 => any::<u8>().prop_map(Step::Retain),
        1 => Just(Step::NextEpoch),
        2 => Just(Step::ReopenClean),
        4 => damage().prop_map(Step::Crash),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        2 => Just(Damage::None),
        2 => any::<(u8, u8)>().prop_map(|(file, at)| Damage::Cut(file, at)),
        2 => any::<(u8, u8)>().prop_map(|(file, at)| Damage::Flip(file, at)),
        2 => any::<(u8, u8)>().prop_map(|(file, at)| Damage::Zero(file, at)),
        1 => any::<u8>().prop_map(Damage::Garbage),
        1 => any::<u8>().prop_map(Damage::LostIndex),
        1 => any::<u8>().prop_map(Damage::WildIndex),
        1 => any::<u8>().prop_map(Damage::LostSnapshot),
        1 => Just(Damage::LostEpochs),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    let kind = prop_oneof![
        4 => Just(Kind::Plain),
        6 => (0_u8..3).prop_map(Kind::Next),
        2 => (0_u8..3, 0_u8..7).prop_map(|(producer, back)| Kind::Again(producer, back)),
        1 => (0_u8..3).prop_map(Kind::Gap),
        1 => (0_u8..3).prop_map(Kind::Bump),
        1 => (0_u8..3).prop_map(Kind::Stale),
        6 => (3_u8..6).prop_map(Kind::Transactional),
        2 => (3_u8..6).prop_map(Kind::Commit),
        2 => (3_u8..6).prop_map(Kind::Abort),
    ];
    let timestamp = prop_oneof![10 => 0_i64..2_000, 1 => Just(-1)];
    (kind, 0_u8..5, 1_u8..9, 0_u16..120, timestamp).prop_map(
        |(kind, codec, records, value_len, timestamp)| Batch { kind, codec, records, value_len, timestamp },
    )
}

pub(crate) fn codec(id: u8) -> Compression {
    Compression::from_id(id).expect("one of five")
}
