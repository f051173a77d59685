//! UserScramCredentialRecord, AccessControlEntryRecord, and their removals.

use std::fmt;

use levada_security::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use levada_wire::primitives::{DecodeError, Decoder, EncodeError, Uuid};
use levada_wire::record_json;
use serde::Serialize;

use super::body::{Body, Out, read_text, skip_tags, write_no_tags, write_text};
use super::named;

/// A user's credential for one SCRAM mechanism.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct UserScramCredentialRecord {
    /// User of the credential.
    pub name: String,
    /// 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.
    #[serde(serialize_with = "named::mechanism")]
    pub mechanism: i8,
    /// Salt of the password.
    #[serde(skip)]
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    #[serde(skip)]
    pub stored_key: Vec<u8>,
    /// Server key of SCRAM.
    #[serde(skip)]
    pub server_key: Vec<u8>,
    /// Number of iterations of the hash.
    pub iterations: i32,
}

impl fmt::Debug for UserScramCredentialRecord {
    /// Omits the keys: a reader of them could pose as the server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserScramCredentialRecord")
            .field("name", &self.name)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl Body for UserScramCredentialRecord {
    const API_KEY: u16 = 11;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            name: read_text(input)?,
            mechanism: input.read_i8()?,
            salt: input.read_compact_bytes()?.to_vec(),
            stored_key: input.read_compact_bytes()?.to_vec(),
            server_key: input.read_compact_bytes()?.to_vec(),
            iterations: input.read_i32()?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.name)?;
        out.write_i8(self.mechanism)?;
        out.write_compact_bytes(&self.salt)?;
        out.write_compact_bytes(&self.stored_key)?;
        out.write_compact_bytes(&self.server_key)?;
        out.write_i32(self.iterations)?;
        write_no_tags(out)
    }
}

/// A user's credential for one mechanism is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RemoveUserScramCredentialRecord {
    /// User of the credential.
    pub name: String,
    /// The mechanism, as in [`UserScramCredentialRecord`].
    #[serde(serialize_with = "named::mechanism")]
    pub mechanism: i8,
}

impl Body for RemoveUserScramCredentialRecord {
    const API_KEY: u16 = 22;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { name: read_text(input)?, mechanism: input.read_i8()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.name)?;
        out.write_i8(self.mechanism)?;
        write_no_tags(out)
    }
}

/// Entry of access control (ACL). The numbers are those of Kafka's protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AccessControlEntryRecord {
    /// Id by which the entry is removed.
    #[serde(serialize_with = "record_json::uuid")]
    pub id: Uuid,
    /// Kind of the resource.
    #[serde(serialize_with = "named::acl_resource")]
    pub resource_type: i8,
    /// Name of the resource, or how it begins.
    pub resource_name: String,
    /// The kind of pattern that the name is: literal or prefixed.
    #[serde(serialize_with = "named::pattern")]
    pub pattern_type: i8,
    /// Principal, as type and name.
    pub principal: String,
    /// Host from which the principal connects.
    pub host: String,
    /// Operation, by Kafka's number.
    #[serde(serialize_with = "named::operation")]
    pub operation: i8,
    /// Allow or deny, by Kafka's number.
    #[serde(serialize_with = "named::permission")]
    pub permission_type: i8,
}

impl AccessControlEntryRecord {
    /// The record of an entry, under this id.
    pub fn of_acl(id: Uuid, acl: &Acl) -> Self {
        Self {
            id,
            resource_type: acl.resource_type.code(),
            resource_name: acl.resource_name.clone(),
            pattern_type: acl.pattern_type.code(),
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.code(),
            permission_type: acl.permission.code(),
        }
    }

    /// The entry; none if the record contains numbers that this version does not have.
    pub fn acl(&self) -> Option<Acl> {
        Some(Acl {
            resource_type: ResourceType::from_code(self.resource_type)?,
            resource_name: self.resource_name.clone(),
            pattern_type: PatternType::from_code(self.pattern_type)?,
            principal: self.principal.clone(),
            host: self.host.clone(),
            operation: Operation::from_code(self.operation)?,
            permission: Permission::from_code(self.permission_type)?,
        })
    }
}

impl Body for AccessControlEntryRecord {
    const API_KEY: u16 = 18;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self {
            id: input.read_uuid()?,
            resource_type: input.read_i8()?,
            resource_name: read_text(input)?,
            pattern_type: input.read_i8()?,
            principal: read_text(input)?,
            host: read_text(input)?,
            operation: input.read_i8()?,
            permission_type: input.read_i8()?,
        };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_uuid(self.id)?;
        out.write_i8(self.resource_type)?;
        write_text(out, &self.resource_name)?;
        out.write_i8(self.pattern_type)?;
        write_text(out, &self.principal)?;
        write_text(out, &self.host)?;
        out.write_i8(self.operation)?;
        out.write_i8(self.permission_type)?;
        write_no_tags(out)
    }
}

/// An entry of access control is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RemoveAccessControlEntryRecord {
    /// Id of the entry.
    #[serde(serialize_with = "record_json::uuid")]
    pub id: Uuid,
}

impl Body for RemoveAccessControlEntryRecord {
    const API_KEY: u16 = 19;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { id: input.read_uuid()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_uuid(self.id)?;
        write_no_tags(out)
    }
}
