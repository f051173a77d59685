//! Results of commands that change something: a line on stderr for each change, or JSON on stdout.

use std::io::Write;

use serde::Serialize;

use crate::kafka_error;
use levada_terminal::failure::{Cause, Failure};
use levada_terminal::output::{self, Format, FormatArgs};

/// The outcome of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The change was made.
    Done,
    /// Already in the requested state: --if-exists, --if-not-exists.
    Unchanged,
    /// The change would succeed: --dry-run.
    Possible,
    Failed,
}

/// Outcomes of the changes that one command makes.
pub(crate) struct Outcomes {
    format: Format,
    rows: Vec<Row>,
    failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    name: String,
    outcome: Outcome,
    /// Kafka's name of the error, or null.
    code: Option<String>,
    /// The failure as text, or null.
    error: Option<String>,
}

impl Outcomes {
    pub(crate) fn new(format: FormatArgs) -> Self {
        Self { format: format.format, rows: Vec::new(), failures: Vec::new() }
    }

    /// Records a change, and prints it.
    pub(crate) fn add(&mut self, (kind, name): (&'static str, &str), outcome: Outcome, said: &str) {
        if self.format == Format::Table {
            tell!("{said}");
        }
        self.rows.push(Row { kind, name: name.to_owned(), outcome, code: None, error: None });
    }

    /// Notes a change that failed.
    pub(crate) fn fail(&mut self, (kind, name): (&'static str, &str), failure: Failure) {
        let code = match failure.cause() {
            Cause::Code(code) => Some(kafka_error::name(code)),
            Cause::Connection | Cause::Other => None,
        };
        let error = Some(failure.line().to_owned());
        self.rows.push(Row { kind, name: name.to_owned(), outcome: Outcome::Failed, code, error });
        self.failures.push(failure);
    }

    /// Notes a change that may have failed.
    pub(crate) fn note(&mut self, subject: (&'static str, &str), done: Result<(), Failure>, said: &str) {
        match done {
            Ok(()) => self.add(subject, Outcome::Done, said),
            Err(failure) => self.fail(subject, failure),
        }
    }

    /// Prints the JSON, and fails if a change did.
    pub(crate) fn end(self, out: &mut dyn Write) -> Result<(), Failure> {
        let printed = match self.format {
            Format::Json => output::json(out, &self.rows).and_then(|()| Ok(out.flush()?)),
            Format::Table => Ok(()),
        };
        // A closed pipe does not hide a failure.
        Failure::all(self.failures).and(printed)
    }
}

#[cfg(test)]
mod tests;
