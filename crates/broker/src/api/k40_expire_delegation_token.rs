//! ExpireDelegationToken (key 40), versions 1–2, in a cluster.
//!
//! The controller lets the owner and the renewers of a token change its expiry, or remove the token
//! at once with a negative period. The broker refuses clients without an identity or with a token;
//! it forwards all other requests.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse};

use crate::api::changes::Before;
use crate::api::{Context, forwarding, tokens};

pub(crate) async fn answer(
    context: &Context,
    request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    if !context.may_use_tokens() {
        let error_code = ErrorCode::DelegationTokenRequestNotAllowed.code();
        return message!(ExpireDelegationTokenResponse { error_code: error_code, expiry_timestamp_ms: -1 });
    }
    let (before, hmac) = (Before::of(context), request.hmac.clone());
    let is_removed = request.expiry_time_period_ms < 0;
    let answer = forwarding::decide(context, request).await;
    if answer.error_code == ErrorCode::None.code() {
        let expiry_ms = Some(answer.expiry_timestamp_ms).filter(|_| !is_removed);
        tokens::tell_expiry(context, before.image(), &hmac, expiry_ms);
    }
    answer
}
