//! FindCoordinator (key 10), versions 0–6.
//!
//! Version 1 has transactional ids (KIP-98), 4 any number of keys (KIP-699), 5 may return
//! TRANSACTION_ABORTABLE (KIP-890), and 6 has share groups (KIP-932).
//!
//! The coordinator of a key is the leader of its partition of `__consumer_offsets`,
//! `__transaction_state` or `__share_group_state`, by the image. The request also creates a missing
//! topic: a controller in the same process creates it before the response, another controller after
//! the response, and the client retries.
//!
//! Checks Describe on the group or the transactional id, and ClusterAction for the state of a
//! share group, whose key is `group:topicId:partition` and which needs version 6.

use levada_coordination::machine::partition_for;
use levada_coordination::share_state::ShareKey;
use levada_metadata::image::Image;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::find_coordinator_response::Coordinator;
use levada_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::nodes::{NodeEndpoint, Nodes};
use crate::api::{Context, text};
use crate::replica::{OFFSETS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
const BATCHED_VERSION_MIN: i16 = 4;
const SHARE_VERSION_MIN: i16 = 6;
const MESSAGE_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(context: &Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let batched = context.version() >= BATCHED_VERSION_MIN;
    let keys = if batched { request.coordinator_keys } else { vec![request.key] };
    let permitted: Vec<_> = keys.iter().map(|key| permit(context, request.key_type, key)).collect();
    let found =
        if permitted.iter().any(Result::is_ok) { find(context, request.key_type).await } else { Ok(()) };
    let coordinators = keys.into_iter().zip(permitted);
    let key_type = request.key_type;
    let image = context.broker().metadata().image();
    let nodes = Nodes::of(context, &image);
    let mut coordinators = coordinators.map(|(key, permitted)| {
        let found = permitted.and_then(|()| found.clone());
        let found = found.and_then(|()| locate(context, (&image, &nodes), (key_type, key.as_str())));
        show(context, key, found)
    });
    if batched {
        return message!(FindCoordinatorResponse { coordinators: coordinators.collect() });
    }
    let found = coordinators.next().expect("one key was asked for");
    let mut response = message!(FindCoordinatorResponse {
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        error_code: found.error_code,
    });
    if context.version() >= MESSAGE_VERSION_MIN {
        response.error_message = found.error_message;
    }
    response
}

fn show(context: &Context, key: StrBytes, found: Result<NodeEndpoint<'_>, Failure>) -> Coordinator {
    let (node_id, host, port, failure) = match found {
        Ok(node) => (node.broker.broker_id, text(node.host), i32::from(node.port), None),
        Err(failure) => (-1, text(""), -1, Some(failure)),
    };
    let code = failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code();
    // Kafka sends a message on success as well, of one word or empty.
    let nothing = match (&failure, context.version() >= BATCHED_VERSION_MIN) {
        (None, false) => "NONE",
        _ => "",
    };
    let message = failure.and_then(|failure| failure.message).unwrap_or(nothing.into());
    message!(Coordinator {
        key: key,
        node_id: node_id,
        host: host,
        port: port,
        error_code: code,
        error_message: Some(text(message)),
    })
}

/// Checks that the client may describe the group or the transactional id.
fn permit(context: &Context, key_type: i8, key: &StrBytes) -> Result<(), Failure> {
    let may = |kind| context.may(Operation::Describe, kind, key.as_str());
    // Kafka sends explanations only if the request has a single coordinator.
    let refuse = |error: ErrorCode| {
        if context.version() >= BATCHED_VERSION_MIN { Err(error.into()) } else { Err(forbidden(error)) }
    };
    match key_type {
        GROUP if !may(ResourceType::Group) => refuse(ErrorCode::GroupAuthorizationFailed),
        TRANSACTION if !may(ResourceType::TransactionalId) => {
            refuse(ErrorCode::TransactionalIdAuthorizationFailed)
        }
        SHARE if context.version() < SHARE_VERSION_MIN => Err(ErrorCode::InvalidRequest.into()),
        SHARE if !context.may_cluster(Operation::ClusterAction) => {
            Err(forbidden(ErrorCode::ClusterAuthorizationFailed))
        }
        SHARE if ShareKey::parse(key.as_str()).is_none() => Err(ErrorCode::InvalidRequest.into()),
        _ => Ok(()),
    }
}

async fn find(context: &Context, key_type: i8) -> Result<(), Failure> {
    match key_type {
        GROUP => context.broker().controller().ensure_internal_topic(OFFSETS_TOPIC).await,
        TRANSACTION => context.broker().controller().ensure_internal_topic(TRANSACTIONS_TOPIC).await,
        SHARE => context.broker().controller().ensure_internal_topic(SHARE_STATES_TOPIC).await,
        other => Err(Failure::new(ErrorCode::InvalidRequest, format!("Unknown coordinator type {other}"))),
    }
}

/// The live leader of the partition that coordinates the key. If the leader is this broker, the
/// partition has to be online; other partitions of the topic may be offline.
fn locate<'a>(
    context: &Context,
    (image, nodes): (&Image, &Nodes<'a>),
    (key_type, key): (i8, &str),
) -> Result<NodeEndpoint<'a>, Failure> {
    let broker = context.broker();
    let name = match key_type {
        GROUP => OFFSETS_TOPIC,
        TRANSACTION => TRANSACTIONS_TOPIC,
        _ => SHARE_STATES_TOPIC,
    };
    let found = image.topic(name).and_then(|topic| {
        let count = i32::try_from(topic.partition_count()).ok().filter(|count| *count > 0)?;
        let index = partition_for(key, count);
        let leader = topic.partition(index)?.leader;
        let is_served = leader != broker.node_id() || broker.replicas().may_serve(name, index);
        nodes.live(leader).filter(|_| is_served)
    });
    found.ok_or_else(|| ErrorCode::CoordinatorNotAvailable.into())
}
