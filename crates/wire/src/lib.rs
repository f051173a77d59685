//! Kafka's wire protocol: frames with limits, the table of API versions, message types, and the hot
//! pair Produce and Fetch decoded and encoded by hand, as are the responses to ShareFetch. Topics
//! in responses to Metadata may be encoded before ([`metadata`]).
//!
//! A request travels [`frame`] → [`header`] → [`decode`] (or [`produce`], [`fetch`]); a response is
//! [`encode_response`] or, where records must stay in files, a [`gather::Gather`] of bytes and
//! holes. This crate opens no socket, and never allocates from a length a peer claims.

pub mod api;
mod codec;
mod cursor;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod gather;
#[cfg(test)]
mod golden;
pub mod header;
pub mod json;
pub mod messages;
pub mod metadata;
pub mod primitives;
pub mod produce;
pub mod record_json;
#[cfg(test)]
mod samples;
pub mod share_fetch;
mod writer;

pub use api::ApiKey;
pub use codec::{
    DecodeError, EncodeError, decode, decode_all, decode_each, decode_name, decode_response, encode_request,
    encode_response, response_bytes,
};
pub use error_code::ErrorCode;
pub use header::RequestHeader;
pub use messages::{StrBytes, Uuid};
