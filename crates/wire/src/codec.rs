//! One message in, one message out: bodies decoded within the bounds of their frame, and whole
//! frames encoded with size prefix and the header version Kafka prescribes.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_wire::{KafkaMessage, KafkaRequest, KafkaResponse, response_header_version};
use kafka_wire_core::{ApiVersion, DecodeLimits, KafkaDecode, KafkaEncode};

use crate::api::ApiKey;
use crate::messages::{StrBytes, TaggedFields};

/// Maximum number of elements that all arrays of a request for records have together, and one array
/// of a response that a client decodes. Arrays never reserve from their claimed count, but a struct
/// in memory is larger than its shortest encoding; this caps the product.
pub(crate) const MAX_ARRAY_ELEMENTS: usize = 1 << 18;

/// Maximum number of elements of one array of any other request: its response has as many, and both
/// are in memory together.
pub(crate) const MAX_REQUEST_ELEMENTS: usize = 1 << 17;

/// Maximum number of bytes of one string, in either encoding, as in Kafka: a longer one makes the
/// message malformed. The limit does not apply to records and other byte fields.
pub(crate) const MAX_STRING_BYTES: usize = 0x7fff;

/// Maximum number of unknown tagged fields of one struct.
const MAX_UNKNOWN_TAGS: usize = 64;

/// Decodes the body of a request, which follows the header. Bytes after it are ignored, as Kafka
/// does: there are clients that send more than the version they name has fields for.
///
/// Strings and byte fields of the result share `body`'s memory. A claimed count or length allocates
/// nothing; memory grows only with elements that are present.
///
/// # Errors
/// The peer sent a version or bytes that the schema does not allow.
pub fn decode<R: KafkaMessage>(body: Bytes, version: i16) -> Result<R, DecodeError> {
    decode_within(limits(body.len(), MAX_REQUEST_ELEMENTS), body, version)
}

fn decode_within<R: KafkaMessage>(limits: DecodeLimits, body: Bytes, version: i16) -> Result<R, DecodeError> {
    let mut decoder = kafka_wire_core::Decoder::new(body, limits)?;
    Ok(R::decode(&mut decoder, ApiVersion::new(version))?)
}

/// Decodes the body of a request `R` that consists of an array of `E` and a flag. The results of
/// `keep` are kept; each element is dropped before the next is decoded, because an element with a
/// list takes several times its size in memory.
///
/// # Errors
/// Same as [`decode`].
pub fn decode_each<R: KafkaMessage, E: KafkaDecode, T>(
    body: Bytes,
    version: i16,
    keep: impl FnMut(E) -> T,
) -> Result<(Vec<T>, bool), DecodeError> {
    decode_elements::<R, E, T, bool>(body, version, keep, |decoder| Ok(decoder.read_bool()?))
}

/// Decodes the body of a request `R` that consists only of an array of `E`, like [`decode_each`].
///
/// # Errors
/// Same as [`decode`].
pub fn decode_all<R: KafkaMessage, E: KafkaDecode, T>(
    body: Bytes,
    version: i16,
    keep: impl FnMut(E) -> T,
) -> Result<Vec<T>, DecodeError> {
    decode_elements::<R, E, T, ()>(body, version, keep, |_| Ok(())).map(|(elements, ())| elements)
}

/// Decodes the name with which the body of a flexible request begins. Skips the other fields, for a
/// response that does not depend on them.
///
/// # Errors
/// The body does not begin with a string.
pub fn decode_name(body: Bytes) -> Result<StrBytes, DecodeError> {
    let mut decoder = kafka_wire_core::Decoder::new(body.clone(), limits(body.len(), 0))?;
    Ok(decoder.read_compact_string()?)
}

/// Decodes an array of `E` and the fields after it.
fn decode_elements<R: KafkaMessage, E: KafkaDecode, T, F>(
    body: Bytes,
    version: i16,
    mut keep: impl FnMut(E) -> T,
    behind: impl FnOnce(&mut kafka_wire_core::Decoder) -> Result<F, DecodeError>,
) -> Result<(Vec<T>, F), DecodeError> {
    let limits = limits(body.len(), MAX_REQUEST_ELEMENTS);
    let mut decoder = kafka_wire_core::Decoder::new(body, limits)?;
    let (flexible, version) = (is_flexible::<R>(version), ApiVersion::new(version));
    let count = if flexible { decoder.read_compact_array_len() } else { decoder.read_array_len() };
    let elements = decoder.read_vec(count?, |decoder| Ok(keep(E::decode(decoder, version)?)))?;
    let fields = behind(&mut decoder)?;
    if flexible {
        decoder.read_tagged_fields()?;
    }
    Ok((elements, fields))
}

