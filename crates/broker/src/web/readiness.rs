//! `/readyz`: reports if clients can be sent to this broker, and if not, why.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::MembershipState;

/// State of the parts of the broker that clients need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The broker has begun to stop.
    pub stopping: bool,
    /// Partitions whose logs are still to be checked after an unclean stop.
    pub recovering_partitions: u64,
    /// Coordinators of groups and transactions that wait for their partition.
    pub loading_coordinators: u64,
    /// Partitions that are offline after a failure of their storage.
    pub offline_partitions: u64,
    /// Data directories that are offline.
    pub offline_directories: Vec<String>,
    /// Data directories whose storage refuses records.
    pub refusing_directories: Vec<String>,
    /// Sentences about logs that lack records. They do not keep clients away.
    pub warnings: Vec<String>,
    /// Membership in a cluster; none for a broker that is its own controller.
    pub membership: Option<MembershipState>,
}

impl Readiness {
    /// One sentence for each reason not to send clients here; none if the broker is ready.
    fn reasons(&self) -> Vec<String> {
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let stopping = self.stopping.then(|| "the broker is stopping".to_owned());
        let recovering = "partitions are being recovered after an unclean stop";
        let loading = "coordinators of groups or transactions are loading";
        let offline = "partitions are offline after a failure of their storage; see the log";
        let reasons = [
            stopping,
            self.membership.as_ref().and_then(MembershipState::reason),
            counted(self.recovering_partitions, recovering),
            counted(self.loading_coordinators, loading),
            counted(self.offline_partitions, offline),
            (!self.offline_directories.is_empty())
                .then(|| format!("log directories are offline: {}", self.offline_directories.join(", "))),
            (!self.refusing_directories.is_empty()).then(|| {
                format!(
                    "log directories refuse records, for example because they are full: {}",
                    self.refusing_directories.join(", ")
                )
            }),
        ];
        reasons.into_iter().flatten().collect()
    }
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let reasons = self.reasons();
        let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = json!({
            "ready": reasons.is_empty(),
            "reasons": reasons,
            "recovering_partitions": self.recovering_partitions,
            "loading_coordinators": self.loading_coordinators,
            "offline_partitions": self.offline_partitions,
            "offline_directories": self.offline_directories,
            "refusing_directories": self.refusing_directories,
            "warnings": self.warnings,
            "cluster": self.membership.as_ref().map(MembershipState::to_json),
        });
        (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
    }
}
