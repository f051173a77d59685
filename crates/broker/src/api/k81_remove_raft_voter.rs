//! RemoveRaftVoter (key 81), version 0.
//!
//! Checks Alter on the cluster. In a cluster, the request is forwarded. A broker that is its own
//! controller is the only voter of its quorum, which cannot be removed: it refuses each request as
//! Kafka's leader of a quorum of one does.

use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};

use crate::api::access::forbidden;
use crate::api::voters::{self, Voter};
use crate::api::{Context, text};

pub(crate) async fn answer(context: &Context, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse {
    let failure = if context.may_cluster(Operation::Alter) {
        refuse(context, &request)
    } else {
        forbidden(ErrorCode::ClusterAuthorizationFailed)
    };
    message!(RemoveRaftVoterResponse {
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    })
}

fn refuse(context: &Context, request: &RemoveRaftVoterRequest) -> Failure {
    if let Some(failure) = voters::check_cluster(context, request.cluster_id.as_ref()) {
        return failure;
    }
    let Some(voter) = Voter::new(request.voter_id, request.voter_directory_id) else {
        return Failure::new(ErrorCode::InvalidRequest, "Remove voter request didn't include a valid voter");
    };
    if let Some(failure) = voters::check_level(context, "removing") {
        return failure;
    }
    let own = Voter::of_this_node(context);
    let text = format!("Cannot remove voter {voter} from the set of voters [{own}]");
    Failure::new(ErrorCode::VoterNotFound, text)
}
