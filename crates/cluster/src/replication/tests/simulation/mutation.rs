//! Mistakes that the simulation must find: each is one that a replication protocol has made, or
//! that its rules exclude. `docs/replication-traps.md` has the table of the
//! traps with these mistakes.

/// A mistake of a node or of the controller.
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
    /// A log continues after a segment that has lost its end with the power.
    KeepsHoles,
    /// acks=all is acknowledged at the append.
    AcknowledgesAtAppend,
    /// A leader that is told of another one continues.
    NeverResigns,
    /// A log restarts at a batch of the leader that reaches over its end, wherever the leader's log
    /// begins.
    RestartsInAnyBatch,
    /// A follower whose fetch was out of range restarts at the start of the leader's log.
    RestartsWhenOutOfRange,
    /// A follower begins the epoch of its leader at the end of its own log.
    FollowerBeginsEpoch,
    /// The high watermark rises although the ISR is smaller than `min.insync.replicas`.
    CommitsUnderMinIsr,
    /// The position of a follower is the end of the batches that the leader sends it.
    CountsSentAsReceived,
    /// A leader counts a fetch of a former process of the broker for the present one.
    CountsFetchesOfFormerProcesses,
    /// A change of the ISR does not name the broker epochs of its members (before KIP-903).
    JoinsWithoutBrokerEpoch,
    /// The controller takes a change of the ISR with a broker epoch of a former process.
    TakesStaleBrokerEpochs,
    /// The controller takes a change that follows an older partition epoch.
    TakesOldPartitionEpochs,
    /// A leader forgets a change that the controller refuses with INVALID_UPDATE_VERSION.
    ForgetsRefusedChange,
    /// A leader takes INVALID_UPDATE_VERSION for success.
    TakesRefusalForSuccess,
    /// A process says after a crash that the one before it has stopped in good order.
    ClaimsCleanStop,
    /// A follower takes the response to an earlier fetch for that to the present one.
    TakesLateAnswers,
    /// A batch that was checked in an earlier role is appended.
    AppendsAfterRoleChange,
    /// Requests that wait for the high watermark wait for that of the next leadership as well.
    KeepsWaiters,
    /// A leader that has not heard of another leader counts what its followers had before that one.
    KeepsPositionsOfFormerTerms,
    /// A follower appends batches whose bytes have changed on the way.
    SkipsChecksum,
    /// DeleteRecords deletes records above the high watermark.
    DeletesUncommitted,
    /// A broker does not report that a log of a replica is offline.
    HidesLostLogs,
    /// A replica that lacks records which it has had leads as soon as it is elected.
    LeadsWithLosses,
}

impl Mutation {
    pub(super) const ALL: [Self; 33] = [
        Self::KeepsEpochAtEnd,
        Self::KeepsEpochOfCut,
        Self::CommitsAtAppend,
        Self::AppendsInAnyEpoch,
        Self::TakesLaterEpochs,
        Self::JoinsBelowEpochStart,
        Self::IgnoresJoining,
        Self::ShrinksAtOnce,
        Self::TruncatesToHighWatermark,
        Self::IgnoresDivergence,
        Self::OpensCommitted,
        Self::KeepsHoles,
        Self::AcknowledgesAtAppend,
        Self::NeverResigns,
        Self::RestartsInAnyBatch,
        Self::RestartsWhenOutOfRange,
        Self::FollowerBeginsEpoch,
        Self::CommitsUnderMinIsr,
        Self::CountsSentAsReceived,
        Self::CountsFetchesOfFormerProcesses,
        Self::JoinsWithoutBrokerEpoch,
        Self::TakesStaleBrokerEpochs,
        Self::TakesOldPartitionEpochs,
        Self::ForgetsRefusedChange,
        Self::TakesRefusalForSuccess,
        Self::ClaimsCleanStop,
        Self::TakesLateAnswers,
        Self::AppendsAfterRoleChange,
        Self::KeepsWaiters,
        Self::KeepsPositionsOfFormerTerms,
        Self::SkipsChecksum,
        Self::DeletesUncommitted,
        Self::HidesLostLogs,
    ];
}
