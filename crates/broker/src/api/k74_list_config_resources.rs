//! ListConfigResources (key 74), versions 0–1.
//!
//! Lists resources that can be configured. Version 0: client metrics subscriptions. From version 1
//! on (KIP-1142): all topics, brokers and loggers, and the groups and subscriptions with own
//! settings, or the types of resources that the request names.

use levada_metadata::image::ResourceKind;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::list_config_resources_response::ConfigResource;
use levada_wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

use crate::api::nodes::Nodes;
use crate::api::{Context, text};

/// Kinds of resources, in the order of Kafka's response.
const KINDS: [ResourceKind; 5] = [
    ResourceKind::Group,
    ResourceKind::ClientMetrics,
    ResourceKind::BrokerLogger,
    ResourceKind::Broker,
    ResourceKind::Topic,
];

const KINDS_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    if !context.may_cluster(Operation::DescribeConfigs) {
        let error_code = ErrorCode::ClusterAuthorizationFailed.code();
        return message!(ListConfigResourcesResponse { error_code: error_code });
    }
    let only_metrics = context.version() < KINDS_VERSION_MIN;
    let asked = if only_metrics { vec![ResourceKind::ClientMetrics.id()] } else { request.resource_types };
    if asked.iter().any(|kind| ResourceKind::from_id(*kind).is_none()) {
        return message!(ListConfigResourcesResponse { error_code: ErrorCode::UnsupportedVersion.code() });
    }
    let kinds = KINDS.iter().filter(|kind| asked.is_empty() || asked.contains(&kind.id()));
    let resources = kinds.flat_map(|kind| {
        names(context, *kind).into_iter().map(|name| {
            let mut resource = message!(ConfigResource { resource_name: text(name) });
            if !only_metrics {
                resource.resource_type = kind.id();
            }
            resource
        })
    });
    message!(ListConfigResourcesResponse { config_resources: resources.collect() })
}

fn names(context: &Context, kind: ResourceKind) -> Vec<String> {
    let image = context.broker().metadata().image();
    match kind {
        ResourceKind::Topic => image.topics().iter().map(|topic| topic.name().to_string()).collect(),
        ResourceKind::Broker | ResourceKind::BrokerLogger => {
            let brokers = Nodes::of(context, &image).all(true);
            brokers.into_iter().map(|node| node.broker.broker_id.to_string()).collect()
        }
        ResourceKind::ClientMetrics | ResourceKind::Group => {
            let configured = image.config_resources().filter(|(resource, _)| resource.kind == kind);
            configured.map(|(resource, _)| resource.name.clone()).collect()
        }
    }
}
