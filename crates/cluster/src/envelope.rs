//! Requests of clients for the controller: wrapped with the client's principal and address
//! (Envelope), and the responses unwrapped. The client's bytes are sent unchanged in both
//! directions.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{EnvelopeRequest, EnvelopeResponse};

#[cfg(test)]
mod tests;

/// The client on whose behalf a request is forwarded, as Kafka's `DefaultPrincipalData` version 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedPrincipal {
    /// The principal's type, `User` unless an own authorizer is in use.
    pub kind: String,
    /// The principal's name.
    pub name: String,
    /// True if the client authenticated with a delegation token.
    pub token_authenticated: bool,
}

impl ForwardedPrincipal {
    fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + self.kind.len() + self.name.len());
        out.put_i16(0);
        for text in [&self.kind, &self.name] {
            put_varint(&mut out, text.len() + 1);
            out.put_slice(text.as_bytes());
        }
        out.put_u8(u8::from(self.token_authenticated));
        out.put_u8(0);
        out.freeze()
    }
}

/// An Envelope around `request`, which is a client's request from its header on, without its size.
pub fn wrap(request: Bytes, principal: &ForwardedPrincipal, client: IpAddr) -> EnvelopeRequest {
    let mut envelope = EnvelopeRequest::default();
    envelope.request_data = request;
    envelope.request_principal = Some(principal.encode());
    envelope.client_host_address = match client {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    };
    envelope
}

/// Fate of a forwarded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwrapped {
    /// Send this response to the client: header and body, without a size.
    Answer(Bytes),
    /// The node is no longer the active controller: forward the request again.
    NotController,
    /// The controller cannot read the client's request: close the client's connection, as Kafka
    /// does.
    CloseConnection,
    /// Respond to the client's request with UNKNOWN_SERVER_ERROR. The code is the envelope's, for
    /// the log.
    Failed(i16),
}

/// Unwraps the controller's response to an Envelope around the request with this correlation id.
pub fn unwrap(envelope: &EnvelopeResponse, correlation_id: i32) -> Unwrapped {
    match ErrorCode::of_code(envelope.error_code) {
        Some(ErrorCode::None) => match &envelope.response_data {
            Some(response) if response.starts_with(&correlation_id.to_be_bytes()) => {
                Unwrapped::Answer(response.clone())
            }
            _ => Unwrapped::Failed(ErrorCode::None.code()),
        },
        Some(ErrorCode::NotController) => Unwrapped::NotController,
        Some(ErrorCode::UnsupportedVersion) => Unwrapped::CloseConnection,
        _ => Unwrapped::Failed(envelope.error_code),
    }
}

fn put_varint(out: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
