//! PushTelemetry (key 72), version 0.
//!
//! Receives metrics of a client (KIP-714), in OpenTelemetry's `MetricsData`, with every codec. The
//! latest values are kept for the console, and those in a list of names also for `/metrics`. The
//! checks and their order are Kafka's: the reserved instance ids and a push after the last one are
//! `INVALID_REQUEST`, an early one is `THROTTLING_QUOTA_EXCEEDED`, one for other subscriptions
//! `UNKNOWN_SUBSCRIPTION_ID`, then `UNSUPPORTED_COMPRESSION_TYPE` and `TELEMETRY_TOO_LARGE`. A
//! payload that cannot be expanded within `telemetry.max.bytes`, or cannot be read, is
//! `INVALID_RECORD`.
//!
//! A last push may come early. The payload is read off the shards, in turns of the clients.
//!
//! Not done: values of exemplars; histograms and summaries, which no client pushes and whose points
//! are counted as left out.

use levada_base::compress::Compression;
use levada_metadata::uuid::METADATA_TOPIC_ID;
use levada_telemetry::{Origin, Push, PushRefusal};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{PushTelemetryRequest, PushTelemetryResponse};

use crate::api::k71_get_telemetry_subscriptions::{connection, identity};
use crate::api::{Context, own};
use crate::telemetry::PayloadError;

pub(crate) async fn answer(context: &Context, request: PushTelemetryRequest) -> PushTelemetryResponse {
    let error = push(context, &request).await.err().unwrap_or(ErrorCode::None);
    message!(PushTelemetryResponse { error_code: error.code() })
}

async fn push(context: &Context, request: &PushTelemetryRequest) -> Result<(), ErrorCode> {
    let instance_id = request.client_instance_id;
    if instance_id.is_zero() || instance_id == METADATA_TOPIC_ID {
        return Err(ErrorCode::InvalidRequest);
    }
    let telemetry = context.broker().telemetry();
    let codec = u8::try_from(request.compression_type).ok().and_then(Compression::from_id);
    let max_bytes = context.broker().config().telemetry.max_bytes as usize;
    let push = Push {
        subscription_id: request.subscription_id,
        terminating: request.terminating,
        is_codec_known: codec.is_some(),
        is_too_large: request.metrics.len() > max_bytes,
    };
    let pushed = telemetry.push(&identity(context, instance_id), &push, connection(context));
    let interval_ms = pushed.map_err(refusal)?;
    let Some(codec) = codec.filter(|_| !request.metrics.is_empty()) else { return Ok(()) };
    let (telemetry, metrics) = (telemetry.clone(), own(&request.metrics));
    let (client_id, user) = (context.client_id().to_owned(), context.session().user().to_owned());
    let (software, source) = (context.info.software.get().cloned(), context.info.peer);
    let terminating = request.terminating;
    let keep = move || {
        let software = software.as_ref().map_or(("", ""), |software| software.names());
        let (client_id, user) = (client_id.as_str(), user.as_str());
        let origin = Origin { instance_id, client_id, user, software, source, interval_ms, terminating };
        telemetry.keep(&origin, (codec, &metrics))
    };
    let kept = context.run_in_turn(&context.broker().turns().telemetry, keep).await;
    kept.map_err(|error: PayloadError| {
        tracing::debug!(client = context.client_id(), %error, "client metrics refused");
        ErrorCode::InvalidRecord
    })
}

fn refusal(refusal: PushRefusal) -> ErrorCode {
    match refusal {
        PushRefusal::Terminated => ErrorCode::InvalidRequest,
        PushRefusal::Throttled => ErrorCode::ThrottlingQuotaExceeded,
        PushRefusal::UnknownSubscription => ErrorCode::UnknownSubscriptionId,
        PushRefusal::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
        PushRefusal::TooLarge => ErrorCode::TelemetryTooLarge,
    }
}
