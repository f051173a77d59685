//! The request header: API key, version, correlation id and client id. A flexible request has
//! header version 2 (tagged fields), any other version 1. Version 0 belonged to ControlledShutdown
//! 0, which no broker serves to clients.

use bytes::{Buf, BytesMut};

use crate::api::ApiKey;
use crate::codec::DecodeError;
use crate::cursor::Cursor;
use crate::messages::StrBytes;

/// A decoded request header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// What is asked.
    pub api: ApiKey,
    /// The request's version; served (see [`ApiKey::serves`]), except that an ApiVersions request
    /// of any non-negative version gets here, because Kafka answers those it does not know with
    /// version 0.
    pub version: i16,
    /// Repeated in the response.
    pub correlation_id: i32,
    /// The client's name for itself, copied out of the frame; `None` if null.
    pub client_id: Option<StrBytes>,
}

impl RequestHeader {
    /// Takes the header off the front of `frame` (without its size) and leaves the body. Copies the
    /// client id and nothing else. Unknown tagged fields are dropped, as Kafka does.
    ///
    /// # Errors
    /// The peer's fault; `frame` is then untouched, and the connection should be closed.
    pub fn decode(frame: &mut BytesMut) -> Result<RequestHeader, DecodeError> {
        let mut cursor = Cursor::new(&frame[..]);
        let key = cursor.i16()?;
        let version = cursor.i16()?;
        let correlation_id = cursor.i32()?;
        let api = ApiKey::from_wire(key).ok_or(DecodeError::UnknownApi { key, version })?;
        if version < 0 || (api != ApiKey::ApiVersions && !api.serves(version)) {
            return Err(DecodeError::UnsupportedVersion { api, version });
        }
        let client_id = cursor.nullable_string(false)?;
        if api.is_flexible(version) {
            cursor.skip_tags()?;
        }
        let header_bytes = cursor.offset();
        frame.advance(header_bytes);
        Ok(RequestHeader { api, version, correlation_id, client_id })
    }
}

#[cfg(test)]
mod tests;
