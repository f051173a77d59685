//! Records about the whole cluster: ConfigRecord, FeatureLevelRecord, ProducerIdsRecord,
//! NoOpRecord, and the records that begin and end a change over several batches.

use levada_wire::primitives::{DecodeError, Decoder, EncodeError};
use serde::Serialize;

use super::body::{
    Body, Out, Tags, read_optional_text, read_tags, read_text, skip_tags, write_no_tags, write_optional_text,
    write_text,
};
use super::named;

/// One configuration value of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigRecord {
    /// 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    #[serde(serialize_with = "named::setting_resource")]
    pub resource_type: i8,
    /// Topic name, node id as text, or empty for all brokers.
    pub resource_name: String,
    /// Configuration key.
    pub name: String,
    /// New value; null removes the key.
    pub value: Option<String>,
}

impl Body for ConfigRecord {
    const API_KEY: u16 = 4;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            resource_type: input.read_i8()?,
            resource_name: read_text(input)?,
            name: read_text(input)?,
            value: read_optional_text(input)?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_i8(self.resource_type)?;
        write_text(out, &self.resource_name)?;
        write_text(out, &self.name)?;
        write_optional_text(out, self.value.as_deref())?;
        write_no_tags(out)
    }
}

/// A feature's level in the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FeatureLevelRecord {
    /// Feature name, such as `metadata.version`.
    pub name: String,
    /// New level; 0 removes the feature.
    pub feature_level: i16,
}

impl Body for FeatureLevelRecord {
    const API_KEY: u16 = 12;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { name: read_text(input)?, feature_level: input.read_i16()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.name)?;
        out.write_i16(self.feature_level)?;
        write_no_tags(out)
    }
}

/// A block of producer ids was handed to a broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProducerIdsRecord {
    /// Broker to which the block is assigned.
    pub broker_id: i32,
    /// Broker epoch at that time.
    pub broker_epoch: i64,
    /// The first id that has not been assigned.
    pub next_producer_id: i64,
}

impl Body for ProducerIdsRecord {
    const API_KEY: u16 = 15;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            broker_id: input.read_i32()?,
            broker_epoch: input.read_i64()?,
            next_producer_id: input.read_i64()?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_i32(self.broker_id)?;
        out.write_i64(self.broker_epoch)?;
        out.write_i64(self.next_producer_id)?;
        write_no_tags(out)
    }
}

/// Declares records without fields.
macro_rules! empty_record {
    ($name:ident, $api_key:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct $name;

        impl Body for $name {
            const API_KEY: u16 = $api_key;
            const LATEST: u16 = 0;

            fn version(&self) -> u16 {
                0
            }

            fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
                skip_tags(input).map(|()| Self)
            }

            fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
                write_no_tags(out)
            }
        }
    };
}

empty_record!(
    NoOpRecord,
    20,
    "No effect: Kafka's controller writes one every half second to advance the offset."
);
empty_record!(EndTransactionRecord, 24, "The records since the last begin record take effect, all together.");

/// Declares records with one optional text in tagged field 0.
macro_rules! remark_record {
    ($name:ident, $api_key:literal, $field:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct $name {
            /// Text for human readers.
            pub $field: Option<String>,
        }

        impl Body for $name {
            const API_KEY: u16 = $api_key;
            const LATEST: u16 = 0;

            fn version(&self) -> u16 {
                0
            }

            fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
                let mut record = Self::default();
                read_tags(input, |tag, field| {
                    if tag == 0 {
                        record.$field = read_optional_text(field)?;
                    }
                    Ok(tag == 0)
                })?;
                Ok(record)
            }

            fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
                let text = self.$field.as_deref();
                Tags::default().add(0, text.is_some(), |out| write_optional_text(out, text))?.write(out)
            }
        }
    };
}

remark_record!(
    BeginTransactionRecord,
    23,
    name,
    "The records from here on take effect together or not at all."
);
remark_record!(AbortTransactionRecord, 25, reason, "The records since the last begin record have no effect.");
