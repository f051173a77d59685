//! Parts that the APIs of delegation tokens (KIP-48) share: the condition for clients, principals
//! in messages, and entries about changes in the log and the audit log.

use levada_config::Protocol;
use levada_metadata::controller::TokenChange;
use levada_metadata::image::Image;
use levada_security::audit::{self, Change};
use levada_security::delegation::{USER, principal_parts};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::StrBytes;

use crate::api::changes::log_change;
use crate::api::{Context, text};

/// Principal in the form of requests and responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Principal {
    pub(super) kind: StrBytes,
    pub(super) name: StrBytes,
}

impl Principal {
    /// A user of this broker.
    pub(super) fn user(name: &str) -> Self {
        Self { kind: USER.into(), name: text(name.to_owned()) }
    }

    /// The principal of a record.
    pub(super) fn parse(principal: &str) -> Self {
        let (kind, name) = principal_parts(principal);
        Self { kind: text(kind.to_owned()), name: text(name.to_owned()) }
    }

    /// Type and name as records and access control have them.
    pub(super) fn text(&self) -> String {
        format!("{}:{}", self.kind.as_str(), self.name.as_str())
    }
}

impl Context {
    /// True if the client may send requests about delegation tokens: it is authenticated, and not
    /// by a token.
    pub(super) fn may_use_tokens(&self) -> bool {
        let session = self.session();
        let is_known = match self.info.listener.protocol {
            Protocol::Plaintext => false,
            Protocol::Ssl => !session.is_anonymous(),
            Protocol::SaslPlaintext | Protocol::SaslSsl => true,
        };
        is_known && !session.is_by_token()
    }
}

/// The change of the token of this HMAC by the client, for the controller of this process.
pub(super) fn change(
    context: &Context,
    image: &Image,
    (hmac, period_ms): (&[u8], i64),
) -> Result<TokenChange, ErrorCode> {
    let access = context.broker().access();
    if !access.has_tokens() {
        return Err(ErrorCode::DelegationTokenAuthDisabled);
    }
    let id = access.token_of(image, hmac).map(|token| token.token_id.clone());
    let principal = Principal::user(context.session().user()).text();
    Ok(TokenChange { id, principal, period_ms })
}

/// Error code and expiry in a response of the controller of this process. As in Kafka, the expiry
/// in its refusals is 0.
pub(super) fn outcome(expiry_ms: Result<i64, Failure>) -> (i16, i64) {
    match expiry_ms {
        Ok(expiry_ms) => (ErrorCode::None.code(), expiry_ms),
        Err(failure) => (failure.code.code(), 0),
    }
}

/// Writes a change of a token to the audit log, without its HMAC.
pub(super) fn tell(context: &Context, (id, key): (&str, &str), (old, new): (Option<&str>, Option<&str>)) {
    let change = Change { kind: "DELEGATION_TOKEN", name: id, key, old, new };
    audit::changed(context.session(), context.header.api, &change);
    log_change!(context, "delegation token changed", token = id, key, old, new,);
}

/// Writes the new expiry of the token of this HMAC; none if the token was removed. `before` is the
/// image before the change. A token that this broker does not have yet has no name there.
pub(super) fn tell_expiry(context: &Context, before: &Image, hmac: &[u8], expiry_ms: Option<i64>) {
    let access = context.broker().access();
    let now = context.broker().metadata().image();
    let known = access.token_of(before, hmac).or_else(|| access.token_of(&now, hmac));
    let id = known.map_or("unknown", |token| token.token_id.as_str());
    let Some(expiry_ms) = expiry_ms else {
        tell(context, (id, "owner"), (known.map(|token| token.owner.as_str()), None));
        return;
    };
    let old = known.map(|token| token.expiration_timestamp.to_string());
    tell(context, (id, "expiry_ms"), (old.as_deref(), Some(&expiry_ms.to_string())));
}
