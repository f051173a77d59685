//! SaslAuthenticate (key 36), versions 0–2.
//!
//! What belongs to a client's authentication never gets here: `server::gate` takes it. This one
//! comes without a handshake, and is refused as Kafka does.

use levada_wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

pub(crate) async fn answer(_: &Context, _: SaslAuthenticateRequest) -> SaslAuthenticateResponse {
    message!(SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some("SaslAuthenticate request received after successful authentication".into()),
    })
}
