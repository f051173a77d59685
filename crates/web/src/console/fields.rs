//! Fields of a form, or of the query in a link.

use std::fmt::Display;
use std::str::FromStr;

use super::failure::Failed;

/// Names and values in the order in which the browser sent them.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    /// A field's text without surrounding space; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// Unchanged text of a field; empty if there is none.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// All values of a field that may occur more than once.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A number; none if the field is empty or missing.
    pub(super) fn number<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Failed> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.replace(',', "").parse();
        parsed
            .map(Some)
            .map_err(|error| Failed::Input(format!("{name}: {text:?} is not a number here ({error})")))
    }

    /// A field that must not be empty.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failed> {
        match self.text(name) {
            "" => Err(Failed::Input(format!("{name} is empty; fill it in"))),
            text => Ok(text),
        }
    }
}
