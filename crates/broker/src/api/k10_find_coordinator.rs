//! FindCoordinator (key 10), versions 0–6.
//!
//! On a single broker every coordinator is this broker; asking for one also sees to it that
//! `__consumer_offsets` or `__transaction_state` exists. From version 4 on any number of keys.
//!
//! Not done: share coordinators, which answer `COORDINATOR_NOT_AVAILABLE`.

use levada_wire::messages::find_coordinator_response::Coordinator;
use levada_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::partition::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
const BATCHED_VERSION_MIN: i16 = 4;
const MESSAGE_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(context: &Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let found = find(context, request.key_type).await;
    let (host, port) = context.advertised();
    let (node_id, host, port) = match &found {
        Ok(()) => (context.broker().node_id(), text(host), i32::from(port)),
        Err(_) => (-1, text(""), -1),
    };
    let failure = found.err();
    let code = failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code();
    // Kafka tells of success as well, in one word or in none.
    let nothing = match (&failure, context.version() >= BATCHED_VERSION_MIN) {
        (None, false) => "NONE",
        _ => "",
    };
    let message = failure.and_then(|failure| failure.message).unwrap_or_else(|| nothing.to_owned());
    let error_message = Some(text(message));
    if context.version() >= BATCHED_VERSION_MIN {
        let coordinators = request.coordinator_keys.into_iter().map(|key| {
            message!(Coordinator {
                key: key,
                node_id: node_id,
                host: host.clone(),
                port: port,
                error_code: code,
                error_message: error_message.clone(),
            })
        });
        return message!(FindCoordinatorResponse { coordinators: coordinators.collect() });
    }
    let mut response = message!(FindCoordinatorResponse { node_id: node_id, host: host, port: port, error_code: code });
    if context.version() >= MESSAGE_VERSION_MIN {
        response.error_message = error_message;
    }
    response
}

async fn find(context: &Context, key_type: i8) -> Result<(), Failure> {
    match key_type {
        GROUP => context.broker().ensure_internal_topic(OFFSETS_TOPIC).await,
        TRANSACTION => context.broker().ensure_internal_topic(TRANSACTIONS_TOPIC).await,
        SHARE => Err(ErrorCode::CoordinatorNotAvailable.into()),
        other => Err(Failure::new(ErrorCode::InvalidRequest, format!("Unknown coordinator type {other}"))),
    }
}
