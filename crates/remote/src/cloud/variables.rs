//! Variables of the process environment with the credentials of object stores.

use std::collections::BTreeMap;

/// Variables that object stores use. No `Debug`: their values are credentials.
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Variables of this process.
    pub fn of_process() -> Self {
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            // No variable of a store has a name or value that is not text.
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(texts.collect())
    }

    /// Holds these variables and no others.
    pub fn new<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_string(), value.to_string())).into())
    }

    /// Value of a variable.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names in lower case and values of the variables whose names begin with `prefix`.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}
