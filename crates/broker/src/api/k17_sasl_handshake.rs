//! SaslHandshake (key 17), versions 0–1.
//!
//! Version 1 sends the tokens in SaslAuthenticate requests (KIP-152).
//!
//! `server::auth_gate` processes the handshake that begins an authentication. This file only sees a
//! handshake on a listener without SASL, or a re-authentication that is too early, and refuses it
//! as Kafka does.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::api::Context;

pub(crate) async fn answer(_: &Context, _: SaslHandshakeRequest) -> SaslHandshakeResponse {
    message!(SaslHandshakeResponse { error_code: ErrorCode::IllegalSaslState.code() })
}
