//! `/readyz`: reports if clients can be sent to this broker, and if not, why.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use levada_broker::source::{MembershipState, Readiness};

/// The response about a state.
pub(super) fn response(state: &Readiness) -> Response {
    let reasons = state.reasons();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": reasons.is_empty(),
        "reasons": reasons,
        "recovering_partitions": state.recovering_partitions,
        "loading_coordinators": state.loading_coordinators,
        "offline_partitions": state.offline_partitions,
        "offline_directories": state.offline_directories,
        "refusing_directories": state.refusing_directories,
        "warnings": state.warnings,
        "cluster": state.membership.as_ref().map(MembershipState::to_json),
    });
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
