//! IncrementalAlterConfigs (key 44), versions 0–1.
//!
//! Version 1 is flexible (KIP-482); the API is that of KIP-339.
//!
//! Sets or deletes single keys, or appends to or subtracts from lists, of a topic, this broker, all
//! brokers (empty name), a group or a client metrics subscription. All keys of a resource change,
//! or none. The response is sent when the metadata log is flushed and every log uses the new
//! values. With `validate_only` nothing changes.
//!
//! Sets and deletes levels of the broker's loggers, until the process ends. A logger whose level is
//! deleted has its level from the start of the process again.
//!
//! Not done: a change of the broker's `listeners`, which Kafka allows.

use bytes::Bytes;
use levada_metadata::controller::{AlterConfig, ConfigChange};
use levada_metadata::image::{ConfigResource, ResourceKind};
use levada_wire::DecodeError;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, StrBytes};

use crate::api::changes::log_change;
use crate::api::configurable::{self, ResourceKeys};
use crate::api::{Context, Decoded};
use crate::controller::ConfigChanges;
use crate::loggers::{self, LevelChange};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// A key, its operation and the operation's value.
type Config = (StrBytes, i8, Option<StrBytes>);

/// Changes of keys, by resource.
pub(crate) struct IncrementalAlterConfigs {
    resources: Vec<ResourceKeys>,
    configs: Vec<Config>,
    validate_only: bool,
}

impl Decoded for IncrementalAlterConfigs {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let config = |one: AlterableConfig| (one.name, one.config_operation, one.value);
        let mut configs = Vec::new();
        let keep = |resource: AlterConfigsResource| {
            let first = configs.len();
            configs.extend(resource.configs.into_iter().map(config));
            ResourceKeys {
                kind: resource.resource_type,
                name: resource.resource_name,
                configs: first..configs.len(),
            }
        };
        let (resources, validate_only) =
            levada_wire::decode_each::<IncrementalAlterConfigsRequest, _, _>(body, version, keep)?;
        Ok(Self { resources, configs, validate_only })
    }
}

pub(crate) async fn answer(
    context: &Context,
    request: IncrementalAlterConfigs,
) -> IncrementalAlterConfigsResponse {
    let validate_only = request.validate_only;
    let changes = |asked: &ResourceKeys| {
        changes(context, asked, &request.configs[asked.configs.clone()], validate_only)
    };
    let resources = request.resources;
    let responses =
        configurable::alter(context, resources, changes, validate_only, ConfigChanges::Single).await;
    message!(IncrementalAlterConfigsResponse { responses: responses })
}

fn changes(
    context: &Context,
    resource: &ResourceKeys,
    configs: &[Config],
    validate_only: bool,
) -> Result<Option<(ConfigResource, Vec<AlterConfig>)>, Failure> {
    let null = |operation: i8, value: &Option<StrBytes>| operation != DELETE && value.is_none();
    let keys = configs.iter();
    let keys: Vec<_> = keys.map(|(key, operation, value)| (key.as_str(), null(*operation, value))).collect();
    let target = configurable::resource(context, resource.named(), &keys)?;
    if target.kind == ResourceKind::BrokerLogger {
        return change_levels(context, configs, validate_only).map(|()| None);
    }
    let changes = configs.iter().map(|one| change(target.kind, one));
    let changes = changes.collect::<Result<_, _>>()?;
    Ok(Some((target, changes)))
}

fn change_levels(context: &Context, configs: &[Config], validate_only: bool) -> Result<(), Failure> {
    let change = |(_, operation, value): &Config| match *operation {
        SET => LevelChange::Set(value.as_ref().map_or("", StrBytes::as_str).to_owned()),
        DELETE => LevelChange::Delete,
        APPEND => LevelChange::Refused("APPEND"),
        SUBTRACT => LevelChange::Refused("SUBTRACT"),
        other => LevelChange::Unknown(other),
    };
    let changes: Vec<_> = configs.iter().map(|config| (config.0.as_str(), change(config))).collect();
    let Some(loggers) = loggers::installed() else {
        let error = "The log of this process cannot be changed while it runs.";
        return Err(Failure::new(ErrorCode::InvalidConfig, error));
    };
    loggers.alter(&changes, validate_only)?;
    if !validate_only {
        for (name, operation, value) in configs {
            let level = value.as_ref().filter(|_| *operation == SET).map(StrBytes::as_str);
            log_change!(context, "log level changed", logger = name.as_str(), level,);
        }
    }
    Ok(())
}

fn change(kind: ResourceKind, (key, operation, value): &Config) -> Result<AlterConfig, Failure> {
    let value = value.as_ref().map_or("", StrBytes::as_str).to_owned();
    let change = match *operation {
        SET => ConfigChange::Set(value),
        DELETE => ConfigChange::Delete,
        APPEND => ConfigChange::Append(value),
        SUBTRACT => ConfigChange::Subtract(value),
        other if kind == ResourceKind::Broker => {
            return Err(configurable::invalid(format!("Unknown operations type {other}")));
        }
        _ => return Err(ErrorCode::UnknownServerError.into()),
    };
    Ok(AlterConfig { key: key.as_str().to_owned(), change })
}
