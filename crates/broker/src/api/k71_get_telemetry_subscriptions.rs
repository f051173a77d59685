//! GetTelemetrySubscriptions (key 71), version 0.
//!
//! Returns the metrics that the client must push (KIP-714), and the interval: those of all
//! client-metrics subscriptions that match it. A client without an instance id gets one. The
//! subscription id, the order of the codecs and the temporality of sums are those that Kafka
//! returns.
//!
//! A request within the interval since the client's last one is `THROTTLING_QUOTA_EXCEEDED`, unless
//! the subscriptions have changed, or a response has required a new request.
//!
//! ApiVersions lists this API as `levada.client.telemetry` demands. As in Kafka, the API is served
//! in any case, and no permission is needed.

use std::sync::Arc;

use levada_base::compress::Compression;
use levada_metadata::uuid;
use levada_telemetry::Identity;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};

use crate::api::{Context, text};
use crate::telemetry::TelemetryConnection;

/// Codecs in the order of preference; no compression is always accepted.
const CODECS: [Compression; 4] =
    [Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];

pub(crate) async fn answer(
    context: &Context,
    request: GetTelemetrySubscriptionsRequest,
) -> GetTelemetrySubscriptionsResponse {
    let named = request.client_instance_id;
    let instance_id = if named.is_zero() { uuid::random() } else { named };
    let telemetry = context.broker().telemetry();
    let Ok((subscription_id, requested)) =
        telemetry.get(&identity(context, instance_id), connection(context))
    else {
        let error_code = ErrorCode::ThrottlingQuotaExceeded.code();
        return message!(GetTelemetrySubscriptionsResponse { error_code: error_code });
    };
    message!(GetTelemetrySubscriptionsResponse {
        client_instance_id: instance_id,
        subscription_id: subscription_id,
        accepted_compression_types: CODECS.map(|codec| codec.id().cast_signed()).into(),
        push_interval_ms: requested.interval_ms,
        telemetry_max_bytes: context.broker().config().telemetry.max_bytes.cast_signed(),
        delta_temporality: true,
        requested_metrics: requested.metrics.into_iter().map(text).collect(),
    })
}

/// The client of the request.
pub(super) fn identity(context: &Context, instance_id: Uuid) -> Identity<'_> {
    Identity {
        instance_id,
        client_id: context.header.client_id.as_ref().map(|id| id.as_str()),
        software: context.info.software.get().map(|software| software.names()),
        source: context.info.peer,
    }
}

/// The connection of the request.
pub(super) fn connection(context: &Context) -> &TelemetryConnection {
    let new = || Arc::new(TelemetryConnection::new(context.broker().telemetry()));
    context.info.telemetry.get_or_init(new)
}
