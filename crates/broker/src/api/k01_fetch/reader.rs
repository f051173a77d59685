//! The peer that fetches: a consumer or a follower, the records that it may see, and the replica
//! that it should read from.

use std::time::Duration;

use levada_cluster::replication::follower::LogEnd;
use levada_cluster::replication::leader::FollowerFetch;
use levada_cluster::replication::recount::ReplicaEnd;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{FetchPartition, FetchRequest};

use crate::api::Context;
use crate::replica::Partition;

const READ_COMMITTED: i8 = 1;
/// First version in which a consumer can read from a follower (KIP-392).
const ANY_REPLICA_VERSION_MIN: i16 = 11;
/// Key of the replica selector; its only valid class is that of [`nearest`].
const SELECTOR: &str = "replica.selector.class";

/// The peer that fetches.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Consumer {
        committed_only: bool,
        /// True if the client can read from a follower.
        any_replica: bool,
    },
    /// The broker of another replica.
    Follower { id: i32, broker_epoch: i64 },
}

impl Reader {
    pub(super) fn of(request: &FetchRequest, version: i16) -> Self {
        match request.replica_id {
            id if id >= 0 => Self::Follower { id, broker_epoch: request.replica_epoch },
            _ => Self::Consumer {
                committed_only: request.isolation_level == READ_COMMITTED,
                any_replica: version >= ANY_REPLICA_VERSION_MIN,
            },
        }
    }

    pub(super) fn is_follower(self) -> bool {
        matches!(self, Self::Follower { .. })
    }

    /// Checks that this broker may serve the partition. For a refused follower, returns where the
    /// log ends.
    pub(super) fn check(self, partition: &Partition, wanted: &FetchPartition) -> Result<(), ErrorCode> {
        // As in Kafka, any negative epoch means that there is none.
        let known = wanted.current_leader_epoch.max(-1);
        match self {
            Self::Follower { id, broker_epoch } => partition.check_follower(id, known).inspect_err(|_| {
                let (offset, epoch) = (wanted.fetch_offset, wanted.last_fetched_epoch);
                let end = LogEnd { offset, epoch };
                partition.hear(ReplicaEnd { replica: id, broker_epoch, leader_epoch: known, end });
            }),
            Self::Consumer { any_replica: true, .. } => partition.check_replica(known),
            Self::Consumer { any_replica: false, .. } => partition.check_leader(known),
        }
    }

    /// Takes the position of a follower, which has everything before the offset that it fetches, in
    /// the leader epoch and with the end of the log of before the read.
    pub(super) fn take_position(
        self,
        partition: &Partition,
        wanted: &FetchPartition,
        (leader_epoch, leader_end): (i32, i64),
    ) -> Result<(), ErrorCode> {
        let Self::Follower { id: replica, broker_epoch } = self else { return Ok(()) };
        let (offset, log_start) = (wanted.fetch_offset, wanted.log_start_offset);
        let fetch = FollowerFetch { replica, broker_epoch, leader_epoch, offset, log_start, leader_end };
        partition.follower_fetched(fetch)
    }

    /// Time for which a throttle leaves out the records of a follower that is not in sync. None if
    /// it does not.
    pub(super) fn throttled_for(self, partition: &Partition) -> Option<Duration> {
        let Self::Follower { id, .. } = self else { return None };
        partition.throttled_ms(id).map(|ms| Duration::from_millis(ms.unsigned_abs()))
    }

    /// The offset before which the reader may see records.
    pub(super) fn upto(self, log: &levada_log::Partition) -> i64 {
        match self {
            Self::Follower { .. } => log.log_end(),
            Self::Consumer { committed_only: true, .. } => log.last_stable(),
            Self::Consumer { committed_only: false, .. } => log.high_watermark(),
        }
    }
}

/// The replica that the consumer should read from instead of this one: in sync, in the consumer's
/// rack, with the offset and with the consumer's listener, and of these the replica with the latest
/// log end (KIP-392). A consumer that does not know the broker would ask the leader again.
pub(super) fn nearest(
    context: &Context,
    request: &FetchRequest,
    partition: &Partition,
    wanted: &FetchPartition,
) -> Option<i32> {
    let (rack, config) = (request.rack_id.as_str(), context.broker().config());
    if rack.is_empty() || request.replica_id >= 0 || config.rack.as_deref() == Some(rack) {
        return None;
    }
    config.settings().text(SELECTOR).filter(|class| !class.is_empty())?;
    let holders = partition.led()?.view(|leader| leader.holders(wanted.fetch_offset))?;
    let image = context.broker().metadata().image();
    let listener = &context.info.listener.name;
    let is_near = |id: &i32| {
        let broker = image.brokers().broker(*id).filter(|broker| !broker.fenced);
        let broker = broker.filter(|broker| broker.rack.as_deref() == Some(rack));
        broker.is_some_and(|broker| broker.end_points.iter().any(|one| one.name == *listener))
    };
    holders.into_iter().map(|(id, _)| id).find(is_near)
}
