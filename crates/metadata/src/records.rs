//! KRaft metadata records: the contents of the `__cluster_metadata` log.
//!
//! A record's value is a frame version (1), the record kind's number and the record's version, all
//! as unsigned varints, then the fields in Kafka's flexible encoding. Kinds that Levada does not
//! act on are kept unchanged ([`Opaque`]), so that nothing is lost. Unknown kinds or versions are
//! an error: state built without them would be wrong. See `docs/format/cluster-metadata.md`.

mod access;
mod body;
mod cluster;
pub mod control;
mod levels;
mod named;
mod node;
mod quota;
#[cfg(test)]
mod tests;
mod token;
mod topic;

use levada_wire::primitives::{Bytes, BytesMut, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder};
use serde::Serialize;

pub use self::access::{
    AccessControlEntryRecord, RemoveAccessControlEntryRecord, RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
};
use levada_wire::record_json;

use self::body::Body;
pub use self::cluster::{
    AbortTransactionRecord, BeginTransactionRecord, ConfigRecord, EndTransactionRecord, FeatureLevelRecord,
    NoOpRecord, ProducerIdsRecord,
};
pub use self::levels::{GONE_CONTROLLERS, TOKENS, TRANSACTIONS};
pub use self::node::{
    BrokerRegistrationChangeRecord, Endpoint, FenceBrokerRecord, RegisterBrokerRecord,
    RegisterControllerRecord, SupportedFeature, UnfenceBrokerRecord, UnregisterBrokerRecord,
    UnregisterControllerRecord,
};
pub use self::quota::ClientQuotaRecord;
pub use self::token::{DelegationTokenRecord, RemoveDelegationTokenRecord};
pub use self::topic::{
    ClearElrRecord, LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord,
    TopicRecord,
};

const FRAME_VERSION: u32 = 1;

/// Declares [`Record`] and its dispatch from one list of the record kinds.
macro_rules! records {
    ($($kind:ident($body:ident),)*) => {
        /// One metadata record.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type")]
        pub enum Record {
            $(#[doc = concat!("[`", stringify!($body), "`]")] $kind($body),)*
            /// A kind that is kept but not acted on.
            Opaque(Opaque),
        }

        $(impl From<$body> for Record {
            fn from(body: $body) -> Self {
                Self::$kind(body)
            }
        })*

        impl Record {
            /// The number of this record's kind.
            pub fn api_key(&self) -> u16 {
                match self {
                    $(Self::$kind(_) => $body::API_KEY,)*
                    Self::Opaque(opaque) => opaque.api_key,
                }
            }

            /// Kafka's name of this record's kind.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => stringify!($body),)*
                    Self::Opaque(_) => "unknown",
                }
            }

            /// The version in which this record is encoded.
            pub fn version(&self) -> u16 {
                match self {
                    $(Self::$kind(body) => body.version(),)*
                    Self::Opaque(opaque) => opaque.version,
                }
            }

            fn encode_body(&self, out: &mut body::Out<'_>, version: u16) -> Result<(), EncodeError> {
                match self {
                    $(Self::$kind(body) => body.encode(out, version),)*
                    Self::Opaque(opaque) => out.write_raw_slice(&opaque.body),
                }
            }
        }

        fn decode_body(api_key: u16, version: u16, input: &mut Decoder) -> Result<Record, RecordError> {
            match api_key {
                $($body::API_KEY => {
                    if version > $body::LATEST {
                        return Err(RecordError::UnknownVersion { api_key, version });
                    }
                    Ok(Record::$kind($body::decode(input, version)?))
                })*
                _ if KEPT_API_KEYS.contains(&api_key) => {
                    Ok(Record::Opaque(Opaque { api_key, version, body: take_rest(input)? }))
                }
                _ => Err(RecordError::UnknownKind { api_key }),
            }
        }
    };
}

