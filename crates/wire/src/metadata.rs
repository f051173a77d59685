//! Responses to Metadata whose topics were encoded before: a topic of many partitions is encoded
//! once for many responses.

use bytes::{Bytes, BytesMut};
use kafka_wire::{KafkaMessage, KafkaResponse, RetainedFootprint, RetainedSize};
use kafka_wire_core::{
    ApiKey, ApiVersion, DecodeError, Decoder, EncodeTarget, Encoder, KafkaDecode, KafkaEncode, VersionRange,
};

use crate::EncodeError;
use crate::messages::MetadataResponse;
use crate::messages::metadata_response::MetadataResponseTopic;

/// A topic of a response, encoded for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTopic {
    bytes: Bytes,
    error_code: i16,
    partitions: usize,
}

impl EncodedTopic {
    /// Encodes a topic. None if one of its partitions has an error.
    ///
    /// # Errors
    /// The topic contains a value that `version` cannot express.
    pub fn new(topic: MetadataResponseTopic, version: i16) -> Result<Option<Self>, EncodeError> {
        if topic.partitions.iter().any(|partition| partition.error_code != 0) {
            return Ok(None);
        }
        let (error_code, partitions) = (topic.error_code, topic.partitions.len());
        let mut whole = MetadataResponse::default();
        whole.topics = vec![topic];
        let mut bytes = BytesMut::new();
        whole.encode_into(&mut bytes, ApiVersion::new(version)).map_err(EncodeError::Body)?;
        let places = Places::of(version);
        let end = bytes.len() - places.after_topics;
        // The number of topics is as long for one topic as for none.
        let empty = crate::response_bytes(version, &MetadataResponse::default())?;
        let bytes = bytes.freeze().slice(empty - places.after_topics..end);
        // A copy without room for more.
        Ok(Some(Self { bytes: Bytes::copy_from_slice(&bytes), error_code, partitions }))
    }

    /// Bytes in a response.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Error code of the topic; its partitions have none.
    pub fn error_code(&self) -> i16 {
        self.error_code
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }
}

/// A response to Metadata: with topics as the codec has them, or with encoded topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataAnswer {
    /// The response, without topics if these are encoded.
    pub response: MetadataResponse,
    /// Encoded topics, for the version in which the response is sent.
    pub encoded: Vec<EncodedTopic>,
}

impl From<MetadataResponse> for MetadataAnswer {
    fn from(response: MetadataResponse) -> Self {
        Self { response, encoded: Vec::new() }
    }
}

/// Positions of the fields around the topics of a response.
struct Places {
    is_flexible: bool,
    after_topics: usize,
}

impl Places {
    fn of(version: i16) -> Self {
        let is_flexible = MetadataResponse::is_flexible(ApiVersion::new(version));
        let operations = if (8..=10).contains(&version) { size_of::<i32>() } else { 0 };
        let error_code = if version >= 13 { size_of::<i16>() } else { 0 };
        Self { is_flexible, after_topics: operations + error_code + usize::from(is_flexible) }
    }
}

impl KafkaEncode for MetadataAnswer {
    fn encode<T: EncodeTarget>(
        &self,
        encoder: &mut Encoder<T>,
        version: ApiVersion,
    ) -> Result<(), kafka_wire_core::EncodeError> {
        if self.encoded.is_empty() {
            return self.response.encode(encoder, version);
        }
        debug_assert!(self.response.topics.is_empty(), "topics are encoded or not");
        let mut around = BytesMut::new();
        self.response.encode_into(&mut around, version)?;
        let places = Places::of(version.value());
        let number = if places.is_flexible { 1 } else { size_of::<i32>() };
        let (before, after) = around.split_at(around.len() - places.after_topics);
        encoder.write_raw_slice(&before[..before.len() - number])?;
        if places.is_flexible {
            encoder.write_compact_array_len(self.encoded.len())?;
        } else {
            encoder.write_array_len(self.encoded.len())?;
        }
        self.encoded.iter().try_for_each(|topic| encoder.write_raw_slice(&topic.bytes))?;
        encoder.write_raw_slice(after)
    }
}

impl KafkaDecode for MetadataAnswer {
    fn decode(decoder: &mut Decoder, version: ApiVersion) -> Result<Self, DecodeError> {
        Ok(MetadataResponse::decode(decoder, version)?.into())
    }
}

impl RetainedSize for MetadataAnswer {
    fn retained_size(&self) -> RetainedFootprint {
        self.response.retained_size()
    }
}

impl KafkaMessage for MetadataAnswer {
    const NAME: &'static str = MetadataResponse::NAME;
    const SUPPORTED_VERSIONS: VersionRange = MetadataResponse::SUPPORTED_VERSIONS;
    const FLEXIBLE_VERSIONS: Option<VersionRange> = MetadataResponse::FLEXIBLE_VERSIONS;
}

impl KafkaResponse for MetadataAnswer {
    const API_KEY: ApiKey = <MetadataResponse as KafkaResponse>::API_KEY;
}

#[cfg(test)]
mod tests;
