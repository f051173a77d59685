//! State that all replicated partitions of this broker share: the changes of replicas in sync on
//! their way to the controller, the standing of other brokers, the throttles, and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use levada_cluster::channel::RequestClass;
use levada_cluster::directories::ReplicaKey;
use levada_cluster::replication::leader::{BrokerStanding, ChangeOutcome, IsrChange, LeaderLimits};
use levada_cluster::replication::{IsrUpdates, Leader};
use levada_metadata::Metadata;
use levada_metadata::image::PartitionRegistration;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::{now_ms, uptime_ms};
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{AlterPartitionRequest, AlterPartitionResponse};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cluster::ClusterMembership;
use crate::live_config::LiveConfig;
use crate::replica::Replicas;
use crate::replica::lane::RepeatedWarning;
use crate::replica::throttle::Throttles;

/// Longest wait for a registration before the next check for changes.
const UNREGISTERED: Duration = Duration::from_millis(500);

/// Counts of changes of replicas in sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsrCounts {
    /// Number of changes by which replicas have joined.
    pub expansions: u64,
    /// Number of changes by which replicas have left.
    pub shrinks: u64,
    /// Number of changes that the controller has not made.
    pub failures: u64,
}

/// State of the partitions that this broker leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicationState {
    /// Number of replicated partitions that this broker leads.
    pub led: u64,
    /// Number of partitions with a replica out of sync.
    pub under_replicated: u64,
    /// Number of partitions with fewer replicas in sync than `min.insync.replicas`.
    pub under_min_insync: u64,
    /// Number of partitions that this broker should lead, as the first of their replicas, and that
    /// another broker leads, or none.
    pub preferred_not_led: u64,
    /// Changes of replicas in sync.
    pub changes: IsrCounts,
    /// Bytes of throttled replicas, sent as the leader and received as a follower.
    pub throttled_bytes: (u64, u64),
}

/// The shared state.
pub(crate) struct Replication {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    throttles: Throttles,
    updates: Mutex<IsrUpdates>,
    submitted: Notify,
    refusal_warning: RepeatedWarning,
    expansions: AtomicU64,
    shrinks: AtomicU64,
    failures: AtomicU64,
}

impl Replication {
    /// Number of partitions whose first replica is on this broker, and that it does not lead.
    fn preferred_not_led(&self) -> u64 {
        let (node_id, image) = (self.config.load().node_id, self.metadata.image());
        let is_misled =
            |one: &PartitionRegistration| one.replicas.first() == Some(&node_id) && one.leader != node_id;
        let all = image.topics().iter().flat_map(|topic| topic.partitions());
        all.filter(|(_, partition)| is_misled(partition)).count() as u64
    }

    pub(crate) fn new(config: Arc<LiveConfig>, metadata: Arc<Metadata>) -> Self {
        let (updates, submitted, refusal_warning) = Default::default();
        let (expansions, shrinks, failures) = Default::default();
        let throttles = Throttles::new(&config);
        Self {
            config,
            metadata,
            throttles,
            updates,
            submitted,
            refusal_warning,
            expansions,
            shrinks,
            failures,
        }
    }

    /// Limits to the bytes of replicas out of sync.
    pub(crate) fn throttles(&self) -> &Throttles {
        &self.throttles
    }

    pub(crate) fn node_id(&self) -> i32 {
        self.config.load().node_id
    }

    /// Limits for a topic with this `min.insync.replicas`.
    pub(crate) fn limits(&self, min_insync_replicas: i32) -> LeaderLimits {
        let min_insync_replicas = min_insync_replicas.max(1).unsigned_abs();
        LeaderLimits { min_insync_replicas, lag_ms_max: self.lag_ms_max() }
    }

    /// Longest time for which a replica in sync may lag.
    pub(crate) fn lag_ms_max(&self) -> i64 {
        self.config.load().cluster.as_ref().map_or(30_000, |cluster| cluster.replication.lag_max_ms)
    }

    /// State of a broker in the published metadata; none if it is not registered.
    pub(crate) fn broker_standing(&self, broker: i32) -> Option<BrokerStanding> {
        let image = self.metadata.image();
        let registered = image.brokers().broker(broker)?;
        Some(BrokerStanding {
            epoch: registered.broker_epoch,
            is_fenced: registered.fenced,
            is_stopping: registered.in_controlled_shutdown,
        })
    }

    /// State of a replica's broker in the published metadata. A replica whose log cannot serve, or
    /// accepts no records, counts as fenced.
    pub(crate) fn standing(&self, partition: ReplicaKey, broker: i32) -> Option<BrokerStanding> {
        let standing = self.broker_standing(broker)?;
        let image = self.metadata.image();
        let topic = image.topic_by_id(partition.topic_id());
        let is_lost = topic.and_then(|topic| topic.partition(partition.partition())).is_some_and(|one| {
            let at = one.replicas.iter().position(|replica| *replica == broker);
            at.and_then(|at| one.directories.get(at)) == Some(&LOST_DIRECTORY)
        });
        Some(BrokerStanding { is_fenced: standing.is_fenced || is_lost, ..standing })
    }

    /// Queues a change for the controller.
    pub(crate) fn submit(&self, partition: ReplicaKey, change: IsrChange) {
        self.updates.lock().submit(partition, change);
        self.submitted.notify_one();
    }

