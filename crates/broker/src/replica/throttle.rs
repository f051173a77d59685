//! Throttles of replication: limits to the bytes per second of those replicas that a topic names,
//! one for partitions that this broker leads and one for those that it follows.
//!
//! As in Kafka all bytes of the named replicas count, but only replicas out of sync wait: a
//! throttle must not take replicas out of the ISR.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use levada_cluster::replication::throttle::{RateMeter, Windows};
use parking_lot::Mutex;

use crate::clock::uptime_ms;
use crate::config::{BrokerConfig, LiveConfig, ThrottledReplicas, TopicConfig};
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

    /// True if a replica that is not in sync has to wait: the topic names it, and the rate is
    /// exceeded.
    pub(crate) fn holds_back(&self, partition: &Partition) -> bool {
        self.covers(partition) && self.is_exceeded()
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

    fn is_exceeded(&self) -> bool {
        let key = match self.side {
            Side::Leader => "leader.replication.throttled.rate",
            Side::Follower => "follower.replication.throttled.rate",
        };
        let limit = number(&self.config.load(), key);
        limit < i64::MAX && self.meter.lock().rate(uptime_ms()) > limit as f64
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
