//! Keys of one listener: `listener.name.NAME.KEY`, and `listener.name.NAME.MECHANISM.KEY` for keys
//! that a SASL mechanism can override. Such a value takes precedence over the plain key.

use std::borrow::Cow;

use super::key::ConfigKey;
use super::table::broker_key;

const PREFIX: &str = "listener.name.";

/// The row of the table behind a name, be it bare or written for a listener.
pub(super) fn row(name: &str) -> Option<&'static ConfigKey> {
    if !is_prefixed(name) {
        return broker_key(name);
    }
    let rest = bare(name)?;
    let own = |name: &str| broker_key(name).filter(|key| key.per_listener);
    own(rest).or_else(|| {
        let (_, rest) = rest.split_once('.')?;
        own(rest).filter(|key| key.name.starts_with("sasl.") || key.name == "connections.max.reauth.ms")
    })
}

/// True if the name is written for a listener.
pub(super) fn is_prefixed(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Part of the key after the listener's name.
pub(super) fn bare(name: &str) -> Option<&str> {
    let (_, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
    Some(rest)
}

/// The name of `key` for one listener.
pub(super) fn prefixed(listener: &str, key: &str) -> String {
    format!("{PREFIX}{}.{key}", listener.to_lowercase())
}

/// The name for the lookup: the listener's part is in lower case, as in Kafka.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.'));
    match parts {
        Some((listener, rest)) => prefixed(listener, rest).into(),
        None => name.into(),
    }
}
