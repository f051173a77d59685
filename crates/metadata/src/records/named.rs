//! JSON of numbers that have a name in Kafka: the name, or the number if this version has no name
//! for it.

use levada_security::acl::{Operation, PatternType, Permission, ResourceType};
use levada_security::scram::ScramMechanism;
use serde::{Serialize, Serializer};

/// Serializes the name of a number.
fn named<S: Serializer>(number: impl Serialize, name: Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => name.serialize(to),
        None => number.serialize(to),
    }
}

/// Kind of the resource of an ACL.
pub(super) fn acl_resource<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    named(code, ResourceType::from_code(*code).map(ResourceType::name), to)
}

/// Kind of pattern of an ACL.
pub(super) fn pattern<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    named(code, PatternType::from_code(*code).map(PatternType::name), to)
}

/// Operation of an ACL.
pub(super) fn operation<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    named(code, Operation::from_code(*code).map(Operation::name), to)
}

/// Permission of an ACL.
pub(super) fn permission<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    named(code, Permission::from_code(*code).map(Permission::name), to)
}

/// Mechanism of SCRAM.
pub(super) fn mechanism<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    named(code, ScramMechanism::from_code(*code).map(ScramMechanism::name), to)
}

/// Kind of the resource of a setting.
pub(super) fn setting_resource<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    let name = match code {
        2 => Some("TOPIC"),
        4 => Some("BROKER"),
        8 => Some("BROKER_LOGGER"),
        16 => Some("CLIENT_METRICS"),
        32 => Some("GROUP"),
        _ => None,
    };
    named(code, name, to)
}

/// Security protocol of a listener.
pub(super) fn protocol<S: Serializer>(code: &i16, to: S) -> Result<S::Ok, S::Error> {
    let name = match code {
        0 => Some("PLAINTEXT"),
        1 => Some("SSL"),
        2 => Some("SASL_PLAINTEXT"),
        3 => Some("SASL_SSL"),
        _ => None,
    };
    named(code, name, to)
}

/// Change of the fencing of a broker.
pub(super) fn fencing<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    let name = match code {
        -1 => Some("UNFENCE"),
        0 => Some("NONE"),
        1 => Some("FENCE"),
        _ => None,
    };
    named(code, name, to)
}

/// Recovery of a leader after an unclean election, or no change of it.
pub(super) fn recovery<S: Serializer>(code: &i8, to: S) -> Result<S::Ok, S::Error> {
    let name = match code {
        -1 => Some("UNCHANGED"),
        0 => Some("RECOVERED"),
        1 => Some("RECOVERING"),
        _ => None,
    };
    named(code, name, to)
}
