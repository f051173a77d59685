//! DelegationTokenRecord, and its removal.

use levada_wire::primitives::{DecodeError, Decoder, EncodeError};
use serde::Serialize;

use super::body::{Body, Out, read_array, read_text, skip_tags, write_array, write_no_tags, write_text};

/// A delegation token. The password of the token is not in the record: controllers and brokers
/// compute it from the id and a key that they share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DelegationTokenRecord {
    /// Principal of the token: type and name.
    pub owner: String,
    /// Principal that has requested the token.
    pub requester: String,
    /// Principals that may renew the token.
    pub renewers: Vec<String>,
    /// Time of the issue, in milliseconds since 1970.
    pub issue_timestamp: i64,
    /// Time from which on the token cannot be renewed.
    pub max_timestamp: i64,
    /// Time at which the token expires unless it is renewed.
    pub expiration_timestamp: i64,
    /// Id of the token.
    pub token_id: String,
}

impl DelegationTokenRecord {
    /// True if the token has expired at this time.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expiration_timestamp.min(self.max_timestamp) < now_ms
    }
}

impl Body for DelegationTokenRecord {
    const API_KEY: u16 = 10;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            owner: read_text(input)?,
            requester: read_text(input)?,
            renewers: read_array(input, read_text)?,
            issue_timestamp: input.read_i64()?,
            max_timestamp: input.read_i64()?,
            expiration_timestamp: input.read_i64()?,
            token_id: read_text(input)?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.owner)?;
        write_text(out, &self.requester)?;
        write_array(out, &self.renewers, |out, renewer| write_text(out, renewer))?;
        out.write_i64(self.issue_timestamp)?;
        out.write_i64(self.max_timestamp)?;
        out.write_i64(self.expiration_timestamp)?;
        write_text(out, &self.token_id)?;
        write_no_tags(out)
    }
}

/// A delegation token is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RemoveDelegationTokenRecord {
    /// Id of the token.
    pub token_id: String,
}

impl Body for RemoveDelegationTokenRecord {
    const API_KEY: u16 = 26;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { token_id: read_text(input)? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.token_id)?;
        write_no_tags(out)
    }
}
