//! CreateDelegationToken (key 38), versions 1–3, in a cluster.
//!
//! The controller creates the token and computes its HMAC. A client creates tokens for itself, and
//! for other owners with CreateTokens on the owner. The broker refuses clients without an identity
//! or with a token, and renewers that are not users; it forwards all other requests.

use levada_security::acl::{Operation, ResourceType};
use levada_security::delegation::USER;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};

use crate::api::Context;
use crate::api::forwarding::{self, Refusable};
use crate::api::tokens::{self, Principal};

/// From this version on the answer names the requester.
const REQUESTER_VERSION_MIN: i16 = 3;

/// Time in the answer to a refused request.
const NO_TIME: i64 = -1;

pub(crate) async fn answer(
    context: &Context,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let requester = Principal::user(context.session().user());
    let Some(owner) = owner(&request, &requester) else {
        return request.refuse(context.version(), &ErrorCode::UnknownServerError.into());
    };
    if let Err(error) = check(context, &request, (&owner, &requester)) {
        return refused(context.version(), error, (owner, requester));
    }
    let answer = forwarding::decide(context, request).await;
    if answer.error_code == ErrorCode::None.code() {
        tokens::tell(context, (answer.token_id.as_str(), "owner"), (None, Some(&owner.text())));
    }
    answer
}

/// The owner of the new token: the client if the request names none. A name without a type is
/// invalid.
fn owner(request: &CreateDelegationTokenRequest, requester: &Principal) -> Option<Principal> {
    match request.owner_principal_name.as_ref().filter(|name| !name.is_empty()) {
        None => Some(requester.clone()),
        Some(name) => Some(Principal { kind: request.owner_principal_type.clone()?, name: name.clone() }),
    }
}

fn check(
    context: &Context,
    request: &CreateDelegationTokenRequest,
    (owner, requester): (&Principal, &Principal),
) -> Result<(), ErrorCode> {
    if !context.may_use_tokens() {
        return Err(ErrorCode::DelegationTokenRequestNotAllowed);
    }
    if owner != requester && !context.may(Operation::CreateTokens, ResourceType::User, &owner.text()) {
        return Err(ErrorCode::DelegationTokenAuthorizationFailed);
    }
    if request.renewers.iter().any(|renewer| renewer.principal_type.as_str() != USER) {
        return Err(ErrorCode::InvalidPrincipalType);
    }
    Ok(())
}

/// The answer to a request without a token; owner and requester are named.
pub(super) fn refused(
    version: i16,
    error: ErrorCode,
    (owner, requester): (Principal, Principal),
) -> CreateDelegationTokenResponse {
    let mut answer = message!(CreateDelegationTokenResponse {
        error_code: error.code(),
        principal_type: owner.kind,
        principal_name: owner.name,
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
    });
    if version >= REQUESTER_VERSION_MIN {
        answer.token_requester_principal_type = requester.kind;
        answer.token_requester_principal_name = requester.name;
    }
    answer
}
