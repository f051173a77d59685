//! The series of a broker in a cluster of Kafka's controllers. A broker that is its own controller
//! has none of them.

use std::fmt;

use super::catalogue;
use super::exposition::Families;
use crate::web::membership::{MembershipState, PHASES};

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
            (catalogue::CLUSTER_METADATA_AGE, state.since_fetch_ms),
            (catalogue::CLUSTER_HEARTBEAT_AGE, state.since_heartbeat_ms),
        ];
        for (family, age_ms) in ages {
            if let Some(age_ms) = age_ms {
                self.gauge(family, age_ms as f64 / 1000.0)?;
            }
        }
        let mut series = self.family(catalogue::CLUSTER_FORWARDED)?;
        series.counter(&["answered"], state.forwarded)?;
        series.counter(&["failed"], state.forwarding_failed)
    }
}
