//! IncrementalAlterConfigs (key 44), versions 0–1.
//!
//! Sets, deletes, appends to or takes from single keys of a topic, this broker, all brokers (empty name), a
//! group or a client metrics subscription; all keys of a resource or none. The answer leaves when the metadata
//! log is flushed and every log goes by the new values. With `validate_only` nothing changes.
//!
//! Not done: broker loggers (the log has one level, set at the start), which answer `INVALID_REQUEST`. Of the
//! broker's keys `listeners` stays as it was bound, which Kafka may change.

use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use levada_wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, StrBytes};

use crate::api::configurable::{self, Named, Repeated};
use crate::api::{Context, text};
use crate::controller::ConfigChanges;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::{AlterConfig, ConfigChange};
use crate::metadata::image::{ConfigResource, ResourceKind};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(crate) async fn answer(
    context: &Context,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let repeated = Repeated::of(request.resources.iter().map(named));
    let asked = request.resources.iter().map(|resource| {
        repeated.check(named(resource))?;
        changes(context, resource)
    });
    let asked = asked.collect();
    let changed = configurable::change(context, asked, request.validate_only, ConfigChanges::Single).await;
    let responses = request.resources.iter().zip(changed).map(|(resource, changed)| {
        let mut response = message!(AlterConfigsResourceResponse {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        });
        response.error_message = None;
        if let Err(failure) = changed {
            response.error_code = failure.code.code();
            response.error_message = failure.message.map(text);
        }
        response
    });
    message!(IncrementalAlterConfigsResponse { responses: responses.collect() })
}

fn named(resource: &AlterConfigsResource) -> Named<'_> {
    (resource.resource_type, resource.resource_name.as_str())
}

fn changes(
    context: &Context,
    resource: &AlterConfigsResource,
) -> Result<(ConfigResource, Vec<AlterConfig>), Failure> {
    let null = |one: &AlterableConfig| one.config_operation != DELETE && one.value.is_none();
    let keys: Vec<_> = resource.configs.iter().map(|one| (one.name.as_str(), null(one))).collect();
    let target = configurable::resource(context, named(resource), &keys)?;
    let changes = resource.configs.iter().map(|one| change(target.kind, one));
    let changes = changes.collect::<Result<_, _>>()?;
    Ok((target, changes))
}

fn change(kind: ResourceKind, one: &AlterableConfig) -> Result<AlterConfig, Failure> {
    let value = one.value.as_ref().map_or("", StrBytes::as_str).to_owned();
    let change = match one.config_operation {
        SET => ConfigChange::Set(value),
        DELETE => ConfigChange::Delete,
        APPEND => ConfigChange::Append(value),
        SUBTRACT => ConfigChange::Subtract(value),
        other if kind == ResourceKind::Broker => {
            return Err(configurable::invalid(format!("Unknown operations type {other}")));
        }
        _ => return Err(ErrorCode::UnknownServerError.into()),
    };
    Ok(AlterConfig { key: one.name.as_str().to_owned(), change })
}
