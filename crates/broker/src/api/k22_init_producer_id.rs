//! InitProducerId (key 22), versions 0–5.
//!
//! Hands out producer ids for idempotent producers, from blocks that the metadata log accounts for, so
//! that no id is ever used twice. An idempotent producer always gets a new id with epoch 0, whatever id
//! and epoch it had (KIP-360).
//!
//! Not done: transactional ids belong to the transaction coordinator; they answer
//! `COORDINATOR_NOT_AVAILABLE`.

use levada_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

pub(crate) async fn answer(context: &Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let refused = |error: ErrorCode| {
        message!(InitProducerIdResponse { error_code: error.code(), producer_id: -1, producer_epoch: -1 })
    };
    if request.transactional_id.is_some() {
        return refused(ErrorCode::CoordinatorNotAvailable);
    }
    if (request.producer_id >= 0) != (request.producer_epoch >= 0) {
        return refused(ErrorCode::InvalidRequest);
    }
    match context.broker().next_producer_id().await {
        Ok(producer_id) => message!(InitProducerIdResponse { producer_id: producer_id, producer_epoch: 0 }),
        Err(failure) => refused(failure.code),
    }
}
