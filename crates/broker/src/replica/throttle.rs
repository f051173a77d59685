//! Throttles of replication: limits to the bytes per second of those replicas that a topic names,
//! one for partitions that this broker leads and one for those that it follows.
//!
//! As in Kafka all bytes of the named replicas count, but only replicas out of sync wait: a
//! throttle must not take replicas out of the ISR.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use levada_cluster::replication::throttle::{RateMeter, Windows};
use levada_config::{BrokerConfig, ThrottledReplicas, TopicConfig};
use levada_process::clock::uptime_ms;
use parking_lot::Mutex;

use crate::live_config::LiveConfig;
use crate::replica::Partition;

/// The side of this broker in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Leader,
    Follower,
}

/// Both throttles of a broker.
pub(crate) struct Throttles {
    pub(crate) leader: Throttle,
    pub(crate) follower: Throttle,
}

/// Share of its rate that a follower uses. Most leaders have the same rate; a leader of Kafka that
/// has exceeded it holds the next fetch back for `replica.fetch.wait.max.ms`, and the burst after
/// that pause costs several percent.
const FOLLOWER_SHARE: f64 = 0.98;

/// The throttle of one side.
pub(crate) struct Throttle {
    side: Side,
    config: Arc<LiveConfig>,
    meter: Mutex<RateMeter>,
    bytes: AtomicU64,
}

impl Throttles {
    pub(crate) fn new(config: &Arc<LiveConfig>) -> Self {
        let throttle = |side| Throttle::new(side, config.clone());
        Self { leader: throttle(Side::Leader), follower: throttle(Side::Follower) }
    }
}

impl Throttle {
    fn new(side: Side, config: Arc<LiveConfig>) -> Self {
        let number = |key| number(&config.load(), key);
        let windows = Windows {
            samples: usize::try_from(number("replication.quota.window.num")).unwrap_or(usize::MAX),
            sample_ms: number("replication.quota.window.size.seconds").saturating_mul(1000),
        };
        let meter = Mutex::new(RateMeter::new(windows));
        Self { side, config, meter, bytes: AtomicU64::new(0) }
    }

    /// True if the topic names the replica of this broker.
    pub(crate) fn covers(&self, partition: &Partition) -> bool {
        self.named(&partition.config()).covers(partition.index(), self.config.load().node_id)
    }

    /// Time for which a replica that is not in sync has to wait, ms: the topic names it, and the
    /// rate is exceeded. None if it need not.
    ///
    /// Kafka's follower pauses for `replica.fetch.backoff.ms`. Its bursts after each pause are at
    /// the start of a sample, so that a tenth of the rate is lost.
    pub(crate) fn pause_ms(&self, partition: &Partition) -> Option<i64> {
        self.covers(partition).then(|| self.excess_ms()).filter(|excess_ms| *excess_ms > 0)
    }

    /// Counts bytes of a partition, if the throttle covers it.
    pub(crate) fn record(&self, partition: &Partition, bytes: u64) {
        if bytes == 0 || !self.covers(partition) {
            return;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.meter.lock().record(bytes, uptime_ms());
    }

    /// Number of bytes of covered replicas so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Milliseconds until the rate is no longer exceeded, 0 if it is not.
    fn excess_ms(&self) -> i64 {
        let key = match self.side {
            Side::Leader => "leader.replication.throttled.rate",
            Side::Follower => "follower.replication.throttled.rate",
        };
        let limit = number(&self.config.load(), key);
        if limit == i64::MAX {
            return 0;
        }
        let limit = match self.side {
            Side::Leader => limit,
            Side::Follower => (limit as f64 * FOLLOWER_SHARE) as i64,
        };
        self.meter.lock().excess_ms(limit, uptime_ms())
    }

    fn named<'a>(&self, config: &'a TopicConfig) -> &'a ThrottledReplicas {
        match self.side {
            Side::Leader => &config.leader_throttled,
            Side::Follower => &config.follower_throttled,
        }
    }
}

/// The value of an integer key.
pub(super) fn number(config: &BrokerConfig, key: &str) -> i64 {
    let value = config.settings().text(key).and_then(|value| value.parse().ok());
    value.expect("the table has an integer default and settings are checked")
}
