//! AlterConfigs (key 33), versions 0–2.
//!
//! Version 1 clients are muted after the response (KIP-219), and version 2 is flexible (KIP-482).
//!
//! Replaces all settings of a topic, this broker, all brokers (empty name), a group or a client
//! metrics subscription. A resource changes as a whole or not at all. The response is sent when the
//! metadata log is flushed and every log uses the new values. With `validate_only` nothing changes.

use bytes::Bytes;
use levada_metadata::controller::NewValue;
use levada_metadata::image::{ConfigResource, ResourceKind};
use levada_wire::DecodeError;
use levada_wire::error_code::Failure;
use levada_wire::messages::alter_configs_request::AlterConfigsResource;
use levada_wire::messages::{AlterConfigsRequest, AlterConfigsResponse, StrBytes};

use crate::api::configurable::{self, ResourceKeys};
use crate::api::{Context, Decoded};
use crate::controller::ConfigChanges;

/// Keys and their new values, by resource.
pub(crate) struct AlterConfigs {
    resources: Vec<ResourceKeys>,
    configs: Vec<(StrBytes, Option<StrBytes>)>,
    validate_only: bool,
}

impl Decoded for AlterConfigs {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut configs = Vec::new();
        let keep = |resource: AlterConfigsResource| {
            let first = configs.len();
            configs.extend(resource.configs.into_iter().map(|one| (one.name, one.value)));
            ResourceKeys {
                kind: resource.resource_type,
                name: resource.resource_name,
                configs: first..configs.len(),
            }
        };
        let (resources, validate_only) =
            levada_wire::decode_each::<AlterConfigsRequest, _, _>(body, version, keep)?;
        Ok(Self { resources, configs, validate_only })
    }
}

pub(crate) async fn answer(context: &Context, request: AlterConfigs) -> AlterConfigsResponse {
    let changes = |asked: &ResourceKeys| changes(context, asked, &request.configs[asked.configs.clone()]);
    let (resources, validate_only) = (request.resources, request.validate_only);
    let responses =
        configurable::alter(context, resources, changes, validate_only, ConfigChanges::Whole).await;
    message!(AlterConfigsResponse { responses: responses })
}

fn changes(
    context: &Context,
    resource: &ResourceKeys,
    configs: &[(StrBytes, Option<StrBytes>)],
) -> Result<Option<(ConfigResource, Vec<NewValue>)>, Failure> {
    let keys: Vec<_> = configs.iter().map(|(key, value)| (key.as_str(), value.is_none())).collect();
    let target = configurable::resource(context, resource.named(), &keys)?;
    if target.kind == ResourceKind::BrokerLogger {
        return Err(configurable::invalid(format!("Unknown resource type {}", resource.kind)));
    }
    let values = configs.iter();
    let values = values.map(|(key, value)| (key.as_str().to_owned(), value.as_deref().map(str::to_owned)));
    Ok(Some((target, values.collect())))
}
