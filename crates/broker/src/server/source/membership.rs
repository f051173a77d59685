//! The membership in a cluster, as the HTTP address shows it.

use levada_cluster::lifecycle::BrokerPhase;
use levada_wire::error_code::ErrorCode;

use crate::cluster::MembershipStatus;
use crate::source::MembershipState;

impl From<MembershipStatus> for MembershipState {
    fn from(status: MembershipStatus) -> Self {
        let name = |code| ErrorCode::of_code(code).map_or("an error of a newer Kafka", ErrorCode::name);
        Self {
            phase: label(status.phase),
            is_fenced: status.is_fenced,
            broker_epoch: status.broker_epoch,
            refusal: status.refusal.map(name),
            controller: status.controller,
            quorum_epoch: status.quorum_epoch,
            high_watermark: status.high_watermark,
            applied: status.applied,
            since_applied_ms: status.since_applied_ms,
            publications: status.publications,
            publication_errors: status.publication_errors,
            since_fetch_ms: status.since_fetch_ms,
            since_heartbeat_ms: status.since_heartbeat_ms,
            forwarded: status.forwarded,
            forwarding_failed: status.forwarding_failed,
        }
    }
}

/// The label of a phase in metrics.
fn label(phase: BrokerPhase) -> &'static str {
    match phase {
        BrokerPhase::Starting => "starting",
        BrokerPhase::Recovery => "recovery",
        BrokerPhase::Running => "running",
        BrokerPhase::ShuttingDown => "shutting_down",
        BrokerPhase::Replaced => "replaced",
        BrokerPhase::Stopped => "stopped",
    }
}
