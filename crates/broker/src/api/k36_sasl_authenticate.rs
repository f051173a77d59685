//! SaslAuthenticate (key 36), versions 0–2.
//!
//! Requests of a client's authentication never get here: `server::auth_gate` takes them. A request
//! that gets here came without a handshake, and is refused as Kafka refuses it.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use crate::api::Context;

pub(crate) async fn answer(_: &Context, _: SaslAuthenticateRequest) -> SaslAuthenticateResponse {
    message!(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some("SaslAuthenticate request received after successful authentication".into()),
    })
}
