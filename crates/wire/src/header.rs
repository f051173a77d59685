//! The request header: API key, version, correlation id and client id. A flexible request has
//! header version 2 (tagged fields), any other version 1. Version 0 belonged to ControlledShutdown
//! 0, which no broker serves to clients.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::api::ApiKey;
use crate::codec::{DecodeError, EncodeError};
use crate::cursor::Cursor;
use crate::messages::StrBytes;

/// A decoded request header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api: ApiKey,
    /// The request's version; served (see [`ApiKey::serves`]), except that an ApiVersions request
    /// of any non-negative version is passed on, because Kafka answers unknown ones with version 0.
    pub version: i16,
    /// Repeated in the response.
    pub correlation_id: i32,
    /// The client id, copied out of the frame; `None` if null.
    pub client_id: Option<StrBytes>,
}

impl RequestHeader {
    /// Takes the header off the front of `frame` (without its size) and leaves the body. Copies the
    /// client id and nothing else. Unknown tagged fields are dropped, as Kafka does.
    ///
    /// # Errors
    /// The peer's fault; `frame` is then untouched, and the connection should be closed.
    pub fn decode(frame: &mut BytesMut) -> Result<Self, DecodeError> {
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
        Ok(Self { api, version, correlation_id, client_id })
    }
}

impl RequestHeader {
    /// The request of this header and an encoded body as the client has sent it, without its size,
    /// for forwarding. Copies the body. Tagged fields of the header are not repeated: Kafka defines
    /// none.
    ///
    /// # Errors
    /// None in practice: the header was decoded from such bytes.
    pub fn in_front_of(&self, body: &[u8]) -> Result<Bytes, EncodeError> {
        let client_bytes = self.client_id.as_ref().map_or(0, |id| id.len());
        let mut frame = BytesMut::with_capacity(HEADER_BYTES_MAX + client_bytes + body.len());
        frame.put_i16(self.api.wire());
        frame.put_i16(self.version);
        frame.put_i32(self.correlation_id);
        match &self.client_id {
            None => frame.put_i16(-1),
            Some(id) => {
                let length =
                    i16::try_from(id.len()).map_err(|_| EncodeError::TooLarge { bytes: id.len() as u64 })?;
                frame.put_i16(length);
                frame.put_slice(id.as_bytes());
            }
        }
        if self.api.is_flexible(self.version) {
            frame.put_u8(0);
        }
        frame.put_slice(body);
        Ok(frame.freeze())
    }
}

/// Bytes of a header in addition to the client id.
const HEADER_BYTES_MAX: usize = 11;

#[cfg(test)]
mod tests;
