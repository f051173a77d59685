//! UnregisterBroker (key 64), version 0.
//!
//! Removes the registration of a broker that no longer exists. Checks Alter on the cluster. In a
//! cluster, the request is forwarded. A broker that is its own controller has registrations of
//! others if its data directory is from a cluster of Kafka's.
//!
//! Not done: this node does not unregister itself, which would end its service.

use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use crate::api::access::forbidden;
use crate::api::changes::log_change;
use crate::api::{Context, text};

pub(crate) async fn answer(context: &Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse {
    let id = request.broker_id;
    let removed = if context.may_cluster(Operation::Alter) {
        context.broker().controller().unregister_broker(id).await
    } else {
        Err(forbidden(ErrorCode::ClusterAuthorizationFailed))
    };
    if removed.is_ok() {
        log_change!(context, "broker unregistered", broker_id = id,);
    }
    let failure = removed.err();
    message!(UnregisterBrokerResponse {
        error_code: error_code(failure.as_ref().map(|failure| failure.code)),
        error_message: Some(text(failure.and_then(|failure| failure.message).unwrap_or_default())),
    })
}
