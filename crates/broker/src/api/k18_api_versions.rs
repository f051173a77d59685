//! ApiVersions (key 18), versions 0–5.
//!
//! Version 3 is flexible and names the client's software (KIP-511), 4 lists features with the
//! lowest level 0 (KAFKA-17011), and 5 has cluster id and node id (KIP-1242): a client that has
//! reached another node gets REBOOTSTRAP_REQUIRED.
//!
//! Lists the APIs that this broker serves, and the finalized features. An unknown version gets a
//! response in version 0 with `UNSUPPORTED_VERSION` and the served versions of this API, so that
//! the client can retry (KIP-511); the response header has version 0 always, flexible or not.
//!
//! The APIs of client telemetry are listed by `levada.client.telemetry`.
//!
//! For requests for the controller of a cluster, the versions are those that both the controller
//! and this broker support.
//!
//! Features whose lowest level is 0 are left out below version 4, whose clients cannot read them;
//! so are features whose APIs are not served. A broker of a cluster lists all finalized features of
//! the cluster, and supports the features that it has registered. `kraft.version` is finalized in a
//! quorum whose voters are in the metadata log.

use std::ops::RangeInclusive;
use std::sync::Arc;

use levada_metadata::features::{FEATURES, Feature, KRAFT_VERSION, of_members};
use levada_metadata::image::Image;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use levada_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::api::{self, Context, forwarding};
use crate::controller::{ActiveController, Remote};

/// The highest version of this API that we serve.
const VERSION_MAX: i16 = 5;

/// First version whose clients can read features whose lowest level is 0 (KAFKA-17011).
const ZERO_FEATURES_VERSION_MIN: i16 = 4;

/// First version in which clients name the cluster and the node that they expect (KIP-1242).
const IDENTITY_VERSION_MIN: i16 = 5;
const NO_NODE: i32 = -1;

/// APIs of client telemetry.
pub(super) const TELEMETRY: [ApiKey; 2] = [ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry];

/// Features in the response of a broker that is its own controller: those whose APIs are served.
pub(super) const SHOWN_FEATURES: &[&str] = &[
    "group.version",
    "kraft.version",
    "metadata.version",
    "share.version",
    "streams.version",
    "transaction.version",
];

/// The response to an unknown version, to be encoded as version 0.
pub(crate) fn unsupported() -> ApiVersionsResponse {
    let own = message!(ApiVersion { api_key: ApiKey::ApiVersions as i16, max_version: VERSION_MAX });
    message!(ApiVersionsResponse { error_code: ErrorCode::UnsupportedVersion.code(), api_keys: vec![own] })
}

pub(crate) async fn answer(context: &Context, request: ApiVersionsRequest) -> ApiVersionsResponse {
    let mut response = ApiVersionsResponse::default();
    if let Err(error) = check(context, &request) {
        response.error_code = error.code();
        return response;
    }
    response.api_keys = offered(context.broker().controller().remote().map(Remote::active));
    if !context.broker().telemetry().is_offered() {
        let is_telemetry = |api: &ApiVersion| TELEMETRY.iter().any(|key| key.wire() == api.api_key);
        response.api_keys.retain(|api| !is_telemetry(api));
    }
    if context.version() >= 3 {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        let software = || Arc::new(context.broker().stats().software(name.as_str(), version.as_str()));
        context.info.software.get_or_init(software);
        add_features(context, &mut response);
    }
    response
}

/// Checks the client's software names, and cluster id and node id if the request has them. A client
/// that has reached another node looks up the cluster again.
fn check(context: &Context, request: &ApiVersionsRequest) -> Result<(), ErrorCode> {
    let names = [&request.client_software_name, &request.client_software_version];
    let is_named = context.version() < 3 || names.iter().all(|name| is_software_name(name.as_str()));
    let cluster = request.cluster_id.as_ref().filter(|_| context.version() >= IDENTITY_VERSION_MIN);
    let node =
        Some(request.node_id).filter(|node| context.version() >= IDENTITY_VERSION_MIN && *node != NO_NODE);
    if !is_named || cluster.is_some() != node.is_some() {
        return Err(ErrorCode::InvalidRequest);
    }
    let is_meant = cluster.is_none_or(|id| id.as_str() == context.broker().metadata().cluster_id())
        && node.is_none_or(|node| node == context.broker().node_id());
    if is_meant { Ok(()) } else { Err(ErrorCode::RebootstrapRequired) }
}

/// The served APIs. For APIs of the controller of a cluster: the versions that both have. All of
/// this broker's versions until the controller's are known.
fn offered(controller: Option<&dyn ActiveController>) -> Vec<ApiVersion> {
    let offered = api::served().filter_map(|api| {
        let theirs = controller.filter(|_| forwarding::depends_on_controller(api.key));
        let theirs = theirs.and_then(|controller| controller.versions(api.key));
        let (theirs_min, theirs_max) = theirs.map_or((api.min, api.max), RangeInclusive::into_inner);
        let (min, max) = (api.min.max(theirs_min), api.max.min(theirs_max));
        let version = || message!(ApiVersion { api_key: api.key as i16, min_version: min, max_version: max });
        (min <= max).then(version)
    });
    offered.collect()
}

fn add_features(context: &Context, response: &mut ApiVersionsResponse) {
    let image = context.broker().metadata().image();
    response.finalized_features_epoch = image.offset();
    let is_remote = context.broker().controller().is_remote();
    response.finalized_features = finalized(&image, is_remote);
    for feature in supported(is_remote) {
        if feature.min_version > 0 || context.version() >= ZERO_FEATURES_VERSION_MIN {
            response.supported_features.push(message!(SupportedFeatureKey {
                name: feature.name.into(),
                min_version: feature.min_version,
                max_version: feature.max_version,
            }));
        }
    }
}

/// The features with a level above 0, that of the quorum included.
fn finalized(image: &Image, is_remote: bool) -> Vec<FinalizedFeatureKey> {
    let levels = image.features().iter().map(|(name, level)| (name.as_str(), *level));
    let levels = levels.chain([(KRAFT_VERSION, image.kraft_version())]);
    let is_shown = |name: &str| is_remote || SHOWN_FEATURES.contains(&name);
    let shown = levels.filter(|(name, level)| *level > 0 && is_shown(name));
    let row = |(name, level): (&str, i16)| {
        message!(FinalizedFeatureKey {
            name: name.into(),
            max_version_level: level,
            min_version_level: level
        })
    };
    shown.map(row).collect()
}

/// The features that this broker supports: in a cluster those that it has registered.
fn supported(is_remote: bool) -> Vec<Feature> {
    if is_remote {
        of_members().collect()
    } else {
        FEATURES.into_iter().filter(|feature| SHOWN_FEATURES.contains(&feature.name)).collect()
    }
}

/// KIP-511's pattern: letters, digits, dots and dashes, with a letter or digit at both ends.
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests;
