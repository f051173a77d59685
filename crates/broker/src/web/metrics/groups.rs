//! Groups with their lag, and transactions.

use std::collections::BTreeMap;
use std::fmt;

use super::catalogue;
use super::exposition::Families;

/// The groups for which `/metrics` has room.
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
    /// Age of the oldest record behind a committed offset, in seconds; none if a record's age is
    /// unknown.
    pub(crate) fn seconds(&self) -> Option<f64> {
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
    /// Records from the committed offset to the high watermark.
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
    /// Transactions committed by this process.
    pub committed: u64,
    /// Transactions aborted by this process.
    pub aborted: u64,
    /// Partitions with a transaction that should have been ended by its coordinator.
    pub late_partitions: u64,
}

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

    pub(super) fn transactions(&mut self, states: &TransactionStates) -> fmt::Result {
        let mut series = self.family(catalogue::TRANSACTIONAL_IDS)?;
        states.ids.iter().try_for_each(|(state, count)| series.gauge(&[state], *count))?;
        let mut series = self.family(catalogue::TRANSACTIONS)?;
        series.counter(&["committed"], states.committed)?;
        series.counter(&["aborted"], states.aborted)?;
        self.gauge(catalogue::LATE_TRANSACTION_PARTITIONS, states.late_partitions)
    }
}
