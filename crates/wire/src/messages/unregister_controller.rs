//! Messages of UnregisterController (key 94), which Kafka has since 4.4 and the codec crate does
//! not have.

use kafka_wire::{
    ApiDescriptor, KafkaMessage, KafkaRequest, KafkaResponse, MessageDescriptor, MessageDirection,
    RequestResponsePair, RetainedFootprint, RetainedSize,
};
use kafka_wire_core::{
    ApiKey, ApiVersion, DecodeError, Decoder, EncodeError, EncodeTarget, Encoder, KafkaDecode, KafkaEncode,
    StrBytes, TaggedFields, VersionRange,
};

use super::{check_decoded, check_encoded};

const KEY: i16 = 94;

/// The only version, which is flexible.
const VERSIONS: VersionRange = VersionRange::new(0, 0);

const REQUEST: MessageDescriptor = MessageDescriptor::new(
    KEY,
    "UnregisterControllerRequest",
    MessageDirection::Request,
    VERSIONS,
    Some(VERSIONS),
);

const RESPONSE: MessageDescriptor = MessageDescriptor::new(
    KEY,
    "UnregisterControllerResponse",
    MessageDirection::Response,
    VERSIONS,
    Some(VERSIONS),
);

/// Descriptor of the API, in the form of the codec's table.
pub(crate) const UNREGISTER_CONTROLLER: ApiDescriptor =
    ApiDescriptor::new(KEY, &REQUEST, &RESPONSE, VERSIONS, Some(VERSIONS), false);

/// Request to remove the registration of a controller.
#[non_exhaustive]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnregisterControllerRequest {
    /// Node id of the controller.
    pub controller_id: i32,
    /// Tagged fields that this version does not have.
    pub unknown_tagged_fields: TaggedFields,
}

/// Response to [`UnregisterControllerRequest`].
#[non_exhaustive]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnregisterControllerResponse {
    /// Time in milliseconds for which a quota mutes the client.
    pub throttle_time_ms: i32,
    /// Error code; 0 for none.
    pub error_code: i16,
    /// Message of the error.
    pub error_message: Option<StrBytes>,
    /// Tagged fields that this version does not have.
    pub unknown_tagged_fields: TaggedFields,
}

impl KafkaMessage for UnregisterControllerRequest {
    const NAME: &'static str = REQUEST.name;
    const SUPPORTED_VERSIONS: VersionRange = VERSIONS;
    const FLEXIBLE_VERSIONS: Option<VersionRange> = Some(VERSIONS);
}

impl KafkaMessage for UnregisterControllerResponse {
    const NAME: &'static str = RESPONSE.name;
    const SUPPORTED_VERSIONS: VersionRange = VERSIONS;
    const FLEXIBLE_VERSIONS: Option<VersionRange> = Some(VERSIONS);
}

impl KafkaRequest for UnregisterControllerRequest {
    const API_KEY: ApiKey = ApiKey::new(KEY);
    const API_DESCRIPTOR: &'static ApiDescriptor = &UNREGISTER_CONTROLLER;
}

impl KafkaResponse for UnregisterControllerResponse {
    const API_KEY: ApiKey = ApiKey::new(KEY);
}

impl RequestResponsePair for UnregisterControllerRequest {
    type Response = UnregisterControllerResponse;
}

impl RetainedSize for UnregisterControllerRequest {
    fn retained_size(&self) -> RetainedFootprint {
        self.unknown_tagged_fields.retained_size()
    }
}

impl RetainedSize for UnregisterControllerResponse {
    fn retained_size(&self) -> RetainedFootprint {
        self.error_message.retained_size().saturating_add(self.unknown_tagged_fields.retained_size())
    }
}

impl KafkaDecode for UnregisterControllerRequest {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        check_decoded::<Self>(version)?;
        Ok(Self { controller_id: decoder.read_i32()?, unknown_tagged_fields: decoder.read_tagged_fields()? })
    }
}

impl KafkaDecode for UnregisterControllerResponse {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        check_decoded::<Self>(version)?;
        Ok(Self {
            throttle_time_ms: decoder.read_i32()?,
            error_code: decoder.read_i16()?,
            error_message: decoder.read_compact_nullable_string()?,
            unknown_tagged_fields: decoder.read_tagged_fields()?,
        })
    }
}

impl KafkaEncode for UnregisterControllerRequest {
    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), EncodeError> {
        check_encoded::<Self>(version)?;
        encoder.write_i32(self.controller_id)?;
        encoder.write_tagged_fields(&self.unknown_tagged_fields)
    }
}

impl KafkaEncode for UnregisterControllerResponse {
    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), EncodeError> {
        check_encoded::<Self>(version)?;
        encoder.write_i32(self.throttle_time_ms)?;
        encoder.write_i16(self.error_code)?;
        encoder.write_compact_nullable_string(self.error_message.as_ref())?;
        encoder.write_tagged_fields(&self.unknown_tagged_fields)
    }
}

#[cfg(test)]
mod tests;
