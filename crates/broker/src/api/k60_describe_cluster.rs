//! DescribeCluster (key 60), versions 0–2.
//!
//! Version 1 has endpoint types (KIP-919), and 2 fenced brokers (KIP-1073); the API is that of
//! KIP-700.
//!
//! The cluster id, the live brokers (from version 2 on also fenced brokers on request), and a
//! controller: any live broker, since each broker accepts requests for the controller. Endpoint
//! type 2 means controllers (`--bootstrap-controller`): a broker that is its own controller returns
//! itself, any other broker refuses. Any other type gets Kafka's error.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

use crate::api::nodes::{NodeEndpoint, Nodes};
use crate::api::{Context, text};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;
/// First version with errors about the endpoint type.
const ENDPOINT_VERSION_MIN: i16 = 1;
/// The first version that can request fenced brokers.
const FENCED_VERSION_MIN: i16 = 2;

pub(crate) async fn answer(context: &Context, request: DescribeClusterRequest) -> DescribeClusterResponse {
    let broker = context.broker();
    let asked = request.endpoint_type;
    if asked != BROKERS && asked != CONTROLLERS {
        return refuse(
            context,
            ErrorCode::UnsupportedEndpointType,
            format!("Unsupported endpoint type {asked}"),
        );
    }
    if asked == CONTROLLERS && broker.controller().is_remote() {
        let text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
        return refuse(context, ErrorCode::MismatchedEndpointType, text.to_owned());
    }
    let image = broker.metadata().image();
    let nodes = Nodes::of(context, &image);
    let shown = nodes.all(request.include_fenced_brokers);
    let mut response = message!(DescribeClusterResponse { endpoint_type: asked });
    response.cluster_id = broker.metadata().cluster_id().into();
    response.controller_id = nodes.controller_id();
    response.brokers = shown.into_iter().map(|node| show(context.version(), node)).collect();
    if !response.brokers.iter().any(|one| one.broker_id == response.controller_id) {
        // Clients look the controller up among the brokers.
        response.controller_id = -1;
    }
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = context.cluster_operations();
    }
    response
}

fn refuse(context: &Context, error: ErrorCode, text: String) -> DescribeClusterResponse {
    let is_known = context.version() >= ENDPOINT_VERSION_MIN;
    let error = if is_known { error } else { ErrorCode::InvalidRequest };
    message!(DescribeClusterResponse {
        endpoint_type: BROKERS,
        error_code: error.code(),
        error_message: Some(text.into()),
    })
}

fn show(version: i16, node: NodeEndpoint<'_>) -> DescribeClusterBroker {
    message!(DescribeClusterBroker {
        broker_id: node.broker.broker_id,
        host: text(node.host),
        port: i32::from(node.port),
        rack: node.broker.rack.as_deref().map(Into::into),
        is_fenced: version >= FENCED_VERSION_MIN && node.broker.fenced,
    })
}
