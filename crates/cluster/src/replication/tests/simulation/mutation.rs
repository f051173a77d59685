//! Mistakes that the simulation must find: each is one that a replication protocol has made, or
//! that its rules exclude.

/// A mistake of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// A truncation at the log's end does nothing: the epoch of a leader that wrote nothing stays.
    KeepsEpochAtEnd,
    /// A truncation leaves the epochs of what it cuts off.
    KeepsEpochOfCut,
    /// The high watermark of a leader is its log end.
    CommitsAtAppend,
    /// A task of the fetcher is done whatever the partition follows by now.
    AppendsInAnyEpoch,
    /// Batches of a later epoch than that of the fetch are appended (KAFKA-18723).
    TakesLaterEpochs,
    /// A replica joins the ISR from the high watermark on, wherever the leader epoch began.
    JoinsBelowEpochStart,
    /// A replica that is about to join does not limit the high watermark.
    IgnoresJoining,
    /// A replica that is about to leave does not limit the high watermark any more.
    ShrinksAtOnce,
    /// A follower truncates to its high watermark, as before KIP-101.
    TruncatesToHighWatermark,
    /// A follower continues where its log left the leader's.
    IgnoresDivergence,
    /// A log opens with its end as the high watermark.
    OpensCommitted,
    /// A log continues behind a segment that has lost its end with the power.
    KeepsHoles,
    /// acks=all is acknowledged at the append.
    AcknowledgesAtAppend,
    /// A leader that is told of another one continues.
    NeverResigns,
}

impl Mutation {
    pub(super) const ALL: [Mutation; 14] = [
        Mutation::KeepsEpochAtEnd,
        Mutation::KeepsEpochOfCut,
        Mutation::CommitsAtAppend,
        Mutation::AppendsInAnyEpoch,
        Mutation::TakesLaterEpochs,
        Mutation::JoinsBelowEpochStart,
        Mutation::IgnoresJoining,
        Mutation::ShrinksAtOnce,
        Mutation::TruncatesToHighWatermark,
        Mutation::IgnoresDivergence,
        Mutation::OpensCommitted,
        Mutation::KeepsHoles,
        Mutation::AcknowledgesAtAppend,
        Mutation::NeverResigns,
    ];
}
