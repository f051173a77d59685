//! The format of a dump: a line per entry, with ordered fields, and a verdict at the end.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use levada_terminal::colour::{self, Style};
use levada_terminal::escapes::{is_steering, quiet_json};
use levada_terminal::failure::Failure;
use levada_terminal::output;

/// Destination of the findings.
pub(super) struct Report<'a> {
    out: &'a mut dyn Write,
    json: bool,
    quiet: bool,
}

/// Verdict about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file is intact; with a description of its contents.
    Sound(String),
    /// The file is damaged.
    Damaged {
        /// Byte from the start of the file, or line for text, of the first damage.
        at: u64,
        /// Problem at that position.
        what: String,
    },
}

impl Verdict {
    pub(super) fn damaged(at: u64, what: impl Into<String>) -> Self {
        Self::Damaged { at, what: what.into() }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(out: &'a mut dyn Write, json: bool, quiet: bool) -> Self {
        Self { out, json, quiet }
    }

    /// True if rows are JSON objects.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// One thing found: its kind and its fields.
    pub(super) fn row(&mut self, kind: &str, fields: &[(&str, Value)]) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        if self.json {
            let mut object = Map::new();
            object.insert("kind".to_owned(), json!(kind));
            object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            return output::json_line(self.out, &object);
        }
        write!(self.out, "{kind}")?;
        for (name, value) in fields {
            match value {
                Value::String(text) if is_plain(text) => write!(self.out, " {name}={text}")?,
                value => write!(self.out, " {name}={}", quiet_json(&value.to_string()))?,
            }
        }
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints the verdict at the end of a file's dump.
    pub(super) fn verdict(&mut self, path: &Path, verdict: &Verdict) -> Result<(), Failure> {
        let file = path.display().to_string();
        if self.json {
            let object = match verdict {
                Verdict::Sound(what) => {
                    json!({ "kind": "verdict", "file": file, "sound": true, "what": what })
                }
                Verdict::Damaged { at, what } => {
                    json!({ "kind": "verdict", "file": file, "sound": false, "at": at, "what": what })
                }
            };
            return output::json_line(self.out, &object);
        }
        match verdict {
            Verdict::Sound(what) => {
                writeln!(self.out, "{file}: {}: {what}", colour::out(Style::Green, "sound"))?;
            }
            Verdict::Damaged { at, what } => {
                let damaged = colour::out(Style::Red, &format!("DAMAGED at {at}"));
                writeln!(self.out, "{file}: {damaged}: {what}")?;
            }
        }
        Ok(())
    }
}

/// Texts that need no quotes to be separated from the following text.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '"', '=']) && !text.contains(is_steering)
}
