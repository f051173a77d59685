//! StreamsGroupTopologyDescriptionUpdate (key 93), version 0, which Kafka has since 4.4.
//!
//! Members of streams groups send the description of their topology to a broker that asks for it,
//! which a Kafka broker does with a plug-in that stores descriptions. This broker, like a Kafka
//! broker without a plug-in, never requests it, and responds with `UNSUPPORTED_VERSION`.
//!
//! The description is not decoded: in memory it would take many times its size in the request.
//!
//! Checks Read on the group. Without `streams` in `group.coordinator.rebalance.protocols`, or with
//! the feature `streams.version` at level 0, the response is `UNSUPPORTED_VERSION` as well.

use bytes::Bytes;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::{StrBytes, StreamsGroupTopologyDescriptionUpdateResponse};
use levada_wire::{DecodeError, decode_name};

use crate::api::access::forbidden;
use crate::api::k88_streams_group_heartbeat::are_served;
use crate::api::{Context, Decoded, text};

/// The group of an update.
pub(crate) struct Update {
    group_id: StrBytes,
}

impl Decoded for Update {
    fn decode(body: Bytes, _version: i16) -> Result<Self, DecodeError> {
        Ok(Self { group_id: decode_name(body)? })
    }
}

pub(crate) async fn answer(
    context: &Context,
    request: Update,
) -> StreamsGroupTopologyDescriptionUpdateResponse {
    let may = || context.may(Operation::Read, ResourceType::Group, request.group_id.as_str());
    let failure = if !are_served(context) {
        Failure::new(ErrorCode::UnsupportedVersion, "The version of API is not supported.")
    } else if may() {
        let message = "The broker has no streams group topology description plugin configured.";
        Failure::new(ErrorCode::UnsupportedVersion, message)
    } else {
        forbidden(ErrorCode::GroupAuthorizationFailed)
    };
    message!(StreamsGroupTopologyDescriptionUpdateResponse {
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    })
}
