//! ClientQuotaRecord: the limits of a user, a client id or an address.

use levada_wire::primitives::{DecodeError, Decoder, EncodeError};
use serde::Serialize;

use super::body::{
    Body, Out, read_array, read_optional_text, read_text, skip_tags, write_array, write_no_tags,
    write_optional_text, write_text,
};

/// One limit of one entity.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientQuotaRecord {
    /// Kind (`user`, `client-id` or `ip`) and name of each part; null means all subjects without a
    /// separate limit.
    pub entity: Vec<(String, Option<String>)>,
    /// Limited quantity, such as `producer_byte_rate`.
    pub key: String,
    /// The limit; ignored if it is removed.
    pub value: f64,
    /// True if the record removes the limit.
    pub remove: bool,
}

impl Body for ClientQuotaRecord {
    const API_KEY: u16 = 14;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            entity: read_array(input, |input| {
                let part = (read_text(input)?, read_optional_text(input)?);
                skip_tags(input).map(|()| part)
            })?,
            key: read_text(input)?,
            value: f64::from_bits(input.read_i64()?.cast_unsigned()),
            remove: input.read_bool()?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_array(out, &self.entity, |out, (kind, name)| {
            write_text(out, kind)?;
            write_optional_text(out, name.as_deref())?;
            write_no_tags(out)
        })?;
        write_text(out, &self.key)?;
        out.write_i64(self.value.to_bits().cast_signed())?;
        out.write_bool(self.remove)?;
        write_no_tags(out)
    }
}
