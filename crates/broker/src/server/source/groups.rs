//! Groups with their lag, and transactions, for the HTTP address.

use levada_coordination::group::coordinator::{MonitoredGroup, Room};
use levada_coordination::txn::LATE_AFTER_MS;
use levada_process::clock::now_ms;

use crate::broker::Broker;
use crate::source::{GroupState, GroupStates, Lag, TransactionStates};
use crate::stats::LagSample;

/// Groups, and committed offsets of all groups, that a scrape shows.
const GROUPS_MAX: usize = 1_000;
pub(super) const OFFSETS_MAX: usize = 10_000;

/// Bytes of the id of a group that a scrape shows. Each committed offset repeats the id, and Kafka
/// allows 32 KiB.
const ID_BYTES_MAX: usize = 256;

/// Maximum number of committed offsets with a lag in seconds: each needs a lookup in a log.
const TIMES_MAX: usize = 2_000;

pub(super) fn groups(broker: &Broker) -> GroupStates {
    let mut room = Room { groups: GROUPS_MAX, offsets: OFFSETS_MAX, id_bytes: ID_BYTES_MAX };
    let listed = broker.coordinators().groups().view_all(|coordinator| coordinator.monitored(&mut room));
    let (mut times, now_ms) = (TIMES_MAX, now_ms());
    let mut states = GroupStates::default();
    for (groups, left_out) in listed {
        states.groups_left_out += left_out as u64;
        states.groups.extend(groups.into_iter().map(|group| state(broker, group, &mut times, now_ms)));
    }
    states.groups.sort_by(|one, other| one.group.cmp(&other.group));
    states
}

/// Adds the lag of each group to the history that the console shows.
pub(super) fn remember(broker: &Broker, states: &GroupStates) {
    let now_ms = now_ms();
    let samples = states.groups.iter().map(|group| {
        let records = group.lags.iter().map(|lag| lag.records).sum();
        (group.group.as_str(), LagSample { at_ms: now_ms, records, seconds: group.seconds() })
    });
    broker.stats().lags().record(samples, now_ms);
}

fn state(broker: &Broker, group: MonitoredGroup, times: &mut usize, now_ms: i64) -> GroupState {
    let offsets = group.offsets.into_iter();
    GroupState {
        group: group.listed.group_id,
        kind: group.listed.group_type,
        state: group.listed.state,
        members: group.members as u64,
        rebalances: u64::try_from(group.rebalances).unwrap_or(0),
        lags: offsets.filter_map(|committed| lag(broker, committed, times, now_ms)).collect(),
    }
}

/// A committed offset: topic, partition, offset.
type Committed = (String, i32, i64);

/// Lag behind a committed offset; none if the partition is not served.
fn lag(broker: &Broker, committed: Committed, times: &mut usize, now_ms: i64) -> Option<Lag> {
    let (topic, partition, committed) = committed;
    let found = broker.replicas().partitions().by_name(&topic, partition)?;
    let log = found.log();
    let records = u64::try_from(log.high_watermark().saturating_sub(committed)).unwrap_or(0);
    let seconds = match records {
        0 => Some(0.0),
        _ if *times == 0 => None,
        _ => {
            *times -= 1;
            let first = log.times().of_batch(committed.max(log.log_start())).ok().flatten();
            first.filter(|ms| *ms >= 0).map(|ms| now_ms.saturating_sub(ms).max(0) as f64 / 1000.0)
        }
    };
    Some(Lag { topic, partition, committed, records, seconds })
}

pub(super) fn transactions(broker: &Broker) -> TransactionStates {
    let mut states = TransactionStates::default();
    broker.coordinators().txns().view_all(|coordinator| {
        for state in coordinator.states() {
            *states.ids.entry(state.name()).or_default() += 1;
        }
        let ended = coordinator.ended();
        states.committed += ended.committed;
        states.aborted += ended.aborted;
    });
    let limit_ms = i64::from(broker.config().transactions.max_timeout_ms) + LATE_AFTER_MS;
    let late_before_ms = now_ms() - limit_ms;
    let open = broker.replicas().partitions().all().into_iter().filter(|partition| {
        let log = partition.log();
        log.last_stable() < log.high_watermark()
    });
    // A partition whose writer is at work is looked at the next time.
    let stalest = |partition: &crate::replica::Partition| {
        partition.lane().look_at_writer(|writer| writer.stalest_open_transaction_ms()).flatten()
    };
    let late = open.filter(|partition| stalest(partition).is_some_and(|ms| ms < late_before_ms));
    states.late_partitions = late.count() as u64;
    states
}
