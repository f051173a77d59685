//! Membership in a cluster of Kafka's controllers, as the HTTP address shows it.

use serde_json::json;

use crate::stats::Durations;

/// Phases of a broker's life in the cluster, in their order.
pub const PHASES: [&str; 6] = ["starting", "recovery", "running", "shutting_down", "replaced", "stopped"];

/// Partitions that follow other brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowingState {
    /// Topic, partition index, and lag in records to the leader's high watermark, -1 if unknown; in
    /// order.
    pub lags: Vec<(String, i32, i64)>,
    /// Failed fetches, and partitions that a leader refused.
    pub errors: u64,
    /// Bytes of records that leaders have sent.
    pub bytes: u64,
}

/// State of the membership in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipState {
    /// Name of the phase, one of `PHASES`.
    pub phase: &'static str,
    /// True while the controllers do not let this broker lead partitions.
    pub is_fenced: bool,
    /// Epoch of the registration.
    pub broker_epoch: Option<i64>,
    /// Name of the error by which the last registration or heartbeat was refused.
    pub refusal: Option<&'static str>,
    /// Id of the active controller.
    pub controller: Option<i32>,
    /// Epoch of the quorum.
    pub quorum_epoch: i32,
    /// High watermark of the metadata log.
    pub high_watermark: i64,
    /// Offset of the last metadata record that is in force, -1 for none.
    pub applied: i64,
    /// Time since a controller wrote the last metadata record that is in force, ms.
    pub since_applied_ms: Option<i64>,
    /// Durations of the publication of metadata images.
    pub publications: Durations,
    /// Number of publications that left a part of the state out of force.
    pub publication_errors: u64,
    /// Time since the last response with metadata, ms.
    pub since_fetch_ms: Option<i64>,
    /// Time since the last response to a heartbeat or a registration, ms.
    pub since_heartbeat_ms: Option<i64>,
    /// Clients' requests to which a controller has responded.
    pub forwarded: u64,
    /// Clients' requests for a controller that got no response.
    pub forwarding_failed: u64,
}

impl MembershipState {
    /// Number of committed metadata records that are not in force.
    pub fn lag(&self) -> i64 {
        (self.high_watermark - 1 - self.applied).max(0)
    }

    /// Reason not to send clients to this broker: the first of those that follow from each other.
    pub fn reason(&self) -> Option<String> {
        let refusal = self.refusal.map(|name| format!(" (the last response is {name})")).unwrap_or_default();
        if self.controller.is_none() && (self.is_fenced || self.broker_epoch.is_none()) {
            return Some(
                "no active controller is known: the controllers do not respond, or elect a leader".into(),
            );
        }
        if self.broker_epoch.is_none() {
            return Some(format!("the broker is not registered with the controllers{refusal}"));
        }
        match (self.phase, self.is_fenced) {
            ("starting", _) => {
                Some(format!("the broker is catching up with the metadata: {} records left", self.lag()))
            }
            ("replaced", _) => Some("another process has registered with this broker's id".to_owned()),
            (_, true) => Some(format!("the controllers fence this broker{refusal}")),
            (_, false) => None,
        }
    }

    /// The state for programs.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "phase": self.phase,
            "fenced": self.is_fenced,
            "broker_epoch": self.broker_epoch,
            "controller": self.controller,
            "lag": self.lag(),
        })
    }
}

#[cfg(test)]
mod tests;
