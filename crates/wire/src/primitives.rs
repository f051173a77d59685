//! The codec's primitives (compact strings, varints, tagged fields, …) for records that are kept in
//! logs rather than sent: cluster metadata, group offsets and transaction state. Only this crate
//! names the codec crate, so that it can be replaced here alone.

pub use kafka_wire_core::{
    ApiVersion, BufferTarget, Bytes, BytesMut, DecodeError, DecodeLimits, Decoder, EncodeError, EncodeTarget,
    Encoder, KnownTags, StrBytes, TagOutcome, TaggedField, TaggedFields, Uuid,
};