records! {
    RegisterBroker(RegisterBrokerRecord),
    UnregisterBroker(UnregisterBrokerRecord),
    Topic(TopicRecord),
    Partition(PartitionRecord),
    Config(ConfigRecord),
    PartitionChange(PartitionChangeRecord),
    FenceBroker(FenceBrokerRecord),
    UnfenceBroker(UnfenceBrokerRecord),
    RemoveTopic(RemoveTopicRecord),
    FeatureLevel(FeatureLevelRecord),
    ClientQuota(ClientQuotaRecord),
    ProducerIds(ProducerIdsRecord),
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    NoOp(NoOpRecord),
    BeginTransaction(BeginTransactionRecord),
    EndTransaction(EndTransactionRecord),
    AbortTransaction(AbortTransactionRecord),
    RegisterController(RegisterControllerRecord),
    UnregisterController(UnregisterControllerRecord),
    ClearElr(ClearElrRecord),
    UserScramCredential(UserScramCredentialRecord),
    RemoveUserScramCredential(RemoveUserScramCredentialRecord),
    AccessControlEntry(AccessControlEntryRecord),
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord),
    DelegationToken(DelegationTokenRecord),
    RemoveDelegationToken(RemoveDelegationTokenRecord),
}

/// The state of a finished migration from ZooKeeper.
const KEPT_API_KEYS: [u16; 1] = [21];

/// A record that is kept byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opaque {
    /// The number of its kind.
    pub api_key: u16,
    /// Version of the record.
    pub version: u16,
    /// Fields of the record, not decoded.
    #[serde(serialize_with = "record_json::bytes")]
    pub body: Bytes,
}

/// Decodes one record's value; also returns its version. Copies text and lists out of `value`,
/// except for the body of an [`Opaque`] record.
pub fn decode(value: Bytes) -> Result<(Record, u16), RecordError> {
    let mut input = Decoder::new(value, DecodeLimits::default())?;
    let frame_version = input.read_unsigned_varint()?;
    if frame_version != FRAME_VERSION {
        return Err(RecordError::UnknownFrame { frame_version });
    }
    let api_key = read_number(&mut input)?;
    let version = read_number(&mut input)?;
    let record = decode_body(api_key, version, &mut input)?;
    input.finish()?;
    Ok((record, version))
}

/// The bytes of one record in the version that Kafka 4.3 writes.
pub fn encode(record: &Record) -> Result<Bytes, RecordError> {
    encode_as(record, record.version())
}

/// The bytes of one record in the form of that `metadata.version`; none if the version does not
/// have it.
pub fn encode_at(record: &Record, level: i16) -> Result<Option<Bytes>, RecordError> {
    record.version_at(level).map(|version| encode_as(record, version)).transpose()
}

fn encode_as(record: &Record, version: u16) -> Result<Bytes, RecordError> {
    let mut buffer = BytesMut::new();
    let mut out = Encoder::new(&mut buffer);
    out.write_unsigned_varint(FRAME_VERSION)?;
    out.write_unsigned_varint(u32::from(record.api_key()))?;
    out.write_unsigned_varint(u32::from(version))?;
    record.encode_body(&mut out, version)?;
    Ok(buffer.freeze())
}

fn read_number(input: &mut Decoder) -> Result<u16, RecordError> {
    let number = input.read_unsigned_varint()?;
    // Kafka's numbers are positive 16-bit integers.
    u16::try_from(number)
        .ok()
        .filter(|number| *number <= i16::MAX.unsigned_abs())
        .ok_or(RecordError::NumberTooLarge { number })
}

fn take_rest(input: &mut Decoder) -> Result<Bytes, DecodeError> {
    let rest = input.remaining();
    input.take_bytes(rest)
}

/// The reason why a record could not be decoded or encoded. The caller has the file and offset.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The value does not begin as a metadata record does.
    #[error("metadata record frame version {frame_version} is unknown; this version reads only 1")]
    UnknownFrame {
        /// The version found.
        frame_version: u32,
    },
    /// A kind or version number beyond 32 767.
    #[error("metadata record kind or version {number} is too large")]
    NumberTooLarge {
        /// The number found.
        number: u32,
    },
    /// Written by software with more kinds of records.
    #[error("metadata record kind {api_key} is unknown: a newer version of the software wrote the log")]
    UnknownKind {
        /// The number of the kind.
        api_key: u16,
    },
    /// Written by software with more fields.
    #[error(
        "metadata record kind {api_key} has unknown version {version}: a newer version of the software wrote the log"
    )]
    UnknownVersion {
        /// The number of the kind.
        api_key: u16,
        /// The version found.
        version: u16,
    },
    /// The bytes do not match the kind and version.
    #[error("malformed metadata record: {0}")]
    Malformed(#[from] DecodeError),
    /// The value cannot be put into bytes.
    #[error("metadata record cannot be encoded: {0}")]
    Unencodable(#[from] EncodeError),
}
