//! The codec's primitives (compact strings, varints, tagged fields, …) for records in logs: cluster
//! metadata, group offsets and transaction state. Only this crate uses the codec crate, so that it
//! can be replaced in one place.

pub use kafka_wire_core::{
    ApiVersion, BufferTarget, Bytes, BytesMut, DecodeError, DecodeLimits, Decoder, EncodeError, EncodeTarget,
    Encoder, KnownTags, StrBytes, TagOutcome, TaggedField, TaggedFields, Uuid,
};
