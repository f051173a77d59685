//! Groups with their lag, and transactions.

use levada_broker::source::{
    ACKNOWLEDGEMENTS, DeadLetterCounts, GroupStates, ShareLag, ShareState, TransactionStates,
};
use std::fmt;
use std::sync::Arc;

use super::catalogue;
use super::exposition::Families;
use super::requests::buckets;

/// A value of a share group at a leader.
type ShareValue = fn(&ShareLag) -> u64;

impl Families<'_> {
    pub(super) fn groups(&mut self, states: &GroupStates) -> fmt::Result {
        let groups = &states.groups;
        let mut series = self.family(catalogue::GROUP_MEMBERS)?;
        groups.iter().try_for_each(|one| series.gauge(&[&one.group], one.members))?;
        let mut series = self.family(catalogue::GROUP_STATE)?;
        groups.iter().try_for_each(|one| series.gauge(&[&one.group, one.kind, one.state], 1_u64))?;
        let mut series = self.family(catalogue::GROUP_REBALANCES)?;
        groups.iter().try_for_each(|one| series.counter(&[&one.group], one.rebalances))?;
        let lags = || groups.iter().flat_map(|one| one.lags.iter().map(|lag| (one.group.as_str(), lag)));
        let mut series = self.family(catalogue::GROUP_COMMITTED)?;
        for (group, lag) in lags() {
            series.gauge(&[group, &lag.topic, &lag.partition.to_string()], lag.committed)?;
        }
        let mut series = self.family(catalogue::GROUP_LAG_RECORDS)?;
        for (group, lag) in lags() {
            series.gauge(&[group, &lag.topic, &lag.partition.to_string()], lag.records)?;
        }
        let mut series = self.family(catalogue::GROUP_LAG_SECONDS)?;
        for (group, lag) in lags() {
            if let Some(seconds) = lag.seconds {
                series.gauge(&[group, &lag.topic, &lag.partition.to_string()], seconds)?;
            }
        }
        self.gauge(catalogue::GROUPS_LEFT_OUT, states.groups_left_out)
    }

    pub(super) fn shares(&mut self, state: &ShareState, topics: bool) -> fmt::Result {
        self.gauge(catalogue::SHARE_SESSIONS, state.sessions)?;
        self.gauge(catalogue::SHARE_PARTITIONS, state.partitions)?;
        self.gauge(catalogue::SHARE_MEMORY, state.tracked_bytes)?;
        self.counter(catalogue::SHARE_ACQUIRED, state.acquired_records)?;
        self.counter(catalogue::SHARE_EXPIRED, state.expired_records)?;
        let mut series = self.family(catalogue::SHARE_ACKNOWLEDGED)?;
        for (kind, records) in ACKNOWLEDGEMENTS.iter().zip(state.acknowledged_records) {
            series.counter(&[kind], records)?;
        }
        self.dead_letters(&state.dead_letters)?;
        let mut series = self.family(catalogue::SHARE_LOADS)?;
        series.histogram(&[], state.loads.sum_ns as f64 / 1e9, &buckets(&state.loads))?;
        if topics { self.share_partitions(&state.lags) } else { Ok(()) }
    }

    fn share_partitions(&mut self, lags: &[ShareLag]) -> fmt::Result {
        let gauges: [(_, ShareValue); 3] = [
            (catalogue::SHARE_LAG, |lag| lag.records),
            (catalogue::SHARE_IN_FLIGHT, |lag| lag.in_flight),
            (catalogue::SHARE_BATCHES, |lag| lag.in_flight_batches),
        ];
        for (family, value) in gauges {
            let mut series = self.family(family)?;
            for lag in lags {
                series.gauge(&[&lag.group, &lag.topic, &lag.partition.to_string()], value(lag))?;
            }
        }
        let counters: [(_, ShareValue); 2] = [
            (catalogue::SHARE_PARTITION_EXPIRED, |lag| lag.expired),
            (catalogue::SHARE_FETCHES, |lag| lag.fetches),
        ];
        for (family, value) in counters {
            let mut series = self.family(family)?;
            for lag in lags {
                series.counter(&[&lag.group, &lag.topic, &lag.partition.to_string()], value(lag))?;
            }
        }
        let mut series = self.family(catalogue::SHARE_LOCKED)?;
        for lag in lags {
            let seconds = lag.locked.as_secs_f64();
            series.counter_f64(&[&lag.group, &lag.topic, &lag.partition.to_string()], seconds)?;
        }
        Ok(())
    }

    fn dead_letters(&mut self, groups: &[(Arc<str>, DeadLetterCounts)]) -> fmt::Result {
        let mut series = self.family(catalogue::SHARE_DEAD_LETTERS)?;
        for (group, counts) in groups {
            series.counter(&[group, "written"], counts.written)?;
            series.counter(&[group, "given_up"], counts.given_up)?;
        }
        let mut series = self.family(catalogue::SHARE_DEAD_LETTER_REQUESTS)?;
        groups.iter().try_for_each(|(group, counts)| series.counter(&[group], counts.requests))?;
        let mut series = self.family(catalogue::SHARE_DEAD_LETTER_FAILURES)?;
        groups.iter().try_for_each(|(group, counts)| series.counter(&[group], counts.failed_requests))
    }

    pub(super) fn transactions(&mut self, states: &TransactionStates) -> fmt::Result {
        let mut series = self.family(catalogue::TRANSACTIONAL_IDS)?;
        states.ids.iter().try_for_each(|(state, count)| series.gauge(&[state], *count))?;
        let mut series = self.family(catalogue::TRANSACTIONS)?;
        series.counter(&["committed"], states.committed)?;
        series.counter(&["aborted"], states.aborted)?;
        self.gauge(catalogue::LATE_TRANSACTION_PARTITIONS, states.late_partitions)
    }
}
