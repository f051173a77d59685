//! RenewDelegationToken (key 39), versions 1–2, in a cluster.
//!
//! The controller lets the owner and the renewers of a token postpone its expiry. The broker
//! refuses clients without an identity or with a token; it forwards all other requests.

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
    let answer = forwarding::decide(context, request).await;
    if answer.error_code == ErrorCode::None.code() {
        tokens::tell_expiry(context, before.image(), &hmac, Some(answer.expiry_timestamp_ms));
    }
    answer
}
