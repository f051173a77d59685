//! Failure of a command: the cause, the next step, and the exit code.

use std::io;
use std::process::ExitCode;

pub use levada_client::{Cause, Caused};
use levada_wire::json::JsonError;

use crate::colour::{self, Style};
use crate::stderr;

/// Reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is not valid: exit code 2.
    Usage(String),
    /// An external operation failed: exit code 1.
    Failed {
        /// Problem and position.
        what: String,
        /// Next step.
        next: Option<String>,
        /// The side at fault, for callers that retry.
        cause: Cause,
    },
    /// The command has already printed the error: exit code 1.
    Told,
    /// A signal ended the command before its work was complete: exit code 130.
    Interrupted,
    /// Output could not be written.
    Output(io::Error),
}

/// Exit code of a command that a signal ends before its work is complete.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    /// A failure without advice.
    pub fn new(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), next: None, cause: Cause::Other }
    }

    /// A failure with advice.
    pub fn with_next(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), next: Some(next.into()), cause: Cause::Other }
    }

    /// The same failure with another cause.
    pub fn because(self, because: Cause) -> Self {
        match self {
            Self::Failed { what, next, .. } => Self::Failed { what, next, cause: because },
            other => other,
        }
    }

    /// The same failure with another next step.
    #[must_use]
    pub fn try_next(self, next: impl Into<String>) -> Self {
        match self {
            Self::Failed { what, cause, .. } => Self::Failed { what, next: Some(next.into()), cause },
            other => other,
        }
    }

    /// The failure as the reason why another operation failed.
    #[must_use]
    pub fn within(self, operation: &str) -> Self {
        match self {
            Self::Failed { what, next, cause } => {
                Self::Failed { what: format!("{operation}: {what}"), next, cause }
            }
            other => other,
        }
    }

    /// The cause, where one is known.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Caused::cause(self)
    }

    /// The failed operation in one line, without the advice.
    pub fn line(&self) -> &str {
        match self {
            Self::Failed { what, .. } | Self::Usage(what) => what,
            Self::Told | Self::Interrupted | Self::Output(_) => "",
        }
    }

    /// Combines the failures of several requests; the other requests succeeded.
    pub fn all(failures: Vec<Self>) -> Result<(), Self> {
        if failures.is_empty() {
            return Ok(());
        }
        for failure in failures {
            failure.report();
        }
        Err(Self::Told)
    }

    /// Prints the next step, if there is one.
    pub fn tell_next(&self) {
        if let Self::Failed { next: Some(next), .. } = self {
            stderr::tell_headed(&format!("  {}", colour::err(Style::Bold, "try:")), next);
        }
    }

    /// Prints the error and returns the exit code. A closed stdout (`| head`) is not an error.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                stderr::tell_headed(&colour::err(Style::Red, "error:"), &what);
                ExitCode::from(2)
            }
            Self::Failed { ref what, .. } => {
                stderr::tell_headed(&colour::err(Style::Red, "error:"), what);
                self.tell_next();
                ExitCode::from(1)
            }
            Self::Told => ExitCode::from(1),
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                let what = format!("cannot write to stdout: {error}");
                stderr::tell_headed(&colour::err(Style::Red, "error:"), &what);
                ExitCode::from(1)
            }
        }
    }
}

/// Commands return input and connection errors by their own types; any other `io::Error` is of
/// stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

impl Caused for Failure {
    fn cause(&self) -> Cause {
        match self {
            Self::Failed { cause, .. } => *cause,
            _ => Cause::Other,
        }
    }
}

impl From<JsonError> for Failure {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Field { .. } => Self::with_next(
                error.to_string(),
                "levada api NAME --version N --template prints a request with all fields",
            ),
            JsonError::Malformed { .. } => Self::new(error.to_string()),
        }
    }
}
