//! DescribeConfigs (key 32), versions 1–4.
//!
//! Version 1 has sources and synonyms (KIP-226), 3 types and documentation (KIP-569), and 4 is
//! flexible (KIP-482).
//!
//! Values of topics, this broker, all brokers (empty name), groups and client metrics subscriptions
//! with their source, and on demand synonyms and documentation. Sensitive values are null. One
//! resource of an unknown kind fails the whole request, as in Kafka.
//!
//! A resource that is named several times with the same keys gets one result; Kafka repeats it.
//! With other keys it is looked up once and has a result for each list of keys.
//!
//! For the broker, the response has the keys with an effect here; Kafka returns some 200 more. The
//! keys of a broker's logger are [`loggers`]: modules of Levada, not classes of Kafka.

use std::collections::{HashMap, HashSet};

use levada_config::{ConfigSource, ConfigType, Described, Origin, Values, describe_client_metrics};
use levada_metadata::controller::check_topic_name;
use levada_metadata::image::{ConfigResource, ResourceKind};
use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::describe_configs_request::DescribeConfigsResource;
use levada_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use levada_wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::api::configurable::{invalid, permit};
use crate::api::{Context, text};
use crate::loggers::{self, Loggers};

const KIND_VERSION_MIN: i16 = 3;

/// Kafka's own text for `INVALID_REQUEST`.
const MALFORMED: &str = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details.";

/// The parts of each value that the client requests.
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
    let unknown = request.resources.iter().any(|one| ResourceKind::from_id(one.resource_type).is_none());
    let failure = || Failure::new(ErrorCode::InvalidRequest, MALFORMED);
    let look = |resource: &DescribeConfigsResource| {
        if unknown { Err(failure()) } else { describe(context, resource) }
    };
    let results = answers(&distinct(request.resources), look, |one| show(one.clone(), &shape));
    message!(DescribeConfigsResponse { results: results })
}

/// Results for all entries of the request, in their order. Each resource is looked up once, for all
/// its lists of keys.
fn answers(
    resources: &[DescribeConfigsResource],
    look: impl Fn(&DescribeConfigsResource) -> Result<Vec<Described>, Failure>,
    show: impl Fn(&Described) -> DescribeConfigsResourceResult,
) -> Vec<DescribeConfigsResult> {
    let mut questions: HashMap<(i8, &str), Vec<usize>> = HashMap::new();
    for (place, one) in resources.iter().enumerate() {
        questions.entry((one.resource_type, one.resource_name.as_str())).or_default().push(place);
    }
    let mut results = vec![DescribeConfigsResult::default(); resources.len()];
    for places in questions.values() {
        let Some(first) = places.first() else { continue };
        let described = look(&resources[*first]);
        for place in places {
            let resource = &resources[*place];
            let mut result = message!(DescribeConfigsResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                error_message: Some("".into()),
            });
            match &described {
                Ok(described) => result.configs = wanted(described, resource).map(&show).collect(),
                Err(failure) => {
                    result.error_code = failure.code.code();
                    result.error_message = Some(text(failure.message.clone().unwrap_or_default()));
                }
            }
            results[*place] = result;
        }
    }
    results
}

/// The values that the question names; all if it has no keys.
fn wanted<'a>(
    described: &'a [Described],
    resource: &DescribeConfigsResource,
) -> impl Iterator<Item = &'a Described> {
    let keys = resource.configuration_keys.iter().flatten().map(|key| key.as_str());
    let keys: HashSet<&str> = keys.collect();
    let chosen: Vec<bool> =
        described.iter().map(|one| keys.is_empty() || keys.contains(&*one.name)).collect();
    described.iter().zip(chosen).filter_map(|(one, is_chosen)| is_chosen.then_some(one))
}

/// Removes repeated entries: otherwise a megabyte of equal entries would get a response a hundred
/// times as large.
fn distinct(mut resources: Vec<DescribeConfigsResource>) -> Vec<DescribeConfigsResource> {
    let mut asked = HashSet::new();
    resources.retain(|one| {
        asked.insert((one.resource_type, one.resource_name.clone(), one.configuration_keys.clone()))
    });
    resources
}

fn describe(context: &Context, resource: &DescribeConfigsResource) -> Result<Vec<Described>, Failure> {
    let config = context.broker().config();
    let name = resource.resource_name.as_str();
    let kind = ResourceKind::from_id(resource.resource_type).ok_or(ErrorCode::InvalidRequest)?;
    permit(context, Operation::DescribeConfigs, (kind, name))?;
    let own = || stored(context, ConfigResource { kind, name: name.to_owned() });
    let described = match kind {
        ResourceKind::Topic => {
            check_topic_name(name)?;
            context.broker().metadata().image().topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
            config.describe_topic(&own())
        }
        ResourceKind::Broker if name.is_empty() => config.describe_cluster(),
        ResourceKind::Broker => {
            check_broker(context, name, " or empty string,")?;
            config.describe_as_kafka()
        }
        ResourceKind::BrokerLogger if name.is_empty() => return Err(invalid("Broker id must not be empty")),
        ResourceKind::BrokerLogger => {
            check_broker(context, name, "")?;
            describe_loggers()
        }
        ResourceKind::ClientMetrics if name.is_empty() => {
            return Err(invalid("Client metrics subscription name must not be empty"));
        }
        ResourceKind::ClientMetrics => describe_client_metrics(&own()),
        ResourceKind::Group if name.is_empty() => return Err(invalid("Group name must not be empty")),
        ResourceKind::Group => config.describe_group(&own()),
    };
    Ok(described)
}

fn describe_loggers() -> Vec<Described> {
    let levels = loggers::installed().map(Loggers::levels).unwrap_or_default();
    let described = levels.into_iter().map(|(name, level)| Described {
        name: name.into(),
        value: Some(level.to_owned()),
        source: ConfigSource::Logger,
        origin: Origin::DynamicBroker,
        synonyms: Vec::new(),
        kind: ConfigType::Unknown,
        sensitive: false,
        read_only: false,
        doc: "Level of this part of the log.",
    });
    described.collect()
}

fn stored(context: &Context, resource: ConfigResource) -> Values {
    let image = context.broker().metadata().image();
    image.configs(&resource).map(|values| (**values).clone()).unwrap_or_default()
}

fn check_broker(context: &Context, name: &str, alternative: &str) -> Result<(), Failure> {
    let own = context.broker().node_id();
    match name.parse::<i32>() {
        Ok(id) if id == own => Ok(()),
        Ok(id) => {
            Err(invalid(format!("Unexpected broker id, expected {own}{alternative} but received {id}")))
        }
        Err(_) => Err(invalid(format!("Broker id must be an integer, but it is: {name}"))),
    }
}

fn show(described: Described, shape: &Shape) -> DescribeConfigsResourceResult {
    let visible = |value: Option<String>| value.filter(|_| !described.sensitive).map(text);
    let mut shown = message!(DescribeConfigsResourceResult {
        name: text(described.name),
        value: visible(described.value),
        read_only: described.read_only,
        config_source: described.source as i8,
        is_sensitive: described.sensitive,
    });
    if shape.synonyms {
        let synonyms = described.synonyms.into_iter().map(|synonym| {
            message!(DescribeConfigsSynonym {
                name: text(synonym.name),
                value: visible(synonym.value),
                source: synonym.source as i8,
            })
        });
        shown.synonyms = synonyms.collect();
    }
    if shape.kind {
        shown.config_type = described.kind as i8;
    }
    shown.documentation = shape.documentation.then(|| described.doc.into());
    shown
}

#[cfg(test)]
mod tests;
