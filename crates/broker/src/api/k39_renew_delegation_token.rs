//! RenewDelegationToken (key 39), versions 1–2.
//!
//! Version 2 is flexible (KIP-482).
//!
//! Owner and renewers of a token postpone its expiry. Clients without an identity or with a token
//! are refused. In a cluster, the controller decides the other requests.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{RenewDelegationTokenRequest, RenewDelegationTokenResponse};

use crate::api::changes::Before;
use crate::api::{Context, forwarding, tokens};

pub(crate) async fn answer(
    context: &Context,
    request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    if !context.may_use_tokens() {
        let error_code = ErrorCode::DelegationTokenRequestNotAllowed.code();
        return message!(RenewDelegationTokenResponse { error_code: error_code, expiry_timestamp_ms: -1 });
    }
    let (before, hmac) = (Before::of(context), request.hmac.clone());
    let answer = if context.broker().controller().is_remote() {
        forwarding::decide(context, request).await
    } else {
        let renewed = match tokens::change(context, before.image(), (&hmac, request.renew_period_ms)) {
            Ok(change) => context.broker().controller().renew_token(change).await,
            Err(error) => Err(error.into()),
        };
        let (error_code, expiry_ms) = tokens::outcome(renewed);
        message!(RenewDelegationTokenResponse { error_code: error_code, expiry_timestamp_ms: expiry_ms })
    };
    if answer.error_code == ErrorCode::None.code() {
        tokens::tell_expiry(context, before.image(), &hmac, Some(answer.expiry_timestamp_ms));
    }
    answer
}
