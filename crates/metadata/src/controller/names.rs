//! Topic names.

use super::{Reason, Refusal};

/// The topic that is the metadata log; no client may create it.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

const MAX_NAME_LEN: usize = 249;

/// No topic has a longer name.
pub const TOPIC_NAME_BYTES_MAX: usize = MAX_NAME_LEN;

/// Checks that clients may use the name for a topic.
pub fn check_topic_name(name: &str) -> Result<(), Refusal> {
    let problem = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.encode_utf16().count() > MAX_NAME_LEN {
        format!("the length of '{name}' is longer than the max allowed length {MAX_NAME_LEN}")
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    } else {
        return Ok(());
    };
    Err(Refusal::new(Reason::InvalidTopic, format!("Topic name is invalid: {problem}")))
}

/// Maximum length in bytes of the name of a configured or limited entity: that of a string of the
/// protocol. Each record contains the name.
pub(super) const MAX_RESOURCE_NAME_LEN: usize = 32_767;

/// Error message for a longer name.
pub(super) fn too_long(what: &str) -> String {
    format!("The name of the {what} is longer than {MAX_RESOURCE_NAME_LEN} bytes")
}

/// True if a topic belongs to the broker: shown as internal, with groups, transactions or share
/// state in it.
pub fn is_internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

/// Common form of the names of topics that collide: metric names do not distinguish `.` and `_`.
pub(super) fn collision_key(name: &str) -> String {
    name.replace('.', "_")
}

/// True if the name has a character that can collide.
pub(super) fn can_collide(name: &str) -> bool {
    name.contains(['.', '_'])
}
