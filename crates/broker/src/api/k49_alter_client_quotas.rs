//! AlterClientQuotas (key 49), versions 0–1.
//!
//! Version 1 is flexible (KIP-482); the API is that of KIP-546.
//!
//! Sets and removes limits of users, client ids, both together, and addresses. All limits of an
//! entity change, or none. The limits apply immediately: a connection whose client has used more
//! than its `producer_byte_rate`, `consumer_byte_rate` or `request_percentage` gets its response
//! first and is then muted (KIP-219). The time of requests of other brokers, and of clients that
//! have yet to authenticate, counts against no quota. Without authentication every user is
//! `ANONYMOUS`. Checks AlterConfigs on the cluster.
//!
//! Not done: the mute for `request_percentage` is not announced in the response.

use bytes::Bytes;
use levada_metadata::controller::AlterQuota;
use levada_metadata::image::QuotaEntity;
use levada_security::acl::Operation;
use levada_wire::DecodeError;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::alter_client_quotas_request;
use levada_wire::messages::alter_client_quotas_response::{EntityData, EntryData};
use levada_wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::changes::Before;
use crate::api::{Context, Decoded, text};

/// Changes of limits, by entity.
pub(crate) struct AlterClientQuotas {
    alterations: Vec<AlterQuota>,
    validate_only: bool,
}

impl Decoded for AlterClientQuotas {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let (alterations, validate_only) =
            levada_wire::decode_each::<AlterClientQuotasRequest, _, _>(body, version, alteration)?;
        Ok(Self { alterations, validate_only })
    }
}

pub(crate) async fn answer(context: &Context, request: AlterClientQuotas) -> AlterClientQuotasResponse {
    let before = Before::of(context);
    let altered = if context.may_cluster(Operation::AlterConfigs) {
        context.broker().controller().alter_client_quotas(request.alterations, request.validate_only).await
    } else {
        let refused = |one: AlterQuota| (one.entity, Err(forbidden(ErrorCode::ClusterAuthorizationFailed)));
        request.alterations.into_iter().map(refused).collect()
    };
    before.quotas(context, altered.iter().map(|(entity, _)| entity));
    let entries = altered.into_iter().map(|(entity, outcome)| show(&entity, outcome));
    message!(AlterClientQuotasResponse { entries: entries.collect() })
}

/// The change of an entity's limits.
pub(super) fn alteration(entry: alter_client_quotas_request::EntryData) -> AlterQuota {
    let parts = entry.entity.iter().map(|part| {
        (
            part.entity_type.as_str().to_owned(),
            part.entity_name.as_ref().map(StrBytes::as_str).map(str::to_owned),
        )
    });
    let changes = entry.ops.iter().map(|op| (op.key.as_str().to_owned(), (!op.remove).then_some(op.value)));
    AlterQuota { entity: parts.collect(), changes: changes.collect() }
}

fn show(entity: &QuotaEntity, outcome: Result<(), Failure>) -> EntryData {
    let parts = entity.iter().map(|(kind, name)| {
        message!(EntityData {
            entity_type: kind.as_str().into(),
            entity_name: name.as_deref().map(StrBytes::from)
        })
    });
    let mut entry = message!(EntryData { entity: parts.collect(), error_message: None });
    if let Err(failure) = outcome {
        entry.error_code = failure.code.code();
        entry.error_message = failure.message.map(text);
    }
    entry
}
