//! DescribeCluster (key 60), versions 0–2.
//!
//! The cluster id, this broker and (since it is its own controller) the controller. Endpoint type 2
//! asks for controllers, which a client of a broker listener cannot have: Kafka's error, like any
//! other type.
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
    let mut response = message!(DescribeClusterResponse { endpoint_type: BROKERS });
    if request.endpoint_type != BROKERS {
        let (error, text) = match request.endpoint_type {
            CONTROLLERS => (
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                    .to_owned(),
            ),
            other => (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}")),
        };
        response.error_code = error.code();
        response.error_message = Some(text.into());
        return response;
    }
    let (host, port) = context.advertised();
    response.cluster_id = broker.cluster_id().into();
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
