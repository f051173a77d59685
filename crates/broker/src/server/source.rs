//! Data of the running broker for the HTTP address.

mod groups;
mod membership;
mod remote;

use std::path::Path;
use std::time::Duration;

use levada_wire::Uuid;

use crate::broker::Broker;
use crate::replay::ReplayStats;
use crate::replica::{CleanerStats, Partition, RecoveryProgress, ReplicationState, TrafficTotals, Work};
use crate::source::{
    FollowingState, GroupStates, LogState, MembershipState, QuotaUse, Readiness, RemoteState, ShareState,
    Source, TelemetryState, TransactionStates, UpkeepState,
};
use crate::stats::Stats;

impl Source for Broker {
    fn transfers(&self) -> levada_io::Snapshot {
        Self::transfers(self).counters().snapshot()
    }

    fn stats(&self) -> &Stats {
        Self::stats(self)
    }

    fn partitions(&self) -> u64 {
        self.replicas().partitions().count() as u64
    }

    fn request_bytes_held(&self) -> u64 {
        self.request_memory().held_bytes()
    }

    fn logs(&self) -> Vec<LogState> {
        let partitions = self.replicas().partitions().all();
        let mut logs: Vec<LogState> = partitions.iter().map(|partition| state(partition)).collect();
        logs.sort_unstable_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
        logs
    }

    fn upkeep(&self) -> UpkeepState {
        let upkeep = self.replicas().upkeep();
        let (retention_segments, retention_bytes) = upkeep.retention();
        let volumes = self.replicas().dirs().online().filter_map(|dir| {
            let volume = rustix::fs::statvfs(dir.path()).ok()?;
            let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
            Some((dir.path().display().to_string(), bytes(volume.f_bavail), bytes(volume.f_blocks)))
        });
        UpkeepState {
            flushes: upkeep.flushes(),
            retention_segments,
            retention_bytes,
            volumes: volumes.collect(),
            log_bytes: log_bytes(self),
            offline_directories: self.replicas().dirs().offline().count() as u64,
            refusing_directories: self.replicas().dirs().refusing().count() as u64,
        }
    }

    fn groups(&self) -> GroupStates {
        let states = groups::groups(self);
        groups::remember(self, &states);
        states
    }

    fn transactions(&self) -> TransactionStates {
        groups::transactions(self)
    }

    fn shares(&self) -> ShareState {
        self.share_partitions().shown(groups::OFFSETS_MAX)
    }

    fn remote(&self) -> Option<RemoteState> {
        remote::remote(self)
    }

    fn telemetry(&self) -> TelemetryState {
        Self::telemetry(self).state()
    }

    fn cleaner(&self) -> CleanerStats {
        self.replicas().cleaner().stats()
    }

    fn replays(&self) -> ReplayStats {
        Self::transfers(self).replays().stats()
    }

    fn recovery(&self) -> RecoveryProgress {
        self.replicas().recovery().progress()
    }

    fn longest_lane_turns(&self) -> [Duration; Work::ALL.len()] {
        let partitions = self.replicas().partitions().all();
        let longest = |work| partitions.iter().map(|partition| partition.lane().longest_turn(work)).max();
        Work::ALL.map(|(work, _)| longest(work).unwrap_or_default())
    }

    fn replication(&self) -> ReplicationState {
        self.replicas().replication_state()
    }

    fn quota_uses(&self, most: usize) -> Vec<QuotaUse> {
        self.quotas().uses(most)
    }

    fn readiness(&self) -> Readiness {
        let (recovering, coordinators) = self.replicas().recovering();
        Readiness {
            stopping: self.is_stopping(),
            recovering_partitions: recovering as u64,
            loading_coordinators: coordinators as u64,
            offline_partitions: self.replicas().offline() as u64,
            offline_directories: offline_directories(self),
            refusing_directories: refusing_directories(self),
            warnings: self.replicas().warnings(),
            membership: Source::membership(self),
        }
    }

    fn membership(&self) -> Option<MembershipState> {
        Some(Self::membership(self)?.status().into())
    }

    fn following(&self) -> FollowingState {
        let Some(fetchers) = &self.publisher().fetchers else { return FollowingState::default() };
        let image = self.metadata().image();
        let named = |((topic, index), lag): ((Uuid, i32), i64)| {
            Some((image.topic_by_id(topic)?.name().to_string(), index, lag))
        };
        let mut lags: Vec<_> = fetchers.lags().into_iter().filter_map(named).collect();
        lags.sort_unstable();
        FollowingState { lags, errors: fetchers.errors(), bytes: fetchers.bytes() }
    }

    fn unhealthy(&self) -> Option<String> {
        let offline = self.replicas().offline();
        let directories = offline_directories(self);
        let lost = (!directories.is_empty()).then(|| {
            format!(
                "log directories are offline: {}; check the disks, then restart the broker",
                directories.join(", ")
            )
        });
        lost.or_else(|| {
            (offline > 0).then(|| {
                format!("{offline} partitions are offline after a failure of their storage; see the log")
            })
        })
    }
}

/// Bytes of the logs in each directory in service.
fn log_bytes(broker: &Broker) -> Vec<(String, u64)> {
    let partitions = broker.replicas().partitions().all();
    let in_dir = |path: &Path| {
        let own = partitions.iter().filter(|partition| partition.log().dir().parent() == Some(path));
        own.map(|partition| partition.log().size_bytes()).sum::<u64>()
    };
    let dirs = broker.replicas().dirs().online();
    dirs.map(|dir| (dir.path().display().to_string(), in_dir(dir.path()))).collect()
}

fn offline_directories(broker: &Broker) -> Vec<String> {
    broker.replicas().dirs().offline().map(|path| path.display().to_string()).collect()
}

fn refusing_directories(broker: &Broker) -> Vec<String> {
    broker.replicas().dirs().refusing().map(|dir| dir.path().display().to_string()).collect()
}

fn state(partition: &Partition) -> LogState {
    let log = partition.log();
    let mut traffic = TrafficTotals::default();
    partition.traffic().add_to(&mut traffic);
    LogState {
        topic: partition.shared_topic(),
        partition: partition.index(),
        size_bytes: log.size_bytes(),
        start: log.log_start(),
        end: log.log_end(),
        traffic,
        durability: partition.config().durability(),
    }
}
