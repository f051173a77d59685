//! InitProducerId (key 22), versions 0–5.
//!
//! Version 2 is flexible (KIP-482), 3 has the previous id and epoch (KIP-360), 4 may return
//! PRODUCER_FENCED (KIP-588), and 5 TRANSACTION_ABORTABLE (KIP-890).
//!
//! Allocates producer ids from blocks that are recorded in the metadata log, so that no id is used
//! twice. An idempotent producer always gets a new id with epoch 0, independent of its previous id
//! and epoch (KIP-360). With a transactional id the transaction coordinator decides: the id's owner
//! gets the next epoch, which fences the producer with the previous epoch.
//!
//! Not done: two-phase commit (version 6, KIP-939), which Kafka 4.4 does not advertise either.

use levada_coordination::txn::request::{InitRequest, ProducerIdentity};
use levada_coordination::txn::{TxnError, TxnState};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{InitProducerIdRequest, InitProducerIdResponse, StrBytes};

use crate::api::Context;
use crate::api::changes::log_change;

/// First version in which a fenced producer gets PRODUCER_FENCED.
const FENCED_VERSION_MIN: i16 = 4;

pub(crate) async fn answer(context: &Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    match init(context, request).await {
        Ok(owner) => message!(InitProducerIdResponse {
            producer_id: owner.producer_id,
            producer_epoch: owner.producer_epoch,
        }),
        Err(error) => {
            message!(InitProducerIdResponse { error_code: error.code(), producer_id: -1, producer_epoch: -1 })
        }
    }
}

async fn init(context: &Context, request: InitProducerIdRequest) -> Result<ProducerIdentity, ErrorCode> {
    let broker = context.broker();
    permit(context, &request)?;
    if (request.producer_id >= 0) != (request.producer_epoch >= 0) {
        return Err(ErrorCode::InvalidRequest);
    }
    context.give_turn_back();
    let Some(transactional_id) = request.transactional_id else {
        let producer_id = broker.controller().next_producer_id().await.map_err(|failure| failure.code)?;
        return Ok(ProducerIdentity { producer_id, producer_epoch: 0 });
    };
    let expected = (request.producer_id >= 0).then_some((request.producer_id, request.producer_epoch));
    let asked = InitRequest {
        transactional_id: transactional_id.into_string(),
        timeout_ms: request.transaction_timeout_ms,
        expected,
        enable_two_phase_commit: request.enable2_pc,
        keep_prepared: request.keep_prepared_txn,
    };
    let id = asked.transactional_id.clone();
    let described = broker.coordinators().txns().view(&id, |coordinator| coordinator.describe(&id));
    let was_open = described.is_some_and(|one| one.is_ok_and(|one| one.state == TxnState::Ongoing));
    let answer = broker.coordinators().txns().ask(asked).await;
    // The coordinator answers so while it ends the transaction.
    if was_open && matches!(answer, Ok(_) | Err(TxnError::ConcurrentTransactions)) {
        log_change!(context, "open transaction aborted for a new producer", transactional_id = id,);
    }
    answer.map_err(|error| match context.version() {
        FENCED_VERSION_MIN.. => error.into(),
        _ => error.before_fencing().into(),
    })
}

fn permit(context: &Context, request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    let Some(id) = request.transactional_id.as_ref().map(StrBytes::as_str) else {
        let may = context.might_cluster(Operation::IdempotentWrite)
            || context.may_some(Operation::Write, ResourceType::Topic);
        return if may { Ok(()) } else { Err(ErrorCode::ClusterAuthorizationFailed) };
    };
    let may = |operation| context.may(operation, ResourceType::TransactionalId, id);
    if may(Operation::Write) && (!request.enable2_pc || may(Operation::TwoPhaseCommit)) {
        Ok(())
    } else {
        Err(ErrorCode::TransactionalIdAuthorizationFailed)
    }
}
