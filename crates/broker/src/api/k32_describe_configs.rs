//! DescribeConfigs (key 32), versions 1–4.
//!
//! Values of topics and of this broker with their source, and on demand synonyms and documentation.
//! Sensitive values are null.
//!
//! Not done: broker loggers, client metrics and group resources, which answer `INVALID_REQUEST`.

use levada_wire::messages::describe_configs_request::DescribeConfigsResource;
use levada_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use levada_wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::api::{Context, text};
use crate::config::Described;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::check_topic_name;
use crate::metadata::image::ConfigResource;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const KIND_VERSION_MIN: i16 = 3;

/// What of each value the client wants.
struct Shape {
    synonyms: bool,
    documentation: bool,
    kind: bool,
}

pub(crate) async fn answer(context: &Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let shape = Shape {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation && context.version() >= KIND_VERSION_MIN,
        kind: context.version() >= KIND_VERSION_MIN,
    };
    let results = request.resources.into_iter().map(|resource| {
        let mut result = message!(DescribeConfigsResult {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        });
        match describe(context, &resource) {
            Ok(described) => result.configs = described.into_iter().map(|one| show(one, &shape)).collect(),
            Err(failure) => {
                result.error_code = failure.code.code();
                result.error_message = failure.message.map(text);
            }
        }
        result
    });
    message!(DescribeConfigsResponse { results: results.collect() })
}

fn describe(context: &Context, resource: &DescribeConfigsResource) -> Result<Vec<Described>, Failure> {
    let broker = context.broker();
    let name = resource.resource_name.as_str();
    let mut described = match resource.resource_type {
        TOPIC => {
            check_topic_name(name)?;
            let image = broker.metadata().image();
            image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
            let own = image.configs(&ConfigResource::topic(name)).map(|own| (**own).clone()).unwrap_or_default();
            broker.config().describe_topic(&own)
        }
        BROKER if name.is_empty() => Vec::new(),
        BROKER if name.parse() == Ok(broker.node_id()) => broker.config().describe(),
        BROKER => {
            let text = format!(
                "Unexpected broker id, expected {} or empty string, but received {name}",
                broker.node_id()
            );
            return Err(Failure::new(ErrorCode::InvalidRequest, text));
        }
        other => {
            return Err(Failure::new(ErrorCode::InvalidRequest, format!("Unsupported resource type: {other}")));
        }
    };
    if let Some(keys) = &resource.configuration_keys {
        described.retain(|one| keys.iter().any(|key| key.as_str() == one.name));
    }
    Ok(described)
}

fn show(described: Described, shape: &Shape) -> DescribeConfigsResourceResult {
    let visible = |value: Option<String>| value.filter(|_| !described.sensitive).map(text);
    let mut shown = message!(DescribeConfigsResourceResult {
        name: described.name.into(),
        value: visible(described.value),
        read_only: described.read_only,
        config_source: described.source as i8,
        is_sensitive: described.sensitive,
    });
    if shape.synonyms {
        let synonyms = described.synonyms.into_iter().map(|synonym| {
            message!(DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: visible(synonym.value),
                source: synonym.source as i8,
            })
        });
        shown.synonyms = synonyms.collect();
    }
    if shape.kind {
        shown.config_type = described.kind as i8;
    }
    if shape.documentation {
        shown.documentation = Some(described.doc.into());
    }
    shown
}
