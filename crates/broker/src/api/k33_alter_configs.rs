//! AlterConfigs (key 33), versions 0–2.
//!
//! Replaces everything that is set on a topic, this broker, all brokers (empty name), a group or a client
//! metrics subscription; all of a resource or nothing. The answer leaves when the metadata log is flushed and
//! every log goes by the new values. With `validate_only` nothing changes.

use levada_wire::messages::alter_configs_request::AlterConfigsResource;
use levada_wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use levada_wire::messages::{AlterConfigsRequest, AlterConfigsResponse, StrBytes};

use crate::api::configurable::{self, Named, Repeated};
use crate::api::{Context, text};
use crate::controller::ConfigChanges;
use crate::error_code::Failure;
use crate::metadata::controller::NewValue;
use crate::metadata::image::ConfigResource;

pub(crate) async fn answer(context: &Context, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let repeated = Repeated::of(request.resources.iter().map(named));
    let asked = request.resources.iter().map(|resource| {
        repeated.check(named(resource))?;
        changes(context, resource)
    });
    let asked = asked.collect();
    let changed = configurable::change(context, asked, request.validate_only, ConfigChanges::Whole).await;
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
    message!(AlterConfigsResponse { responses: responses.collect() })
}

fn named(resource: &AlterConfigsResource) -> Named<'_> {
    (resource.resource_type, resource.resource_name.as_str())
}

fn changes(
    context: &Context,
    resource: &AlterConfigsResource,
) -> Result<(ConfigResource, Vec<NewValue>), Failure> {
    let keys: Vec<_> = resource.configs.iter().map(|one| (one.name.as_str(), one.value.is_none())).collect();
    let target = configurable::resource(context, named(resource), &keys)?;
    let values = resource.configs.iter();
    let values = values.map(|one| {
        (one.name.as_str().to_owned(), one.value.as_ref().map(StrBytes::as_str).map(str::to_owned))
    });
    Ok((target, values.collect()))
}
