//! The state of the broker as log lines, written on SIGQUIT. The lines show where an unresponsive
//! broker spends its time.

use std::sync::atomic::Ordering;

use levada_coordination::group::coordinator::ListFilter as GroupFilter;
use levada_coordination::txn::coordinator::ListFilter as TxnFilter;
use levada_process::clock::{now_ms, whole_ms};

use crate::broker::Broker;
use crate::replica::Work;
use crate::server::shard::ShardHandle;
use crate::source::Source;

/// Limit of lines for partitions, and for the entries of each kind of coordinator. A separate line
/// has the totals.
const LINES_MAX: usize = 200;

/// Writes the state to the log: connections, shards, memory, stalls, partitions, coordinators.
pub(super) fn log_state(broker: &Broker, shards: &[ShardHandle]) {
    let stats = broker.stats();
    tracing::info!(open = stats.connections_open(), http = stats.http_connections(), "state: connections");
    for (shard, handle) in shards.iter().enumerate() {
        let waiting = handle.inbox.waiting();
        let connections = handle.connections.load(Ordering::Relaxed);
        tracing::info!(shard, connections, waiting, "state: shard");
    }
    tracing::info!(
        request_bytes = broker.request_memory().held_bytes(),
        resident_bytes = levada_process::usage::resident_bytes(),
        "state: memory"
    );
    for ((_, name), longest) in Work::ALL.iter().zip(broker.longest_lane_turns()) {
        let longest_ms = whole_ms(longest);
        tracing::info!(work = name, longest_ms, "state: longest stall of a partition's writer");
    }
    log_partitions(broker);
    log_groups(broker);
    log_transactions(broker);
}

fn log_partitions(broker: &Broker) {
    let partitions = broker.replicas().partitions().all();
    let (offline, recovery) = (broker.replicas().offline(), broker.replicas().recovery().progress());
    tracing::info!(served = partitions.len(), offline, recovering = recovery.left, "state: partitions");
    for partition in partitions.iter().take(LINES_MAX) {
        let log = partition.log();
        tracing::info!(
            partition = partition.name(),
            log_start = log.log_start(),
            last_stable = log.last_stable(),
            high_watermark = log.high_watermark(),
            log_end = log.log_end(),
            segments = log.segment_count(),
            writer_busy = partition.lane().is_busy(),
            "state: partition"
        );
    }
}

fn log_groups(broker: &Broker) {
    let filter = GroupFilter::default();
    let listed = broker.coordinators().groups().view_all(|coordinator| coordinator.list(&filter));
    let coordinators = listed.len();
    let groups: Vec<_> = listed.into_iter().flatten().flatten().collect();
    tracing::info!(coordinators, groups = groups.len(), "state: groups");
    for group in groups.iter().take(LINES_MAX) {
        tracing::info!(group = group.group_id, kind = group.group_type, state = group.state, "state: group");
    }
}

fn log_transactions(broker: &Broker) {
    let filter = TxnFilter { longer_than_ms: -1, ..TxnFilter::default() };
    let now = now_ms();
    let listed = broker.coordinators().txns().view_all(|coordinator| coordinator.list(&filter, now));
    let coordinators = listed.len();
    let ids: Vec<_> = listed.into_iter().flatten().flat_map(|listing| listing.transactions).collect();
    tracing::info!(coordinators, transactional_ids = ids.len(), "state: transactions");
    for one in ids.iter().take(LINES_MAX) {
        let (id, producer_id, state) = (&one.transactional_id, one.producer_id, one.state.name());
        tracing::info!(transactional_id = id, producer_id, state, "state: transactional id");
    }
}
