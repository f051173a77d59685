//! States of the parts of a broker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use levada_telemetry::Exported;

use super::membership::MembershipState;
use crate::replica::TrafficTotals;
use crate::stats::Durations;

/// State of the parts of the broker that clients need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// True once the broker has begun to stop.
    pub stopping: bool,
    /// Number of partitions whose logs are still to be checked after an unclean stop.
    pub recovering_partitions: u64,
    /// Number of coordinators of groups and transactions that wait for their partition.
    pub loading_coordinators: u64,
    /// Number of partitions that are offline after a failure of their storage.
    pub offline_partitions: u64,
    /// Data directories that are offline.
    pub offline_directories: Vec<String>,
    /// Data directories whose storage refuses records.
    pub refusing_directories: Vec<String>,
    /// Texts about logs that lack records. They do not make the broker unready.
    pub warnings: Vec<String>,
    /// Membership in a cluster; none for a broker that is its own controller.
    pub membership: Option<MembershipState>,
}

impl Readiness {
    /// One sentence for each reason not to send clients here; none if the broker is ready.
    pub fn reasons(&self) -> Vec<String> {
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let stopping = self.stopping.then(|| "the broker is stopping".to_owned());
        let recovering = "partitions are being recovered after an unclean stop";
        let loading = "coordinators of groups or transactions are loading";
        let offline = "partitions are offline after a failure of their storage; see the log";
        let reasons = [
            stopping,
            self.membership.as_ref().and_then(MembershipState::reason),
            counted(self.recovering_partitions, recovering),
            counted(self.loading_coordinators, loading),
            counted(self.offline_partitions, offline),
            (!self.offline_directories.is_empty())
                .then(|| format!("log directories are offline: {}", self.offline_directories.join(", "))),
            (!self.refusing_directories.is_empty()).then(|| {
                format!(
                    "log directories refuse records, for example because they are full: {}",
                    self.refusing_directories.join(", ")
                )
            }),
        ];
        reasons.into_iter().flatten().collect()
    }
}

/// The groups in `/metrics`, up to its limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStates {
    /// The given groups.
    pub groups: Vec<GroupState>,
    /// Number of further groups.
    pub groups_left_out: u64,
}

/// A group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupState {
    /// Name of the group.
    pub group: String,
    /// `classic` or `consumer`.
    pub kind: &'static str,
    /// State of the group, as Kafka's tools print it.
    pub state: &'static str,
    /// Number of members.
    pub members: u64,
    /// Number of rebalances.
    pub rebalances: u64,
    /// Lag in each partition for which the group has committed an offset.
    pub lags: Vec<Lag>,
}

impl GroupState {
    /// Age in seconds of the oldest record that the group has not committed; none if the age of one
    /// is unknown.
    pub fn seconds(&self) -> Option<f64> {
        self.lags.iter().map(|lag| lag.seconds).try_fold(0.0, |most: f64, one| Some(most.max(one?)))
    }
}

/// Lag of a group in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag {
    /// Topic of the partition.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// Committed offset.
    pub committed: i64,
    /// Number of records from the committed offset to the high watermark.
    pub records: u64,
    /// Age of the first of these records in seconds; 0 if there are none, and unknown if the record
    /// cannot be read.
    pub seconds: Option<f64>,
}

/// Transactional ids, and transactions that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionStates {
    /// Number of transactional ids by state.
    pub ids: BTreeMap<&'static str, u64>,
    /// Number of transactions committed by this process.
    pub committed: u64,
    /// Number of transactions aborted by this process.
    pub aborted: u64,
    /// Number of partitions with a transaction that should have been ended by its coordinator.
    pub late_partitions: u64,
}

/// A partition and its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Topic of the partition.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
    /// Bytes of all segments.
    pub size_bytes: u64,
    /// First offset of the log.
    pub start: i64,
    /// Offset that the next record gets.
    pub end: i64,
    /// Traffic since the broker serves the partition.
    pub traffic: TrafficTotals,
    /// Durability label of the topic's acknowledgements.
    pub durability: Cow<'static, str>,
}

