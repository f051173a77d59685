//! Events of a leader, and their effects.

/// Broker epoch of a follower that does not name one; the controller then checks none.
pub const NO_BROKER_EPOCH: i64 = -1;

/// State of a broker in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerStanding {
    /// Epoch of its registration.
    pub epoch: i64,
    /// True if the broker is fenced: it does not count as alive.
    pub is_fenced: bool,
    /// True if it is in a controlled shutdown.
    pub is_stopping: bool,
}

/// Function that looks up a broker in the latest metadata.
pub type Standings<'a> = &'a dyn Fn(i32) -> Option<BrokerStanding>;

/// Registration of the partition in the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedRegistration {
    /// Grows with every leader.
    pub leader_epoch: i32,
    /// Grows with every change.
    pub partition_epoch: i32,
    /// Broker ids of all replicas, this broker's included.
    pub replicas: Vec<i32>,
    /// The replicas in sync. May be empty.
    pub isr: Vec<i32>,
}

/// Offsets of the log at the beginning of a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedLog {
    /// The log end, at which the log has durably begun the leader epoch.
    pub log_end: i64,
    /// The high watermark.
    pub high_watermark: i64,
}

/// Limits from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderLimits {
    /// `min.insync.replicas` of the topic.
    pub min_insync_replicas: u32,
    /// `replica.lag.time.max.ms`.
    pub lag_ms_max: i64,
}

/// Fetch of a follower, after the log was read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Broker id of the follower.
    pub replica: i32,
    /// Broker epoch of the follower; [`NO_BROKER_EPOCH`] if the request has none.
    pub broker_epoch: i64,
    /// Leader epoch that the fetch was checked in, before the log was read.
    pub leader_epoch: i32,
    /// Offset of the fetch: the follower's log end.
    pub offset: i64,
    /// The follower's log start.
    pub log_start: i64,
    /// Log end offset of this broker before the log was read.
    pub leader_end: i64,
}

/// Reason for which a follower's fetch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchRefusal {
    /// The metadata of one of the two brokers is older than that of the other.
    #[error("broker {0} has no replica of the partition")]
    NotAssigned(i32),
    /// The fetch is one of an earlier life of the broker.
    #[error(
        "the fetch of broker {replica} has broker epoch {fetched}, which epoch {registered} has replaced"
    )]
    StaleBrokerEpoch {
        /// Broker id of the follower.
        replica: i32,
        /// Broker epoch of the fetch.
        fetched: i64,
        /// Broker epoch in the metadata.
        registered: i64,
    },
    /// The log was read for the fetch in another leader epoch: it may have been truncated below the
    /// position since.
    #[error("the fetch of broker {replica} was read in leader epoch {read}, the present one is {present}")]
    OtherLeaderEpoch {
        /// Broker id of the follower.
        replica: i32,
        /// Leader epoch of the read.
        read: i32,
        /// Leader epoch that this broker leads in.
        present: i32,
    },
}

/// Change of the ISR that the controller has to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrChange {
    /// Number of the change, never used twice for one partition: the machine of each leader epoch
    /// begins with others.
    pub number: u64,
    /// Leader epoch in which the change was decided.
    pub leader_epoch: i32,
    /// Partition epoch that the change follows.
    pub partition_epoch: i32,
    /// The next ISR with the broker epochs for which its members were checked. This broker's own
    /// entry has [`NO_BROKER_EPOCH`]; [`IsrUpdates`](crate::replication::IsrUpdates) fills it in.
    pub isr: Vec<(i32, i64)>,
}

/// ISR that the controller has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedIsr {
    /// Leader epoch at the controller.
    pub leader_epoch: i32,
    /// Partition epoch after the change. It equals the previous one if nothing had to change.
    pub partition_epoch: i32,
    /// The replicas in sync.
    pub isr: Vec<i32>,
}

/// Result of an event, for the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the log has to take the high watermark, and the controller the change"]
pub struct Effects {
    /// The high watermark, if it has risen.
    pub high_watermark: Option<i64>,
    /// A change for the controller.
    pub change: Option<IsrChange>,
}

/// Result of a response of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The ISR is that of the response.
    Committed {
        /// Number of replicas that have joined.
        joined: usize,
        /// Number of replicas that have left.
        left: usize,
    },
    /// The change was not made, and the committed ISR is in force again.
    Reset,
    /// Later metadata will show if the change was made. It limits the high watermark until then.
    Unsettled,
    /// Send the same change again after a pause.
    Retry(IsrChange),
    /// The response is about a change that is no longer pending, or older than the metadata.
    Stale,
}
