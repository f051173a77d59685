//! Nodes: RegisterBrokerRecord, UnregisterBrokerRecord, BrokerRegistrationChangeRecord,
//! RegisterControllerRecord, UnregisterControllerRecord, and the two fencing records that Kafka
//! before 3.3 wrote.

use levada_wire::primitives::{DecodeError, Decoder, EncodeError, Uuid};
use levada_wire::record_json;
use serde::Serialize;

use super::body::{
    Body, Out, Tags, read_array, read_optional_array, read_optional_text, read_tags, read_text, skip_tags,
    write_array, write_no_tags, write_optional_text, write_text, write_uuids,
};
use super::named;

/// An endpoint of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Endpoint {
    /// Listener name.
    pub name: String,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    #[serde(serialize_with = "named::protocol")]
    pub security_protocol: i16,
}

impl Endpoint {
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let endpoint = Self {
            name: read_text(input)?,
            host: read_text(input)?,
            port: input.read_u16()?,
            security_protocol: input.read_i16()?,
        };
        skip_tags(input)?;
        Ok(endpoint)
    }

    fn encode(out: &mut Out<'_>, endpoint: &Self) -> Result<(), EncodeError> {
        write_text(out, &endpoint.name)?;
        write_text(out, &endpoint.host)?;
        out.write_u16(endpoint.port)?;
        out.write_i16(endpoint.security_protocol)?;
        write_no_tags(out)
    }
}

/// The levels of one feature that a node can work with.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SupportedFeature {
    /// Feature name.
    pub name: String,
    /// Lowest level.
    pub min_version: i16,
    /// Highest level.
    pub max_version: i16,
}

impl SupportedFeature {
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let feature =
            Self { name: read_text(input)?, min_version: input.read_i16()?, max_version: input.read_i16()? };
        skip_tags(input)?;
        Ok(feature)
    }

    fn encode(out: &mut Out<'_>, feature: &Self) -> Result<(), EncodeError> {
        write_text(out, &feature.name)?;
        out.write_i16(feature.min_version)?;
        out.write_i16(feature.max_version)?;
        write_no_tags(out)
    }
}

/// Registration of a broker process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RegisterBrokerRecord {
    /// Node id.
    pub broker_id: i32,
    /// Unused since Kafka 4.0, without ZooKeeper (from version 2).
    pub is_migrating_zk_broker: bool,
    /// Random id of this process.
    #[serde(serialize_with = "record_json::uuid")]
    pub incarnation_id: Uuid,
    /// Offset of this record: the process's epoch.
    pub broker_epoch: i64,
    /// Listeners of the broker.
    pub end_points: Vec<Endpoint>,
    /// The features it supports.
    pub features: Vec<SupportedFeature>,
    /// Rack of the broker.
    pub rack: Option<String>,
    /// True if the broker may not lead, or not yet.
    pub fenced: bool,
    /// True if the broker is in a controlled shutdown (from version 1).
    pub in_controlled_shutdown: bool,
    /// Ids of the broker's log directories (from version 3).
    #[serde(serialize_with = "record_json::uuids")]
    pub log_dirs: Vec<Uuid>,
    /// Directories that take no new partitions; null until the broker reports them (from version
    /// 4).
    #[serde(serialize_with = "record_json::optional_uuids")]
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
}

impl Body for RegisterBrokerRecord {
    const API_KEY: u16 = 0;
    const LATEST: u16 = 4;

    fn version(&self) -> u16 {
        4
    }