/// Encodes a whole response frame: size, header (of the version that `R` and `version` call for),
/// body.
///
/// # Errors
/// The message contains a value that `version` cannot express: a fault of the caller, never of the
/// peer.
pub fn encode_response<R: KafkaResponse>(
    correlation_id: i32,
    version: i16,
    body: &R,
) -> Result<Bytes, EncodeError> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    frame.put_i32(correlation_id);
    if response_header_version(R::API_KEY, ApiVersion::new(version), is_flexible::<R>(version)) == 1 {
        frame.put_u8(0);
    }
    body.encode_into(&mut frame, ApiVersion::new(version)).map_err(EncodeError::Body)?;
    finish_frame(frame)
}

/// Bytes of a response's body, without encoding it.
///
/// # Errors
/// Same as [`encode_response`].
pub fn response_bytes<R: KafkaResponse>(version: i16, body: &R) -> Result<usize, EncodeError> {
    Ok(body.encoded_len(ApiVersion::new(version))?)
}

/// Encodes a whole request frame: size, header, body.
///
/// # Errors
/// The message contains a value that `version` cannot express.
pub fn encode_request<R: KafkaRequest>(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    body: &R,
) -> Result<Bytes, EncodeError> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    let flexible = is_flexible::<R>(version);
    let mut header = kafka_wire::RequestHeader::default();
    header.request_api_key = R::API_KEY.value();
    header.request_api_version = version;
    header.correlation_id = correlation_id;
    header.client_id = client_id.map(StrBytes::from);
    header.unknown_tagged_fields = TaggedFields::default();
    header
        .encode_into(&mut frame, ApiVersion::new(if flexible { 2 } else { 1 }))
        .map_err(EncodeError::Body)?;
    body.encode_into(&mut frame, ApiVersion::new(version)).map_err(EncodeError::Body)?;
    finish_frame(frame)
}

/// Decodes a response frame (without its size): the correlation id and the body.
///
/// # Errors
/// The peer sent bytes that the schema does not allow.
pub fn decode_response<R: KafkaResponse>(frame: Bytes, version: i16) -> Result<(i32, R), DecodeError> {
    let limits = limits(frame.len(), MAX_ARRAY_ELEMENTS);
    let mut decoder = kafka_wire_core::Decoder::new(frame.clone(), limits)?;
    let correlation_id = decoder.read_i32()?;
    if response_header_version(R::API_KEY, ApiVersion::new(version), is_flexible::<R>(version)) == 1 {
        decoder.read_tagged_fields()?;
    }
    let body = frame.slice(decoder.offset()..);
    Ok((correlation_id, decode_within(limits, body, version)?))
}

fn is_flexible<R: KafkaMessage>(version: i16) -> bool {
    R::is_flexible(ApiVersion::new(version))
}

/// Writes the size of everything after the first four bytes into them.
pub(crate) fn finish_frame(mut frame: BytesMut) -> Result<Bytes, EncodeError> {
    let body_bytes = frame.len() - 4;
    let size = i32::try_from(body_bytes).map_err(|_| EncodeError::TooLarge { bytes: body_bytes as u64 })?;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    Ok(frame.freeze())
}

fn limits(frame_bytes: usize, array_elements: usize) -> DecodeLimits {
    let mut limits = DecodeLimits::default();
    limits.max_frame_bytes = frame_bytes;
    limits.max_string_bytes = frame_bytes.min(MAX_STRING_BYTES);
    limits.max_bytes_bytes = frame_bytes;
    limits.max_array_elements = frame_bytes.min(array_elements);
    limits.max_tagged_fields = MAX_UNKNOWN_TAGS;
    limits.max_tag_bytes = frame_bytes;
    limits.max_total_tag_bytes = frame_bytes;
    limits
}

/// Bytes that are not a valid message. The peer is at fault; Kafka closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No API with this key is offered to clients.
    #[error("unknown API key {key} (version {version})")]
    UnknownApi {
        /// The key received.
        key: i16,
        /// The version received.
        version: i16,
    },
    /// The API is known, the version is not served.
    #[error("{api} version {version} is not supported")]
    UnsupportedVersion {
        /// The requested API.
        api: ApiKey,
        /// The version received.
        version: i16,
    },
    /// The bytes do not follow the schema; offsets count from the start of the header or the body.
    #[error(transparent)]
    Malformed(#[from] kafka_wire_core::DecodeError),
}

/// A message of this process that cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field is not expressible in this version.
    #[error(transparent)]
    Body(#[from] kafka_wire_core::EncodeError),
    /// The version is not one that Levada sends.
    #[error("{api} version {version} cannot be encoded")]
    Version {
        /// The API.
        api: ApiKey,
        /// The requested version.
        version: i16,
    },
    /// A length does not fit its prefix.
    #[error("{bytes} bytes are more than a length prefix can express")]
    TooLarge {
        /// Length of the message, bytes.
        bytes: u64,
    },
}

#[cfg(test)]
mod tests;
