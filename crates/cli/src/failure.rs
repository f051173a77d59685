//! How a command ends badly: what went wrong, what to do next, and the exit code.

use std::{io, process::ExitCode};

use levada_broker::config::ConfigErrors;
use levada_wire::ClientError;

use crate::colour::{self, Style};

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command was asked wrongly: exit code 2.
    Usage(String),
    /// Something outside failed: exit code 1.
    Failed {
        /// What, and where.
        what: String,
        /// What to try.
        next: Option<String>,
    },
    /// The command has already printed what is wrong: exit code 1.
    Told,
    /// Output could not be written.
    Output(io::Error),
}

impl Failure {
    /// A failure without advice.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), next: None }
    }

    /// A failure with advice.
    pub(crate) fn with_next(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), next: Some(next.into()) }
    }

    /// What is left of a request for several things: each failure is told, the rest was done.
    pub(crate) fn all(failures: Vec<Self>) -> Result<(), Self> {
        if failures.is_empty() {
            return Ok(());
        }
        for failure in failures {
            failure.report();
        }
        Err(Self::Told)
    }

    /// Tells the user and gives the exit code. A reader that has gone away (`| head`) is not an error.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                eprintln!("{} {what}", colour::err(Style::Red, "error:"));
                ExitCode::from(2)
            }
            Self::Failed { what, next } => {
                eprintln!("{} {what}", colour::err(Style::Red, "error:"));
                if let Some(next) = next {
                    eprintln!("  {} {next}", colour::err(Style::Bold, "try:"));
                }
                ExitCode::from(1)
            }
            Self::Told => ExitCode::from(1),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                eprintln!("{} cannot write to stdout: {error}", colour::err(Style::Red, "error:"));
                ExitCode::from(1)
            }
        }
    }
}

/// Commands return input and connection errors by their own types; what is left of `io::Error` is stdout's.
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

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Usage(errors.to_string())
    }
}

/// What helps where no connection comes about.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        // rustls tells of what it does not accept in this way.
        io::ErrorKind::InvalidData => {
            "see ssl.truststore.location and ssl.keystore.location in the file of --command-config"
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "see security.protocol in the file of --command-config: this listener may have no TLS"
        }
        _ => "start a broker with `levada serve`, or name another with --brokers host:port",
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let what = error.to_string();
        match error {
            ClientError::Connect { source, .. } => Self::with_next(what, remedy(source.kind())),
            ClientError::Lost { .. } | ClientError::Closed { .. } => Self::with_next(
                what,
                "see the broker's log; it may have stopped or refused the request, or want TLS, SASL or a certificate: --command-config",
            ),
            _ => Self::new(what),
        }
    }
}
