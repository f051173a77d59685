//! CreateDelegationToken (key 38), versions 1–3.
//!
//! Version 2 is flexible (KIP-482), and 3 has owners other than the requester (KIP-373).
//!
//! Creates a token and returns its HMAC, which is its password. A client creates tokens for itself,
//! and for other owners with CreateTokens on the owner. Clients without an identity or with a token
//! are refused, and so are renewers that are not users. In a cluster, the broker forwards requests
//! that pass these checks. Otherwise it creates the token itself, unless the tokens of the client,
//! or all tokens, take too much memory (POLICY_VIOLATION; Kafka has no bound).

use levada_metadata::controller::NewToken;
use levada_metadata::records::DelegationTokenRecord;
use levada_security::acl::{Operation, ResourceType};
use levada_security::delegation::USER;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};

use crate::api::changes::log_change;
use crate::api::forwarding::{self, Refusable};
use crate::api::tokens::{self, Principal};
use crate::api::{Context, text};

/// First version whose response names the requester.
const REQUESTER_VERSION_MIN: i16 = 3;

/// Value of the times in the response to a refused request.
pub(super) const NO_TIME: i64 = -1;

pub(crate) async fn answer(
    context: &Context,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let requester = Principal::user(context.session().user());
    let Some(owner) = owner(&request, &requester) else {
        return request.refuse(context.version(), &ErrorCode::UnknownServerError.into());
    };
    if let Err(error) = check(context, &request, (&owner, &requester)) {
        return refused(context.version(), (error, NO_TIME), (owner, requester));
    }
    let answer = if context.broker().controller().is_remote() {
        forwarding::decide(context, request).await
    } else {
        create(context, request, (&owner, &requester)).await
    };
    if answer.error_code == ErrorCode::None.code() {
        tokens::tell(context, (answer.token_id.as_str(), "owner"), (None, Some(&owner.text())));
    }
    answer
}

/// Creates the token by the controller of this process. As in Kafka, times in its refusals are 0.
async fn create(
    context: &Context,
    request: CreateDelegationTokenRequest,
    (owner, requester): (&Principal, &Principal),
) -> CreateDelegationTokenResponse {
    let renewer = |kind: &str, name: &str| format!("{kind}:{name}");
    let renewers = request.renewers.iter();
    let new = NewToken {
        owner: owner.text(),
        requester: requester.text(),
        renewers: renewers.map(|one| renewer(&one.principal_type, &one.principal_name)).collect(),
        max_lifetime_ms: request.max_lifetime_ms,
    };
    let created = if context.broker().access().has_tokens() {
        context.broker().controller().create_token(new).await
    } else {
        Err(ErrorCode::DelegationTokenAuthDisabled.into())
    };
    match created {
        Ok(token) => describe(context, token, (owner, requester)),
        Err(Failure { code, message }) => {
            if let Some(reason) = message {
                log_change!(context, "delegation token refused", error = code.name(), %reason,);
            }
            refused(context.version(), (code, 0), (owner.clone(), requester.clone()))
        }
    }
}

/// The response with the new token.
fn describe(
    context: &Context,
    token: DelegationTokenRecord,
    principals: (&Principal, &Principal),
) -> CreateDelegationTokenResponse {
    let hmac = context.broker().access().token_hmac(&token.token_id).unwrap_or_default();
    let principals = (principals.0.clone(), principals.1.clone());
    let mut answer = refused(context.version(), (ErrorCode::None, 0), principals);
    answer.issue_timestamp_ms = token.issue_timestamp;
    answer.expiry_timestamp_ms = token.expiration_timestamp;
    answer.max_timestamp_ms = token.max_timestamp;
    answer.token_id = text(token.token_id);
    answer.hmac = hmac.into();
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

/// The response without a token, with this value in place of its times; it names owner and
/// requester.
pub(super) fn refused(
    version: i16,
    (error, time): (ErrorCode, i64),
    (owner, requester): (Principal, Principal),
) -> CreateDelegationTokenResponse {
    let mut answer = message!(CreateDelegationTokenResponse {
        error_code: error.code(),
        principal_type: owner.kind,
        principal_name: owner.name,
        issue_timestamp_ms: time,
        expiry_timestamp_ms: time,
        max_timestamp_ms: time,
    });
    if version >= REQUESTER_VERSION_MIN {
        answer.token_requester_principal_type = requester.kind;
        answer.token_requester_principal_name = requester.name;
    }
    answer
}
