//! AddRaftVoter (key 80), versions 0–1.
//!
//! Version 1 can respond before the change is committed (KIP-1186); the API is that of KIP-853.
//!
//! Checks Alter on the cluster. In a cluster, the request is forwarded. A broker that is its own
//! controller checks the request as Kafka's leader of a quorum does, and then refuses it: this node
//! is the only voter of its quorum.

use levada_metadata::controller::controller_endpoint;
use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::add_raft_voter_request::Listener;
use levada_wire::messages::{AddRaftVoterRequest, AddRaftVoterResponse};

use crate::api::access::forbidden;
use crate::api::voters::{self, Voter};
use crate::api::{Context, text};

/// The listener of this node's controller in the metadata: the new voter needs one of this name.
fn listener_name() -> String {
    controller_endpoint().name
}

pub(crate) async fn answer(context: &Context, request: AddRaftVoterRequest) -> AddRaftVoterResponse {
    let failure = if context.may_cluster(Operation::Alter) {
        refuse(context, &request)
    } else {
        forbidden(ErrorCode::ClusterAuthorizationFailed)
    };
    message!(AddRaftVoterResponse {
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    })
}

fn refuse(context: &Context, request: &AddRaftVoterRequest) -> Failure {
    if let Some(failure) = voters::check_cluster(context, request.cluster_id.as_ref()) {
        return failure;
    }
    let Some(voter) = Voter::new(request.voter_id, request.voter_directory_id) else {
        return Failure::new(ErrorCode::InvalidRequest, "Add voter request didn't include a valid voter");
    };
    let name = listener_name();
    if !request.listeners.iter().any(|listener| listener.name.as_str().to_uppercase() == name) {
        let text = format!(
            "Add voter request didn't include the endpoint ({}) for the default listener ListenerName({name})",
            endpoints(&request.listeners)
        );
        return Failure::new(ErrorCode::InvalidRequest, text);
    }
    if let Some(failure) = voters::check_level(context, "adding") {
        return failure;
    }
    let own = Voter::of_this_node(context);
    if voter.id == own.id {
        let text = format!("The voter id for {voter} is already part of the set of voters [{own}].");
        return Failure::new(ErrorCode::DuplicateVoter, text);
    }
    let text = "This broker is its own controller and the only voter of its quorum: for several controllers, move \
                its data directory to Apache Kafka.";
    Failure::new(ErrorCode::UnsupportedVersion, text)
}

/// The listeners as Kafka prints them. The sentence is cut before the list gets long.
fn endpoints(listeners: &[Listener]) -> String {
    let shown = listeners.iter().take(10).map(|listener| {
        let (name, host) = (listener.name.as_str().to_uppercase(), listener.host.as_str());
        format!("ListenerName({name})={host}/<unresolved>:{}", listener.port)
    });
    format!("Endpoints(endpoints={{{}}})", shown.collect::<Vec<_>>().join(", "))
}
