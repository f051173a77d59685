//! Typed reads of checked settings.

use crate::{ConfigError, Settings, prefix};

/// Typed reads of checked settings.
pub(crate) struct Reader<'a>(pub(crate) &'a Settings);

impl Reader<'_> {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.text(name).unwrap_or_default()
    }

    pub(crate) fn long(&self, name: &str) -> i64 {
        self.text(name).parse().expect("the table has an integer default and settings are checked")
    }

    pub(crate) fn int(&self, name: &str) -> i32 {
        i32::try_from(self.long(name)).expect("the table keeps INT keys to 32 bits")
    }

    pub(crate) fn short(&self, name: &str) -> i16 {
        i16::try_from(self.long(name)).unwrap_or(i16::MAX)
    }

    pub(crate) fn size(&self, name: &str) -> u32 {
        u32::try_from(self.long(name)).expect("the table keeps sizes from 0 to 2^31-1")
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("the table has a number as default and settings are checked")
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The error for a value that contradicts other keys.
    pub(crate) fn invalid(&self, key: &str, allowed: String) -> ConfigError {
        let row = prefix::row(key);
        debug_assert!(row.is_some(), "{key} is in the table");
        ConfigError::Invalid {
            key: self.0.as_written(key).to_owned(),
            value: row.map_or("", |row| row.shown(self.text(key))).to_owned(),
            origin: self.0.origin(key).clone(),
            allowed,
        }
    }
}
