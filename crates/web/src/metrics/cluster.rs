//! The series of a broker in a cluster of Kafka's controllers. A broker without a cluster has none
//! of them.

use std::fmt;

use levada_broker::source::Durations;
use levada_broker::source::{FollowingState, MembershipState, PHASES};

use super::catalogue;
use super::exposition::Families;
use super::requests::buckets;
use super::topics::PARTITIONS_MAX;

impl Families<'_> {
    pub(super) fn cluster(&mut self, state: &MembershipState) -> fmt::Result {
        let mut series = self.family(catalogue::CLUSTER_PHASE)?;
        PHASES.iter().try_for_each(|phase| series.gauge(&[phase], u64::from(*phase == state.phase)))?;
        self.gauge(catalogue::CLUSTER_FENCED, u64::from(state.is_fenced))?;
        self.gauge(catalogue::CLUSTER_BROKER_EPOCH, state.broker_epoch.unwrap_or(-1))?;
        self.gauge(catalogue::CLUSTER_CONTROLLER, i64::from(state.controller.unwrap_or(-1)))?;
        self.gauge(catalogue::CLUSTER_QUORUM_EPOCH, i64::from(state.quorum_epoch))?;
        self.gauge(catalogue::CLUSTER_HIGH_WATERMARK, state.high_watermark)?;
        self.gauge(catalogue::CLUSTER_APPLIED, state.applied)?;
        self.gauge(catalogue::CLUSTER_LAG, state.lag())?;
        let ages = [
            (catalogue::CLUSTER_RECORD_AGE, state.since_applied_ms),
            (catalogue::CLUSTER_METADATA_AGE, state.since_fetch_ms),
            (catalogue::CLUSTER_HEARTBEAT_AGE, state.since_heartbeat_ms),
        ];
        for (family, age_ms) in ages {
            if let Some(age_ms) = age_ms {
                self.gauge(family, age_ms as f64 / 1000.0)?;
            }
        }
        self.publications(&state.publications, state.publication_errors)?;
        let mut series = self.family(catalogue::CLUSTER_FORWARDED)?;
        series.counter(&["answered"], state.forwarded)?;
        series.counter(&["failed"], state.forwarding_failed)
    }

    fn publications(&mut self, publications: &Durations, errors: u64) -> fmt::Result {
        let mut series = self.family(catalogue::CLUSTER_PUBLICATIONS)?;
        series.histogram(&[], publications.sum_ns as f64 / 1e9, &buckets(publications))?;
        self.counter(catalogue::CLUSTER_PUBLICATION_ERRORS, errors)
    }

    pub(super) fn following(&mut self, state: &FollowingState, topics: bool) -> fmt::Result {
        let largest = state.lags.iter().map(|(_, _, lag)| *lag).max().unwrap_or(0);
        self.gauge(catalogue::FOLLOWER_LAG_MAX, largest.max(0))?;
        self.counter(catalogue::FETCHER_ERRORS, state.errors)?;
        self.counter(catalogue::FETCHER_BYTES, state.bytes)?;
        if topics {
            let mut series = self.family(catalogue::FOLLOWER_LAG)?;
            for (topic, index, lag) in state.lags.iter().take(PARTITIONS_MAX) {
                series.gauge(&[topic, &index.to_string()], *lag)?;
            }
        }
        Ok(())
    }
}