    fn decode(input: &mut Decoder, version: u16) -> Result<Self, DecodeError> {
        let mut record = Self { broker_id: input.read_i32()?, ..Self::default() };
        if version >= 2 {
            record.is_migrating_zk_broker = input.read_bool()?;
        }
        record.incarnation_id = input.read_uuid()?;
        record.broker_epoch = input.read_i64()?;
        record.end_points = read_array(input, Endpoint::decode)?;
        record.features = read_array(input, SupportedFeature::decode)?;
        record.rack = read_optional_text(input)?;
        record.fenced = input.read_bool()?;
        if version >= 1 {
            record.in_controlled_shutdown = input.read_bool()?;
        }
        read_tags(input, |tag, field| {
            match tag {
                0 if version >= 3 => record.log_dirs = read_array(field, Decoder::read_uuid)?,
                1 if version >= 4 => {
                    record.cordoned_log_dirs = read_optional_array(field, Decoder::read_uuid)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, version: u16) -> Result<(), EncodeError> {
        out.write_i32(self.broker_id)?;
        if version >= 2 {
            out.write_bool(self.is_migrating_zk_broker)?;
        }
        out.write_uuid(self.incarnation_id)?;
        out.write_i64(self.broker_epoch)?;
        write_array(out, &self.end_points, Endpoint::encode)?;
        write_array(out, &self.features, SupportedFeature::encode)?;
        write_optional_text(out, self.rack.as_deref())?;
        out.write_bool(self.fenced)?;
        if version >= 1 {
            out.write_bool(self.in_controlled_shutdown)?;
        }
        let mut tags = Tags::default();
        if version >= 3 {
            tags = tags.add(0, !self.log_dirs.is_empty(), |out| write_uuids(out, &self.log_dirs))?;
        }
        if version >= 4 {
            tags = tags.optional_uuids(1, self.cordoned_log_dirs.as_deref())?;
        }
        tags.write(out)
    }
}

/// Changes in a broker's registration; defaults mean "as before".
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BrokerRegistrationChangeRecord {
    /// Node id.
    pub broker_id: i32,
    /// Epoch of the registration to change.
    pub broker_epoch: i64,
    /// 1 fence, -1 unfence.
    #[serde(serialize_with = "named::fencing")]
    pub fenced: i8,
    /// 1 a controlled shutdown began (from version 1).
    pub in_controlled_shutdown: i8,
    /// New log directories, empty for no change (from version 2).
    #[serde(serialize_with = "record_json::uuids")]
    pub log_dirs: Vec<Uuid>,
    /// New cordoned directories (from version 3).
    #[serde(serialize_with = "record_json::optional_uuids")]
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
}

impl Body for BrokerRegistrationChangeRecord {
    const API_KEY: u16 = 17;
    const LATEST: u16 = 3;

    /// The lowest version that can contain the set fields: Kafka's controller chooses in the same
    /// way.
    fn version(&self) -> u16 {
        if self.cordoned_log_dirs.is_some() {
            3
        } else if !self.log_dirs.is_empty() {
            2
        } else {
            u16::from(self.in_controlled_shutdown != 0)
        }
    }

    fn decode(input: &mut Decoder, version: u16) -> Result<Self, DecodeError> {
        let mut record =
            Self { broker_id: input.read_i32()?, broker_epoch: input.read_i64()?, ..Self::default() };
        read_tags(input, |tag, field| {
            match tag {
                0 => record.fenced = field.read_i8()?,
                1 if version >= 1 => record.in_controlled_shutdown = field.read_i8()?,
                2 if version >= 2 => record.log_dirs = read_array(field, Decoder::read_uuid)?,
                3 if version >= 3 => {
                    record.cordoned_log_dirs = read_optional_array(field, Decoder::read_uuid)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, version: u16) -> Result<(), EncodeError> {
        out.write_i32(self.broker_id)?;
        out.write_i64(self.broker_epoch)?;
        let (fenced, leaving) = (self.fenced, self.in_controlled_shutdown);
        let mut tags = Tags::default().add(0, fenced != 0, |out| out.write_i8(fenced))?;
        if version >= 1 {
            tags = tags.add(1, leaving != 0, |out| out.write_i8(leaving))?;
        }
        if version >= 2 {
            tags = tags.add(2, !self.log_dirs.is_empty(), |out| write_uuids(out, &self.log_dirs))?;
        }
        if version >= 3 {
            tags = tags.optional_uuids(3, self.cordoned_log_dirs.as_deref())?;
        }
        tags.write(out)
    }
}

/// Registration of a controller process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RegisterControllerRecord {
    /// Node id.
    pub controller_id: i32,
    /// Random id of this process.
    #[serde(serialize_with = "record_json::uuid")]
    pub incarnation_id: Uuid,
    /// Unused since Kafka 4.0, without ZooKeeper.
    pub zk_migration_ready: bool,
    /// Listeners of the controller.
    pub end_points: Vec<Endpoint>,
    /// The features it supports.
    pub features: Vec<SupportedFeature>,
}

impl Body for RegisterControllerRecord {
    const API_KEY: u16 = 27;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            controller_id: input.read_i32()?,
            incarnation_id: input.read_uuid()?,
            zk_migration_ready: input.read_bool()?,
            end_points: read_array(input, Endpoint::decode)?,
            features: read_array(input, SupportedFeature::decode)?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_i32(self.controller_id)?;
        out.write_uuid(self.incarnation_id)?;
        out.write_bool(self.zk_migration_ready)?;
        write_array(out, &self.end_points, Endpoint::encode)?;
        write_array(out, &self.features, SupportedFeature::encode)?;
        write_no_tags(out)
    }
}

/// A controller was removed permanently.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UnregisterControllerRecord {
    /// Node id.
    pub controller_id: i32,
}

impl Body for UnregisterControllerRecord {
    const API_KEY: u16 = 29;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { controller_id: input.read_i32()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_i32(self.controller_id)?;
        write_no_tags(out)
    }
}

/// Declares records that contain only a broker and its epoch.
macro_rules! broker_epoch_record {
    ($name:ident, $api_key:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct $name {
            /// Node id.
            pub broker_id: i32,
            /// Epoch of the registration.
            pub broker_epoch: i64,
        }

        impl Body for $name {
            const API_KEY: u16 = $api_key;
            const LATEST: u16 = 0;

            fn version(&self) -> u16 {
                0
            }

            fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
                let record = Self { broker_id: input.read_i32()?, broker_epoch: input.read_i64()? };
                skip_tags(input)?;
                Ok(record)
            }

            fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
                out.write_i32(self.broker_id)?;
                out.write_i64(self.broker_epoch)?;
                write_no_tags(out)
            }
        }
    };
}

broker_epoch_record!(UnregisterBrokerRecord, 1, "A broker was removed permanently.");
broker_epoch_record!(FenceBrokerRecord, 7, "A broker may no longer lead (Kafka before 3.3).");
broker_epoch_record!(UnfenceBrokerRecord, 8, "A broker may lead again (Kafka before 3.3).");
