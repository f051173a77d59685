//! EndTxn (key 26), versions 0–5.
//!
//! Version 2 may return PRODUCER_FENCED (KIP-588), 3 is flexible (KIP-482), 4 may return
//! TRANSACTION_ABORTABLE, and 5 increments the producer epoch (both KIP-890).
//!
//! Commits or aborts a producer's transaction. The response is sent when the decision is in the
//! log; markers follow. From version 5 on (KIP-890) the response has the producer's next epoch, or
//! its next id after the last epoch.

use levada_coordination::txn::request::{EndRequest, ProducerIdentity, Protocol};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{EndTxnRequest, EndTxnResponse};

use crate::api::Context;

const EPOCH_BUMP_VERSION_MIN: i16 = 5;
/// First version in which a fenced producer gets PRODUCER_FENCED.
const FENCED_VERSION_MIN: i16 = 2;

pub(crate) async fn answer(context: &Context, request: EndTxnRequest) -> EndTxnResponse {
    let version = context.version();
    let id = request.transactional_id.as_str();
    if !context.may(Operation::Write, ResourceType::TransactionalId, id) {
        let error = ErrorCode::TransactionalIdAuthorizationFailed;
        return message!(EndTxnResponse { error_code: error.code() });
    }
    let asked = EndRequest {
        transactional_id: request.transactional_id.into_string(),
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
        protocol: if version >= EPOCH_BUMP_VERSION_MIN { Protocol::EpochBump } else { Protocol::Classic },
        commit: request.committed,
    };
    context.give_turn_back();
    let (error, owner) = match context.broker().coordinators().txns().ask(asked).await {
        Ok(owner) => (ErrorCode::None, owner),
        Err(error) if version >= FENCED_VERSION_MIN => (error.into(), ProducerIdentity::NONE),
        Err(error) => (error.before_fencing().into(), ProducerIdentity::NONE),
    };
    let mut response = message!(EndTxnResponse { error_code: error.code() });
    if version >= EPOCH_BUMP_VERSION_MIN {
        response.producer_id = owner.producer_id;
        response.producer_epoch = owner.producer_epoch;
    }
    response
}
