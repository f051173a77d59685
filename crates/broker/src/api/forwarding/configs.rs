//! Changes of configuration in a cluster. As in Kafka, the broker checks the settings of brokers,
//! because the rules for them are here, and forwards all resources that pass in one request of the
//! client.

use std::collections::HashMap;

use bytes::Bytes;
use levada_metadata::controller::{AlterConfig, ConfigChange, NewValue};
use levada_metadata::image::ConfigResource;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, StrBytes, alter_configs_request as whole,
    incremental_alter_configs_request as single,
};
use levada_wire::{DecodeError, EncodeError};

use crate::api::changes::Before;
use crate::api::forwarding::{failure, frame, mute, send};
use crate::api::{Context, text};
use crate::cluster::Forwarded;
use crate::controller::ConfigChanges;

/// Kind and name of a resource, as the protocol has them.
type Key = (i8, String);

/// Sends the change of each resource to the controller; results are in the order of `changes`.
pub(in crate::api) async fn change(
    context: &Context,
    changes: ConfigChanges,
    validate_only: bool,
) -> Vec<Result<(), Failure>> {
    let controller = context.broker().controller();
    let checked = controller.check_brokers(&changes).await;
    let keys: Vec<Key> = changes.resources().map(key).collect();
    if checked.iter().all(Result::is_err) {
        return checked;
    }
    let mut passed = checked.iter().map(Result::is_ok);
    let changes = changes.filter(|_| passed.next().unwrap_or(false));
    let (before, asked) = (Before::of(context), changes.clone());
    let forwarded = forward(context, changes, validate_only).await;
    if let (Ok(outcomes), false) = (&forwarded, validate_only) {
        let is_done = |resource: &ConfigResource| outcomes.get(&key(resource)).is_some_and(Result::is_ok);
        before.decided_configs(context, &asked.filter(is_done));
    }
    let outcome = |key: &Key| match &forwarded {
        Ok(outcomes) => {
            outcomes.get(key).cloned().unwrap_or_else(|| Err(failure(ErrorCode::UnknownServerError)))
        }
        Err(failure) => Err(failure.clone()),
    };
    keys.iter().zip(checked).map(|(key, checked)| checked.and_then(|()| outcome(key))).collect()
}

fn key(resource: &ConfigResource) -> Key {
    (resource.kind.id(), resource.name.clone())
}

/// Sends the changes, and returns the outcomes by resource.
async fn forward(
    context: &Context,
    changes: ConfigChanges,
    validate_only: bool,
) -> Result<HashMap<Key, Result<(), Failure>>, Failure> {
    let is_single = matches!(changes, ConfigChanges::Single(_));
    let unknown = |_: EncodeError| Failure::from(ErrorCode::UnknownServerError);
    let frame = match changes {
        ConfigChanges::Single(changes) => {
            let resources = changes.into_iter().map(single_resource).collect();
            frame(
                context,
                &message!(IncrementalAlterConfigsRequest {
                    resources: resources,
                    validate_only: validate_only,
                }),
            )
        }
        ConfigChanges::Whole(changes) => {
            let resources = changes.into_iter().map(whole_resource).collect();
            frame(
                context,
                &message!(AlterConfigsRequest { resources: resources, validate_only: validate_only }),
            )
        }
    };
    match send(context, frame.map_err(unknown)?, None).await {
        Forwarded::Answer(answer) => outcomes(context, answer, is_single).map_err(|error| {
            tracing::warn!(%error, "the controller's response about configurations cannot be decoded");
            failure(ErrorCode::UnknownServerError)
        }),
        Forwarded::CloseConnection => Err(failure(ErrorCode::UnsupportedVersion)),
        Forwarded::Failed(error) => Err(failure(error)),
    }
}

fn single_resource((resource, changes): (ConfigResource, Vec<AlterConfig>)) -> single::AlterConfigsResource {
    let configs = changes.into_iter().map(|AlterConfig { key, change }| {
        let (operation, value) = match change {
            ConfigChange::Set(value) => (0, Some(value)),
            ConfigChange::Delete => (1, None),
            ConfigChange::Append(items) => (2, Some(items)),
            ConfigChange::Subtract(items) => (3, Some(items)),
        };
        message!(AlterableConfig { name: text(key), config_operation: operation, value: value.map(text) })
    });
    use single::{AlterConfigsResource, AlterableConfig};
    message!(AlterConfigsResource {
        resource_type: resource.kind.id(),
        configs: configs.collect(),
        resource_name: text(resource.name),
    })
}

fn whole_resource((resource, values): (ConfigResource, Vec<NewValue>)) -> whole::AlterConfigsResource {
    use whole::{AlterConfigsResource, AlterableConfig};
    let configs = values
        .into_iter()
        .map(|(key, value)| message!(AlterableConfig { name: text(key), value: value.map(text) }));
    message!(AlterConfigsResource {
        resource_type: resource.kind.id(),
        configs: configs.collect(),
        resource_name: text(resource.name),
    })
}

fn outcomes(
    context: &Context,
    answer: Bytes,
    is_single: bool,
) -> Result<HashMap<Key, Result<(), Failure>>, DecodeError> {
    let version = context.version();
    // Both responses have the same fields, in two types.
    macro_rules! read {
        ($answer:ident) => {{
            let (_, mut decoded) = levada_wire::decode_response::<$answer>(answer, version)?;
            mute(context, &mut decoded);
            let entries = decoded.responses.into_iter();
            let entries = entries.map(|one| {
                let key = (one.resource_type, one.resource_name.into_string());
                (key, outcome(one.error_code, one.error_message))
            });
            entries.collect()
        }};
    }
    Ok(if is_single { read!(IncrementalAlterConfigsResponse) } else { read!(AlterConfigsResponse) })
}

fn outcome(code: i16, sentence: Option<StrBytes>) -> Result<(), Failure> {
    match ErrorCode::of_code(code) {
        Some(ErrorCode::None) => Ok(()),
        known => {
            let code = known.unwrap_or(ErrorCode::UnknownServerError);
            Err(Failure { code, message: sentence.map(|one| one.into_string().into()) })
        }
    }
}
