//! DescribeCluster (key 60), versions 0–2.
//!
//! The cluster id, this broker and (since it is its own controller) the controller. Endpoint type 2
//! asks for controllers (`--bootstrap-controller`): each listener is the controller's as well, so
//! that this node is told again. Any other type is Kafka's error.
//!
//! Not done: authorized operations are those of a cluster without an authorizer (all of them).

use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn answer(context: &Context, request: DescribeClusterRequest) -> DescribeClusterResponse {
    let broker = context.broker();
    let asked = request.endpoint_type;
    if asked != BROKERS && asked != CONTROLLERS {
        let text = format!("Unsupported endpoint type {asked}");
        return message!(DescribeClusterResponse {
            endpoint_type: BROKERS,
            error_code: ErrorCode::UnsupportedEndpointType.code(),
            error_message: Some(text.into()),
        });
    }
    let mut response = message!(DescribeClusterResponse { endpoint_type: asked });
    let (host, port) = context.advertised();
    response.cluster_id = broker.metadata().cluster_id().into();
    response.controller_id = broker.node_id();
    response.brokers = vec![message!(DescribeClusterBroker {
        broker_id: broker.node_id(),
        host: host.as_str().into(),
        port: i32::from(port),
    })];
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = context.cluster_operations();
    }
    response
}