/// The upkeep of all logs since the start, and the volumes that they are on.
#[derive(Clone, Debug, Default)]
pub struct UpkeepState {
    /// Durations of flushes.
    pub flushes: Durations,
    /// Number of segments that retention has deleted.
    pub retention_segments: u64,
    /// Bytes of the segments that retention has deleted.
    pub retention_bytes: u64,
    /// Data directories in service, with the free and total bytes of their volumes if the kernel
    /// reports them.
    pub volumes: Vec<(String, u64, u64)>,
    /// Data directories in service, with the bytes of their logs.
    pub log_bytes: Vec<(String, u64)>,
    /// Number of data directories that are offline.
    pub offline_directories: u64,
    /// Number of data directories whose storage refuses records.
    pub refusing_directories: u64,
}

/// The kinds of acknowledgements of share groups, by their numbers in a request.
pub const ACKNOWLEDGEMENTS: [&str; 5] = ["gap", "accept", "release", "reject", "renew"];

/// Share groups in the partitions that a broker leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareState {
    /// Number of members with a share session.
    pub sessions: u64,
    /// Number of partitions with a delivery state in memory, once for each group.
    pub partitions: u64,
    /// The partitions, up to a limit.
    pub lags: Vec<ShareLag>,
    /// Times from the first fetch of a group in a partition until its delivery state was in memory.
    pub loads: Durations,
    /// Memory for records in flight, in bytes.
    pub tracked_bytes: u64,
    /// Number of records acquired since the start.
    pub acquired_records: u64,
    /// Number of records whose lock has ended without an acknowledgement, since the start.
    pub expired_records: u64,
    /// Records acknowledged since the start, in the order of [`ACKNOWLEDGEMENTS`].
    pub acknowledged_records: [u64; ACKNOWLEDGEMENTS.len()],
    /// Dead letters by group. Groups from a limit on have the empty name together.
    pub dead_letters: Vec<(Arc<str>, DeadLetterCounts)>,
}

/// Dead letters of a share group since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterCounts {
    /// Number of records whose dead letter was written.
    pub written: u64,
    /// Number of records that were archived without a dead letter.
    pub given_up: u64,
    /// Number of batches sent to dead letter topics, repetitions included.
    pub requests: u64,
    /// Number of batches that were abandoned.
    pub failed_requests: u64,
}

/// Lag of a share group in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareLag {
    /// The group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Number of records whose delivery the group has not completed.
    pub records: u64,
    /// Offsets between the first of these and the last that was acquired.
    pub in_flight: u64,
    /// Number of tracked batches between these offsets.
    pub in_flight_batches: u64,
    /// Number of records whose lock has ended without an acknowledgement, in the present leader
    /// epoch.
    pub expired: u64,
    /// Number of fetches that have held the fetch lock of the partition, in the present leader
    /// epoch.
    pub fetches: u64,
    /// Time for which they have held it.
    pub locked: Duration,
}

/// Client telemetry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetryState {
    /// Number of client instances.
    pub instances: u64,
    /// Number of clients whose metrics are kept.
    pub clients: u64,
    /// Number of series of these instances.
    pub series: u64,
    /// Memory of the series in bytes, about.
    pub bytes: u64,
    /// Number of pushes that were accepted.
    pub pushes: u64,
    /// Number of requests that arrived too early.
    pub throttled: u64,
    /// Number of pushes for other subscriptions than the client's.
    pub unknown_subscriptions: u64,
    /// Number of payloads that could not be read.
    pub damaged: u64,
    /// Number of clients evicted for others.
    pub clients_evicted: u64,
    /// Number of points that were left out.
    pub points_left_out: u64,
    /// Series that the metrics show.
    pub exported: Vec<Exported>,
    /// Number of series beyond the limit of one scrape.
    pub not_exported: u64,
}
