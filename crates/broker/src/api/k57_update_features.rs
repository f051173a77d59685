//! UpdateFeatures (key 57), versions 0–2.
//!
//! Version 1 can validate only, and distinguishes safe from unsafe downgrades (KIP-778); 2 returns
//! no results for single features (KIP-1022).
//!
//! Sets the levels of features, all or none of a request; the levels take effect before the
//! response: ApiVersions shows them, `metadata.version` decides which records are written, and
//! without `group.version` consumer groups (KIP-848) are refused. With eligible leaders,
//! `min.insync.replicas` gets one value for all brokers. Checks Alter on the cluster.
//!
//! Not done: `kraft.version` keeps the level that the directory was formatted with.

use levada_metadata::controller::FeatureUpdate;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::update_features_response::UpdatableFeatureResult;
use levada_wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use crate::api::access::forbidden;
use crate::api::changes::log_change;
use crate::api::{Context, text};

/// The last version with a result for each feature.
const RESULTS_VERSION_MAX: i16 = 1;

pub(crate) async fn answer(context: &Context, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse {
    if !context.may_cluster(Operation::Alter) {
        let failure = forbidden(ErrorCode::ClusterAuthorizationFailed);
        return message!(UpdateFeaturesResponse {
            error_code: failure.code.code(),
            error_message: failure.message.map(text),
        });
    }
    let updates: Vec<FeatureUpdate> = request
        .feature_updates
        .into_iter()
        .map(|one| FeatureUpdate {
            name: one.feature.into_string(),
            level: one.max_version_level,
            upgrade_type: one.upgrade_type,
        })
        .collect();
    let names: Vec<String> = updates.iter().map(|update| update.name.clone()).collect();
    let levels: Vec<i16> = updates.iter().map(|update| update.level).collect();
    match context.broker().controller().update_features(updates, request.validate_only).await {
        Ok(()) => {
            for (feature, level) in names.iter().zip(levels).filter(|_| !request.validate_only) {
                log_change!(context, "feature level changed", feature, level,);
            }
            let result = |name| message!(UpdatableFeatureResult { feature: text(name), error_message: None });
            let results = if context.version() <= RESULTS_VERSION_MAX {
                names.into_iter().map(result).collect()
            } else {
                Vec::new()
            };
            message!(UpdateFeaturesResponse { error_message: None, results: results })
        }
        Err(failure) => {
            let why = failure.message.unwrap_or_default();
            let sentence =
                format!("The update failed for all features since the following feature had an error: {why}");
            message!(UpdateFeaturesResponse {
                error_code: failure.code.code(),
                error_message: Some(text(sentence)),
            })
        }
    }
}
