//! UnregisterController (key 94), version 0, which Kafka has since 4.4.
//!
//! Removes the registration of a controller that no longer exists, from `metadata.version` 4.4-IV2
//! on. Checks Alter on the cluster. In a cluster, the request is forwarded, and the broker offers
//! the API if the controllers do. A broker that is its own controller has registrations of others
//! if its data directory is from a cluster of Kafka's.

use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::{UnregisterControllerRequest, UnregisterControllerResponse};

use crate::api::access::forbidden;
use crate::api::changes::log_change;
use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: UnregisterControllerRequest,
) -> UnregisterControllerResponse {
    let id = request.controller_id;
    let removed = if context.may_cluster(Operation::Alter) {
        context.broker().controller().unregister_controller(id).await
    } else {
        Err(forbidden(ErrorCode::ClusterAuthorizationFailed))
    };
    if removed.is_ok() {
        log_change!(context, "controller unregistered", controller_id = id,);
    }
    let failure = removed.err();
    message!(UnregisterControllerResponse {
        error_code: error_code(failure.as_ref().map(|failure| failure.code)),
        error_message: Some(text(failure.and_then(|failure| failure.message).unwrap_or_default())),
    })
}
