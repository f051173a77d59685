//! Messages of StreamsGroupDescribe (key 89). The codec crate predates Kafka 4.4.0, whose response
//! of version 1 also has the name of the assignor; the rest is the codec's.

use kafka_wire::streams_group_describe_response::{Member, Topology, TopologyDescription};
use kafka_wire::{
    ApiDescriptor, KafkaMessage, KafkaRequest, KafkaResponse, RequestResponsePair, RetainedFootprint,
    RetainedSize,
};
use kafka_wire_core::{
    ApiKey, ApiVersion, DecodeError, Decoder, EncodeError, EncodeTarget, Encoder, KafkaDecode, KafkaEncode,
    StrBytes, TaggedFields, VersionRange,
};

use super::{check_decoded, check_encoded};

type CodecRequest = kafka_wire::StreamsGroupDescribeRequest;
type CodecResponse = kafka_wire::StreamsGroupDescribeResponse;

/// Structures of [`StreamsGroupDescribeResponse`].
pub mod streams_group_describe_response {
    pub use super::DescribedGroup;
    pub use kafka_wire::streams_group_describe_response::{
        Assignment, Endpoint, KeyValue, Member, Subtopology, TaskIds, TaskOffset, TopicInfo, Topology,
        TopologyDescription,
    };
}

/// Request for descriptions of streams groups.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamsGroupDescribeRequest {
    /// Ids of the groups.
    pub group_ids: Vec<StrBytes>,
    /// True for the operations that the client may do.
    pub include_authorized_operations: bool,
    /// True for the description that members have sent of their topology; version 1.
    pub include_topology_description: bool,
    /// Tagged fields that this version does not have.
    pub unknown_tagged_fields: TaggedFields,
}

/// Response to [`StreamsGroupDescribeRequest`].
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamsGroupDescribeResponse {
    /// Time in milliseconds for which a quota mutes the client.
    pub throttle_time_ms: i32,
    /// The groups, in the order of the request.
    pub groups: Vec<DescribedGroup>,
    /// Tagged fields that this version does not have.
    pub unknown_tagged_fields: TaggedFields,
}

/// A streams group.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup {
    /// Error code; 0 for none.
    pub error_code: i16,
    /// Message of the error.
    pub error_message: Option<StrBytes>,
    /// The group's id.
    pub group_id: StrBytes,
    /// The name of its state.
    pub group_state: StrBytes,
    /// The group's epoch.
    pub group_epoch: i32,
    /// Epoch of the target assignment.
    pub assignment_epoch: i32,
    /// The topology of its members.
    pub topology: Option<Topology>,
    /// The members.
    pub members: Vec<Member>,
    /// Operations that the client may do, as bits; `i32::MIN` if not requested.
    pub authorized_operations: i32,
    /// The description that members have sent of their topology; version 1.
    pub topology_description: Option<TopologyDescription>,
    /// 0 not requested, 1 none stored, 2 not readable, 3 present; version 1.
    pub topology_description_status: i8,
    /// The assignor of the next assignment; version 1, and left out of version 0.
    pub assignor_name: Option<StrBytes>,
    /// Tagged fields that this version does not have.
    pub unknown_tagged_fields: TaggedFields,
}

impl Default for DescribedGroup {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: None,
            group_id: StrBytes::default(),
            group_state: StrBytes::default(),
            group_epoch: 0,
            assignment_epoch: 0,
            topology: None,
            members: Vec::new(),
            authorized_operations: i32::MIN,
            topology_description: None,
            topology_description_status: 0,
            assignor_name: None,
            unknown_tagged_fields: TaggedFields::default(),
        }
    }
}

impl KafkaMessage for StreamsGroupDescribeRequest {
    const NAME: &'static str = CodecRequest::NAME;
    const SUPPORTED_VERSIONS: VersionRange = CodecRequest::SUPPORTED_VERSIONS;
    const FLEXIBLE_VERSIONS: Option<VersionRange> = CodecRequest::FLEXIBLE_VERSIONS;
}

impl KafkaMessage for StreamsGroupDescribeResponse {
    const NAME: &'static str = CodecResponse::NAME;
    const SUPPORTED_VERSIONS: VersionRange = CodecResponse::SUPPORTED_VERSIONS;
    const FLEXIBLE_VERSIONS: Option<VersionRange> = CodecResponse::FLEXIBLE_VERSIONS;
}

impl KafkaRequest for StreamsGroupDescribeRequest {
    const API_KEY: ApiKey = CodecRequest::API_KEY;
    const API_DESCRIPTOR: &'static ApiDescriptor = CodecRequest::API_DESCRIPTOR;
}

impl KafkaResponse for StreamsGroupDescribeResponse {
    const API_KEY: ApiKey = CodecResponse::API_KEY;
}

impl RequestResponsePair for StreamsGroupDescribeRequest {
    type Response = StreamsGroupDescribeResponse;
}

impl RetainedSize for StreamsGroupDescribeRequest {
    fn retained_size(&self) -> RetainedFootprint {
        self.group_ids.retained_size().saturating_add(self.unknown_tagged_fields.retained_size())
    }
}

