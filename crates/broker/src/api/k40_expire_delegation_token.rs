//! ExpireDelegationToken (key 40), versions 1–2.
//!
//! Version 2 is flexible (KIP-482).
//!
//! Owner and renewers of a token change its expiry, or remove the token immediately with a negative
//! period. Clients without an identity or with a token are refused. In a cluster, the controller
//! decides the other requests.

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
    let answer = if context.broker().controller().is_remote() {
        forwarding::decide(context, request).await
    } else {
        let expired = match tokens::change(context, before.image(), (&hmac, request.expiry_time_period_ms)) {
            Ok(change) => context.broker().controller().expire_token(change).await,
            Err(error) => Err(error.into()),
        };
        let (error_code, expiry_ms) = tokens::outcome(expired);
        message!(ExpireDelegationTokenResponse { error_code: error_code, expiry_timestamp_ms: expiry_ms })
    };
    if answer.error_code == ErrorCode::None.code() {
        let expiry_ms = Some(answer.expiry_timestamp_ms).filter(|_| !is_removed);
        tokens::tell_expiry(context, before.image(), &hmac, expiry_ms);
    }
    answer
}