    /// Processes the outcome of a change.
    pub(crate) fn settled(&self, partition: ReplicaKey, outcome: ChangeOutcome) {
        let count = |of: &AtomicU64| of.fetch_add(1, Ordering::Relaxed);
        match outcome {
            ChangeOutcome::Committed { joined, left } => {
                if joined > 0 {
                    count(&self.expansions);
                }
                if left > 0 {
                    count(&self.shrinks);
                }
            }
            ChangeOutcome::Retry(change) => {
                count(&self.failures);
                self.updates.lock().retry(partition, change, uptime_ms());
                self.submitted.notify_one();
            }
            ChangeOutcome::Reset | ChangeOutcome::Unsettled => {
                count(&self.failures);
            }
            ChangeOutcome::Stale => {}
        }
    }

    /// The request that is due, with its number.
    pub(crate) fn request(&self, broker_epoch: i64) -> Option<(u64, AlterPartitionRequest)> {
        self.updates.lock().poll(self.node_id(), broker_epoch, uptime_ms())
    }

    /// Logs that the controller has refused a whole request: a line in half a minute, since the
    /// broker repeats the request.
    fn tell_refused(&self, code: i16) {
        if self.refusal_warning.is_due(now_ms()) {
            let error = ErrorCode::of_code(code).map_or("unknown", ErrorCode::name);
            tracing::warn!(
                code,
                error,
                "the controller refuses to change replicas in sync; the broker repeats the request"
            );
        } else {
            tracing::debug!(code, "the controller refuses to change replicas in sync");
        }
    }

    /// Counts since the start.
    pub(crate) fn isr_counts(&self) -> IsrCounts {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        IsrCounts {
            expansions: read(&self.expansions),
            shrinks: read(&self.shrinks),
            failures: read(&self.failures),
        }
    }

    /// Sleeps until a change may be due.
    async fn due(&self, is_registered: bool) {
        let retry_ms = self.updates.lock().deadline();
        let pause = match retry_ms {
            _ if !is_registered => Some(UNREGISTERED),
            Some(retry_ms) => {
                Some(Duration::from_millis(retry_ms.saturating_sub(uptime_ms()).max(1).unsigned_abs()))
            }
            None => None,
        };
        match pause {
            None => self.submitted.notified().await,
            Some(pause) => {
                let _ = tokio::time::timeout(pause, self.submitted.notified()).await;
            }
        }
    }
}

impl Replicas {
    /// Sends changes of replicas in sync to the controller, one request at a time; never returns.
    pub(crate) async fn run_isr_changes(self: Arc<Self>, membership: Arc<ClusterMembership>) {
        let replication = self.replication();
        loop {
            let epoch = membership.broker_epoch();
            let Some((number, request)) = epoch.and_then(|epoch| replication.request(epoch)) else {
                replication.due(epoch.is_some()).await;
                continue;
            };
            let answer =
                membership.request(RequestClass::Isr, controller::ALTER_PARTITION, request).await.ok();
            if let Some(code) = answer.as_ref().map(|answer| answer.error_code).filter(|code| *code != 0) {
                replication.tell_refused(code);
            }
            self.isr_answered(number, answer.as_ref());
        }
    }

    /// Processes the controller's response to a request.
    pub(crate) fn isr_answered(&self, number: u64, answer: Option<&AlterPartitionResponse>) {
        let results = self.replication().updates.lock().answered(number, answer, uptime_ms());
        for result in results {
            let (topic, index) = (result.partition.topic_id(), result.partition.partition());
            if let Some(led) = self.partitions().by_id(topic, index).and_then(|partition| partition.led()) {
                led.answered(&result);
            }
        }
    }

    /// Checks for replicas that have lagged too long, twice per `replica.lag.time.max.ms`; never
    /// returns.
    pub(crate) async fn run_lag_checks(self: Arc<Self>) {
        loop {
            let pause_ms = self.replication().lag_ms_max() / 2;
            tokio::time::sleep(Duration::from_millis(pause_ms.max(1).unsigned_abs())).await;
            self.check_lags(uptime_ms());
        }
    }

    /// State of the partitions that this broker leads.
    pub(crate) fn replication_state(&self) -> ReplicationState {
        let throttles = self.replication().throttles();
        let partitions = self.partitions().all();
        let mut state = ReplicationState {
            led: partitions.iter().filter(|partition| partition.leadership().is_leader()).count() as u64,
            changes: self.replication().isr_counts(),
            throttled_bytes: (throttles.leader.bytes(), throttles.follower.bytes()),
            preferred_not_led: self.replication().preferred_not_led(),
            ..ReplicationState::default()
        };
        for led in partitions.iter().filter_map(|partition| partition.led()) {
            let look = |leader: &Leader| (leader.is_under_replicated(), leader.is_under_min_insync());
            let (under_replicated, under_min_insync) = led.view(look).unwrap_or_default();
            state.under_replicated += u64::from(under_replicated);
            state.under_min_insync += u64::from(under_min_insync);
        }
        state
    }

    /// Checks for replicas that have lagged too long.
    pub(crate) fn check_lags(&self, now_ms: i64) {
        let all = self.partitions().all();
        // Replicas cannot fetch from a log that is offline, or whose storage is frozen: without
        // them in the ISR, no other broker could lead.
        let serves = |log: &levada_log::Partition| !log.is_offline() && !log.refuses_records();
        let serving = all.iter().filter(|partition| serves(partition.log()));
        for led in serving.filter_map(|partition| partition.led()) {
            led.check_lag(now_ms);
        }
    }
}
