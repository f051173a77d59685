//! The code that AlterConfigs and IncrementalAlterConfigs share: the resources that a request may
//! name, the values that may be null, and the merge of refused and changed resources into one
//! response.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use levada_metadata::image::{ConfigResource, ResourceKind};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{alter_configs_response, incremental_alter_configs_response};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::forwarding::configs;
use crate::api::{Context, text};
use crate::controller::ConfigChanges;

/// One resource of a request: its kind as Kafka numbers it, and its name.
pub(crate) type Named<'a> = (i8, &'a str);

/// A key of a resource, and true if it has a null value where a value is required.
pub(crate) type Given<'a> = (&'a str, bool);

/// A resource of a request, with the range of its keys in a common list: a hundred thousand
/// separate lists would take several times as much memory.
pub(crate) struct ResourceKeys {
    pub(crate) kind: i8,
    pub(crate) name: StrBytes,
    pub(crate) configs: Range<usize>,
}

impl ResourceKeys {
    pub(crate) fn named(&self) -> Named<'_> {
        (self.kind, self.name.as_str())
    }
}

/// The resources of a request that are named more than once: each of them is refused.
struct Repeated(HashSet<(i8, StrBytes)>);

impl Repeated {
    fn of(resources: &[ResourceKeys]) -> Self {
        let mut seen = HashSet::new();
        let repeated = resources.iter().filter(|one| !seen.insert(one.named()));
        Self(repeated.map(|one| (one.kind, one.name.clone())).collect())
    }

    /// The error for a resource that is named more than once.
    fn check(&self, one: &ResourceKeys) -> Result<(), Failure> {
        if self.0.contains(&(one.kind, one.name.clone())) {
            Err(invalid("Each resource must appear at most once."))
        } else {
            Ok(())
        }
    }
}

/// Checks that the client may do `operation` on the configuration of such a resource.
pub(crate) fn permit(
    context: &Context,
    operation: Operation,
    (kind, name): (ResourceKind, &str),
) -> Result<(), Failure> {
    let (may, error) = match kind {
        ResourceKind::Topic => {
            (context.may(operation, ResourceType::Topic, name), ErrorCode::TopicAuthorizationFailed)
        }
        ResourceKind::Group => {
            (context.may(operation, ResourceType::Group, name), ErrorCode::GroupAuthorizationFailed)
        }
        ResourceKind::Broker | ResourceKind::BrokerLogger | ResourceKind::ClientMetrics => {
            (context.may_cluster(operation), ErrorCode::ClusterAuthorizationFailed)
        }
    };
    if may { Ok(()) } else { Err(forbidden(error)) }
}

/// The resource of this kind and name, if it can be configured on this broker with these keys.
/// Loggers are resources too, although their levels are no part of the metadata. The controller of
/// a cluster authorizes changes of everything but loggers.
pub(crate) fn resource(
    context: &Context,
    (kind, name): Named<'_>,
    keys: &[Given<'_>],
) -> Result<ConfigResource, Failure> {
    let is_remote = context.broker().controller().is_remote();
    let is_own = |kind: &ResourceKind| !is_remote || *kind == ResourceKind::BrokerLogger;
    if let Some(kind) = ResourceKind::from_id(kind).filter(is_own) {
        permit(context, Operation::AlterConfigs, (kind, name))?;
    }
    let mut seen = HashSet::new();
    if !keys.iter().all(|(key, _)| seen.insert(key)) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let nulls: Vec<&str> = keys.iter().filter(|(_, null)| *null).map(|(key, _)| *key).collect();
    if !nulls.is_empty() {
        return Err(invalid(format!("Null value not supported for : {}", nulls.join(", "))));
    }
    let kind = ResourceKind::from_id(kind).ok_or_else(|| invalid(format!("Unknown resource type {kind}")))?;
    let is_one_broker = kind == ResourceKind::Broker && !name.is_empty();
    if is_one_broker || kind == ResourceKind::BrokerLogger {
        let own = context.broker().node_id();
        match name.parse::<i32>() {
            Ok(id) if id == own => {}
            Ok(id) => {
                return Err(invalid(format!("Unexpected broker id, expected {own}, but received {id}")));
            }
            Err(_) => return Err(invalid(format!("Node id must be an integer, but it is: {name}"))),
        }
    }
    Ok(ConfigResource { kind, name: name.to_owned() })
}

/// The part of a response that is about one resource.
pub(crate) trait ResourceAnswer {
    /// The response for a resource that has been changed.
    fn changed(kind: i8, name: StrBytes) -> Self;

    /// Turns the response into a refusal.
    fn refuse(&mut self, failure: Failure);
}

/// Implements [`ResourceAnswer`] for types of messages that differ in nothing but their module.
macro_rules! answer_resources {
    ($($response:ty),*) => {$(
        impl ResourceAnswer for $response {
            fn changed(kind: i8, name: StrBytes) -> Self {
                message!(Self { resource_type: kind, resource_name: name, error_message: None })
            }

            fn refuse(&mut self, failure: Failure) {
                self.error_code = failure.code.code();
                self.error_message = failure.message.map(text);
            }
        }
    )*};
}

answer_resources!(
    alter_configs_response::AlterConfigsResourceResponse,
    incremental_alter_configs_response::AlterConfigsResourceResponse
);

/// Changes or refuses each resource; responses are in the order of `resources`. `changes` contains
/// the changes of one resource, or nothing if they have been made already.
pub(crate) async fn alter<T, A: ResourceAnswer>(
    context: &Context,
    resources: Vec<ResourceKeys>,
    changes: impl Fn(&ResourceKeys) -> Result<Option<(ConfigResource, Vec<T>)>, Failure>,
    validate_only: bool,
    kind: impl FnOnce(Vec<(ConfigResource, Vec<T>)>) -> ConfigChanges,
) -> Vec<A> {
    let repeated = Repeated::of(&resources);
    let mut answers: Vec<A> = Vec::with_capacity(resources.len());
    let (mut permitted, mut places) = (Vec::new(), Vec::new());
    for resource in resources {
        let asked = repeated.check(&resource).and_then(|()| changes(&resource));
        let mut answer = A::changed(resource.kind, resource.name);
        match asked {
            Ok(Some(change)) => {
                permitted.push(change);
                places.push(answers.len());
            }
            Ok(None) => {}
            Err(failure) => answer.refuse(failure),
        }
        answers.push(answer);
    }
    let changed = change(context, permitted, validate_only, kind).await;
    for (place, changed) in places.into_iter().zip(changed) {
        if let Err(failure) = changed {
            answers[place].refuse(failure);
        }
    }
    answers
}

async fn change<T>(
    context: &Context,
    changes: Vec<(ConfigResource, Vec<T>)>,
    validate_only: bool,
    kind: impl FnOnce(Vec<(ConfigResource, Vec<T>)>) -> ConfigChanges,
) -> Vec<Result<(), Failure>> {
    if context.broker().controller().is_remote() {
        return configs::change(context, kind(changes), validate_only).await;
    }
    let before = Before::of(context);
    let resources: Vec<_> = changes.iter().map(|(resource, _)| resource.clone()).collect();
    let changed = context.broker().controller().change_configs(kind(changes), validate_only).await;
    before.configs(context, &resources);
    changed
}

pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message)
}
