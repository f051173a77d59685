//! The state of a running broker as others in its process see it: the HTTP address, and the dump of
//! the state.

mod membership;
mod remote;
mod states;

use std::time::Duration;

pub use self::membership::{FollowingState, MembershipState, PHASES};
pub use self::remote::{RemoteLogState, RemoteState};
pub use self::states::{
    ACKNOWLEDGEMENTS, DeadLetterCounts, GroupState, GroupStates, Lag, LogState, Readiness, ShareLag,
    ShareState, TelemetryState, TransactionStates, UpkeepState,
};
pub use crate::quota::QuotaUse;
pub use crate::replay::ReplayStats;
pub use crate::replica::replication::IsrCounts;
pub use crate::replica::{CleanerStats, RecoveryProgress, ReplicationState, TrafficTotals, Work};
pub use crate::stats::{
    ApiTotals, BOUNDS_US, BusiestClients, ByteRates, ClientTraffic, Durations, HttpConnection, LagSample,
    ListenerCounts, NamedClient, OpenConnection, Phase, Recorder, Stats,
};

/// State of a running broker, for the HTTP address. Scrapes call it on a thread that may wait,
/// other requests on the HTTP thread.
pub trait Source: Send + Sync + 'static {
    /// Bytes and calls by path.
    fn transfers(&self) -> levada_io::Snapshot;

    /// Counts and times of requests.
    fn stats(&self) -> &Stats;

    /// Partitions on this broker.
    fn partitions(&self) -> u64;

    /// Memory of requests that are being received or processed, where it is limited.
    fn request_bytes_held(&self) -> u64;

    /// Partitions with their logs and traffic, by topic and number.
    fn logs(&self) -> Vec<LogState>;

    /// The state of the background work on all logs.
    fn upkeep(&self) -> UpkeepState;

    /// Groups with their lag.
    fn groups(&self) -> GroupStates;

    /// Share groups in the partitions that this broker leads.
    fn shares(&self) -> ShareState;

    /// Tiered storage; none while it is off.
    fn remote(&self) -> Option<RemoteState>;

    /// Client telemetry.
    fn telemetry(&self) -> TelemetryState;

    /// Transactional ids, and transactions that have ended.
    fn transactions(&self) -> TransactionStates;

    /// Counts of compaction.
    fn cleaner(&self) -> CleanerStats;

    /// Admission to the page cache of old records that were read from the disk.
    fn replays(&self) -> ReplayStats;

    /// Progress of the recovery after an unclean stop.
    fn recovery(&self) -> RecoveryProgress;

    /// The longest time for which each kind of work has held the writer of a partition, in the
    /// order of [`Work::ALL`].
    fn longest_lane_turns(&self) -> [Duration; Work::ALL.len()];

    /// The clients that use the largest shares of their quotas, at most this number.
    fn quota_uses(&self, most: usize) -> Vec<QuotaUse>;

    /// The reason why the broker cannot serve, if it cannot.
    fn unhealthy(&self) -> Option<String>;

    /// Partitions that this broker leads among other replicas.
    fn replication(&self) -> ReplicationState;

    /// State of the parts of the broker that clients need.
    fn readiness(&self) -> Readiness;

    /// Membership in a cluster; none for a broker that is its own controller.
    fn membership(&self) -> Option<MembershipState>;

    /// Partitions that follow other brokers.
    fn following(&self) -> FollowingState;
}