impl RetainedSize for StreamsGroupDescribeResponse {
    fn retained_size(&self) -> RetainedFootprint {
        self.groups.retained_size().saturating_add(self.unknown_tagged_fields.retained_size())
    }
}

impl RetainedSize for DescribedGroup {
    fn retained_size(&self) -> RetainedFootprint {
        let texts = self.error_message.retained_size().saturating_add(self.assignor_name.retained_size());
        let names = self.group_id.retained_size().saturating_add(self.group_state.retained_size());
        let content = self.topology.retained_size().saturating_add(self.members.retained_size());
        let rest = self.topology_description.retained_size();
        let rest = rest.saturating_add(self.unknown_tagged_fields.retained_size());
        texts.saturating_add(names).saturating_add(content).saturating_add(rest)
    }
}

impl KafkaDecode for StreamsGroupDescribeRequest {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        let request = CodecRequest::decode(decoder, version)?;
        Ok(Self {
            group_ids: request.group_ids,
            include_authorized_operations: request.include_authorized_operations,
            include_topology_description: request.include_topology_description,
            unknown_tagged_fields: request.unknown_tagged_fields,
        })
    }
}

impl KafkaDecode for StreamsGroupDescribeResponse {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        check_decoded::<Self>(version)?;
        let throttle_time_ms = decoder.read_i32()?;
        let count = decoder.read_compact_array_len()?;
        let groups = decoder.read_vec(count, |decoder| DescribedGroup::decode(decoder, version))?;
        Ok(Self { throttle_time_ms, groups, unknown_tagged_fields: decoder.read_tagged_fields()? })
    }
}

impl DescribedGroup {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        let mut group = Self {
            error_code: decoder.read_i16()?,
            error_message: decoder.read_compact_nullable_string()?,
            group_id: decoder.read_compact_string()?,
            group_state: decoder.read_compact_string()?,
            group_epoch: decoder.read_i32()?,
            assignment_epoch: decoder.read_i32()?,
            ..Self::default()
        };
        if decoder.read_struct_presence()? {
            group.topology = Some(Topology::decode(decoder, version)?);
        }
        let count = decoder.read_compact_array_len()?;
        group.members = decoder.read_vec(count, |decoder| Member::decode(decoder, version))?;
        group.authorized_operations = decoder.read_i32()?;
        if version.value() >= 1 {
            if decoder.read_struct_presence()? {
                group.topology_description = Some(TopologyDescription::decode(decoder, version)?);
            }
            group.topology_description_status = decoder.read_i8()?;
            group.assignor_name = decoder.read_compact_nullable_string()?;
        }
        group.unknown_tagged_fields = decoder.read_tagged_fields()?;
        Ok(group)
    }

    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), EncodeError> {
        encoder.write_i16(self.error_code)?;
        encoder.write_compact_nullable_string(self.error_message.as_ref())?;
        encoder.write_compact_string(&self.group_id)?;
        encoder.write_compact_string(&self.group_state)?;
        encoder.write_i32(self.group_epoch)?;
        encoder.write_i32(self.assignment_epoch)?;
        encoder.write_struct_presence(self.topology.is_some())?;
        self.topology.iter().try_for_each(|topology| topology.encode(encoder, version))?;
        encoder.write_compact_array_len(self.members.len())?;
        self.members.iter().try_for_each(|member| member.encode(encoder, version))?;
        encoder.write_i32(self.authorized_operations)?;
        if version.value() >= 1 {
            encoder.write_struct_presence(self.topology_description.is_some())?;
            let mut description = self.topology_description.iter();
            description.try_for_each(|description| description.encode(encoder, version))?;
            encoder.write_i8(self.topology_description_status)?;
            encoder.write_compact_nullable_string(self.assignor_name.as_ref())?;
        } else if self.topology_description.is_some() || self.topology_description_status != 0 {
            return Err(EncodeError::FieldNotRepresentable {
                message: StreamsGroupDescribeResponse::NAME,
                field: "TopologyDescription",
                version,
            });
        }
        encoder.write_tagged_fields(&self.unknown_tagged_fields)
    }
}

impl KafkaEncode for StreamsGroupDescribeRequest {
    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), EncodeError> {
        let mut request = CodecRequest::default();
        request.group_ids.clone_from(&self.group_ids);
        request.include_authorized_operations = self.include_authorized_operations;
        request.include_topology_description = self.include_topology_description;
        request.unknown_tagged_fields = self.unknown_tagged_fields.clone();
        request.encode(encoder, version)
    }
}

impl KafkaEncode for StreamsGroupDescribeResponse {
    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), EncodeError> {
        check_encoded::<Self>(version)?;
        encoder.write_i32(self.throttle_time_ms)?;
        encoder.write_compact_array_len(self.groups.len())?;
        self.groups.iter().try_for_each(|group| group.encode(encoder, version))?;
        encoder.write_tagged_fields(&self.unknown_tagged_fields)
    }
}

#[cfg(test)]
mod tests;
