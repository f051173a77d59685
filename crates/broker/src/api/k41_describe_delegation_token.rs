//! DescribeDelegationToken (key 41), versions 1–3.
//!
//! Version 2 is flexible (KIP-482), and 3 returns the requester of each token (KIP-373).
//!
//! The tokens of this broker's image, with their HMACs: those that have one of the requested owners
//! as owner, requester or renewer. A client sees the tokens that name itself. It sees other tokens
//! with Describe on the token, or with DescribeTokens on the owner. Expired tokens are shown until
//! the controller removes them. Clients without an identity or with a token are refused.

use levada_metadata::records::DelegationTokenRecord;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use levada_wire::messages::describe_delegation_token_response::{
    DescribedDelegationToken, DescribedDelegationTokenRenewer,
};
use levada_wire::messages::{DescribeDelegationTokenRequest, DescribeDelegationTokenResponse};

use crate::api::tokens::Principal;
use crate::api::{Context, text};

#[cfg(test)]
mod tests;

/// First version whose response names the requesters.
const REQUESTER_VERSION_MIN: i16 = 3;

pub(crate) async fn answer(
    context: &Context,
    request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    let access = context.broker().access();
    let refused = |error: ErrorCode| message!(DescribeDelegationTokenResponse { error_code: error.code() });
    if !context.may_use_tokens() {
        return refused(ErrorCode::DelegationTokenRequestNotAllowed);
    }
    if !access.has_tokens() {
        return refused(ErrorCode::DelegationTokenAuthDisabled);
    }
    let owners: Option<Vec<String>> = request.owners.map(|owners| {
        let principal = |owner| {
            let DescribeDelegationTokenOwner { principal_type: kind, principal_name: name, .. } = owner;
            Principal { kind, name }.text()
        };
        owners.into_iter().map(principal).collect()
    });
    let image = context.broker().metadata().image();
    let shown = image.tokens().values().filter(|token| {
        is_shown(token, (context.session().principal(), owners.as_deref()), || {
            context.might(Operation::Describe, ResourceType::DelegationToken, &token.token_id)
                || context.might(Operation::DescribeTokens, ResourceType::User, &token.owner)
        })
    });
    let described = shown
        .filter_map(|token| Some(describe(token, access.token_hmac(&token.token_id)?, context.version())));
    message!(DescribeDelegationTokenResponse { tokens: described.collect() })
}

/// True if the client may see the token. `may` tells if the client may see tokens that do not name
/// it.
fn is_shown(
    token: &DelegationTokenRecord,
    (client, owners): (&str, Option<&[String]>),
    may: impl FnOnce() -> bool,
) -> bool {
    let names = |principal: &str| {
        [&token.owner, &token.requester].into_iter().chain(&token.renewers).any(|one| one == principal)
    };
    owners.is_none_or(|owners| owners.iter().any(|owner| names(owner))) && (names(client) || may())
}

fn describe(token: &DelegationTokenRecord, hmac: Vec<u8>, version: i16) -> DescribedDelegationToken {
    let owner = Principal::parse(&token.owner);
    let renewers = token.renewers.iter().map(|renewer| {
        let Principal { kind, name } = Principal::parse(renewer);
        message!(DescribedDelegationTokenRenewer { principal_type: kind, principal_name: name })
    });
    let mut described = message!(DescribedDelegationToken {
        principal_type: owner.kind,
        principal_name: owner.name,
        issue_timestamp: token.issue_timestamp,
        expiry_timestamp: token.expiration_timestamp,
        max_timestamp: token.max_timestamp,
        token_id: text(token.token_id.clone()),
        hmac: hmac.into(),
        renewers: renewers.collect(),
    });
    if version >= REQUESTER_VERSION_MIN {
        let requester = Principal::parse(&token.requester);
        described.token_requester_principal_type = requester.kind;
        described.token_requester_principal_name = requester.name;
    }
    described
}
