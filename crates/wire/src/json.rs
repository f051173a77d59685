//! Requests from JSON and responses to JSON, for debugging: every API of Kafka in every version,
//! by the tables of layouts (`json/layouts.txt`, `json/newer.txt`) instead of types.
//!
//! Fields have the names of Kafka's message definitions; an omitted field has its default. Bytes
//! are in base64, ids of topics and directories as Kafka writes them, and tagged fields that are
//! not in the table are under `_tags`, by number.

use std::sync::LazyLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use crate::frame;

mod layout;
mod read;
mod template;
#[cfg(test)]
mod tests;
mod write;

use layout::Layout;

/// One API: its requests and responses.
#[derive(Debug)]
pub struct JsonApi {
    request: Layout,
    response: Layout,
}

/// The reason why JSON is not a request, or bytes are not a response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A value in the JSON does not fit its field.
    #[error("{path}: {problem}")]
    Field {
        /// Path of the field: the names of the enclosing fields and its own.
        path: String,
        /// Description of the problem.
        problem: String,
    },
    /// Bytes that the layout does not allow.
    #[error("the response is malformed at byte {offset}: {problem}")]
    Malformed {
        /// Position of the bytes in the frame.
        offset: usize,
        /// Description of the problem.
        problem: String,
    },
}

static APIS: LazyLock<Vec<JsonApi>> = LazyLock::new(|| {
    let mut layouts = layout::table().into_iter();
    let mut apis = Vec::new();
    while let (Some(request), Some(response)) = (layouts.next(), layouts.next()) {
        apis.push(JsonApi { request, response });
    }
    apis
});

/// Responses of ApiVersions always have the first header version, because the client does not know
/// the broker's versions yet.
const API_VERSIONS: i16 = 18;

impl JsonApi {
    /// All APIs, by key.
    pub fn all() -> &'static [Self] {
        &APIS
    }

    /// The API of this name, in upper or lower case.
    pub fn named(name: &str) -> Option<&'static Self> {
        APIS.iter().find(|api| api.name().eq_ignore_ascii_case(name))
    }

    /// Key of the API.
    pub fn key(&self) -> i16 {
        self.request.key
    }

    /// Kafka's name of the API.
    pub fn name(&self) -> &'static str {
        self.request.name
    }

    /// The lowest and the highest version that the table has.
    pub fn versions(&self) -> (i16, i16) {
        (self.request.versions.min, self.request.versions.max)
    }

    /// The highest version that Kafka calls stable.
    pub fn newest_stable(&self) -> i16 {
        self.request.versions.max - i16::from(self.request.is_unstable)
    }

    /// A request of this version with all fields, each with its default or one element.
    pub fn template(&self, version: i16) -> Value {
        template::of(&self.request.fields, version)
    }

    /// A whole request frame, with its size.
    ///
    /// # Errors
    /// The JSON is not such a request.
    pub fn encode(
        &self,
        version: i16,
        (correlation_id, client_id): (i32, &str),
        request: &Value,
    ) -> Result<Bytes, JsonError> {
        let is_flexible = self.request.flexible.contains(version);
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        frame.put_i16(self.key());
        frame.put_i16(version);
        frame.put_i32(correlation_id);
        let client_id = &client_id.as_bytes()[..client_id.len().min(usize::from(u8::MAX))];
        frame.put_i16(client_id.len() as i16);
        frame.put_slice(client_id);
        if is_flexible {
            frame.put_u8(0);
        }
        frame.put_slice(&write::body(&self.request, version, request)?);
        let size = u32::try_from(frame.len() - 4).ok().filter(|size| *size <= frame::MAX_FRAME_BYTES);
        let too_large = || JsonError::Field {
            path: self.name().to_owned(),
            problem: format!("larger than {} bytes", frame::MAX_FRAME_BYTES),
        };
        frame[..4].copy_from_slice(&size.ok_or_else(too_large)?.to_be_bytes());
        Ok(frame.freeze())
    }

    /// The correlation id and the body of a response frame, without its size.
    ///
    /// # Errors
    /// The bytes are not such a response.
    pub fn decode(&self, version: i16, frame: &[u8]) -> Result<(i32, Value), JsonError> {
        let has_tags = self.response.flexible.contains(version) && self.key() != API_VERSIONS;
        read::response(&self.response, version, (frame, has_tags))
    }
}
