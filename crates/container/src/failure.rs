//! Failures of the programs of the image, with their exit codes.

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A failed command: its message and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    text: String,
    code: i32,
}

impl Failure {
    /// A failure of an operation: exit code 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 1 }
    }

    /// A command line or a script that is not valid or not supported: exit code 2.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 2 }
    }

    /// The result for a program that does not start: exit code 127 if it does not exist, otherwise
    /// 126, as in a shell.
    pub(crate) fn not_started(program: &str, error: &std::io::Error) -> Self {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Self { text: format!("cannot run {program}: {error}"), code }
    }

    /// Returns the failure with the line of a script.
    pub(crate) fn with_line(self, line: usize) -> Self {
        Self { text: format!("line {line}: {}", self.text), ..self }
    }

    pub(crate) fn code(&self) -> i32 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Replaces this process by a program; returns only if that fails.
pub(crate) fn replace(program: &str, words: &[String]) -> Failure {
    Failure::not_started(program, &Command::new(program).args(words).exec())
}
