//! SaslHandshake (key 17), versions 0–1.
//!
//! A handshake that begins a client's authentication never gets here: `server::auth_gate` takes it.
//! This one comes where there is nothing to show, or too soon after the last time, and is refused
//! as Kafka does.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::api::Context;

pub(crate) async fn answer(_: &Context, _: SaslHandshakeRequest) -> SaslHandshakeResponse {
    message!(SaslHandshakeResponse { error_code: ErrorCode::IllegalSaslState.code() })
}
