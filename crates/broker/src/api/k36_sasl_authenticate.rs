//! SaslAuthenticate (key 36), versions 0–2.
//!
//! Version 1 returns the lifetime of the session (KIP-368), and 2 is flexible (KIP-482).
//!
//! `server::auth_gate` processes the requests of an authentication. This file only sees a request
//! without a handshake, and refuses it as Kafka does.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use crate::api::Context;

pub(crate) async fn answer(_: &Context, _: SaslAuthenticateRequest) -> SaslAuthenticateResponse {
    message!(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some("SaslAuthenticate request received after successful authentication".into()),
    })
}
