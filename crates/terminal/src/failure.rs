//! Failure of a command: the cause, the next step, and the exit code.

use std::io;
use std::process::ExitCode;

use levada_client::ConnectionError;
use levada_wire::error_code::ErrorCode;
use levada_wire::frame::FrameError;
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

/// The origin of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection was refused or broke: the broker may be restarting.
    Connection,
    /// The broker answered with this error code.
    Code(i16),
    /// Anything else.
    Other,
}

impl Cause {
    /// The broker's error, if it answered with a code of the catalogue.
    pub fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Code(code) => ErrorCode::of_code(code),
            Self::Connection | Self::Other => None,
        }
    }
}

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

    /// The cause, where one is known.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Failed { cause, .. } => *cause,
            _ => Cause::Other,
        }
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

    /// Prints the error and returns the exit code. A closed stdout (`| head`) is not an error.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                stderr::tell_headed(&colour::err(Style::Red, "error:"), &what);
                ExitCode::from(2)
            }
            Self::Failed { what, next, .. } => {
                stderr::tell_headed(&colour::err(Style::Red, "error:"), &what);
                if let Some(next) = next {
                    stderr::tell_headed(&format!("  {}", colour::err(Style::Bold, "try:")), &next);
                }
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

/// Next step where no connection comes about.
fn remedy(address: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        _ if address.contains('/') => "HOST:PORT alone, without http:// or a path",
        io::ErrorKind::InvalidInput => "HOST:PORT with a port from 1 to 65535, such as localhost:9092",
        // rustls reports a certificate that it does not accept in this way.
        io::ErrorKind::InvalidData => {
            "see ssl.truststore.location and ssl.keystore.location in the file of --command-config"
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "see security.protocol in the file of --command-config: this listener may have no TLS"
        }
        // The standard library has no kind for this error.
        _ if error.to_string().starts_with("failed to lookup") => {
            "check the host name in --brokers: it does not resolve on this machine"
        }
        _ => "start a broker with `levada serve`, or name another with --brokers host:port",
    }
}

/// True for an error that ends when a broker returns. A wrong certificate or name is permanent.
fn is_of_connection(kind: io::ErrorKind) -> bool {
    !matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::NotFound)
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        let what = error.to_string();
        match error {
            ConnectionError::Connect { source, address } => {
                let cause = if is_of_connection(source.kind()) { Cause::Connection } else { Cause::Other };
                Self::with_next(what, remedy(&address, &source)).because(cause)
            }
            ConnectionError::Lost { .. } | ConnectionError::Closed { .. } => Self::with_next(
                what,
                "see the broker's log; it may have stopped or refused the request, or require TLS, SASL or a certificate: --command-config",
            )
            .because(Cause::Connection),
            ConnectionError::Frame(FrameError::TooLarge { claimed, .. }) => not_kafka(claimed, what),
            _ => Self::new(what),
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

/// The answer was no frame of Kafka's: its first four bytes show the likely protocol.
fn not_kafka(first: u32, what: String) -> Failure {
    match first.to_be_bytes() {
        [b'H', b'T', b'T', b'P'] => Failure::with_next(
            "the address of --brokers answers in HTTP, not in Kafka's protocol",
            "the address of one of the broker's listeners, by default port 9092; its metrics have another",
        ),
        [0x14..=0x17, 3, _, _] => Failure::with_next(
            "the address of --brokers answers in TLS",
            "security.protocol=SSL or SASL_SSL in the file of --command-config",
        ),
        _ => Failure::with_next(what, "the address of a Kafka broker: --brokers host:port"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs;

    use super::remedy;

    #[test]
    fn a_name_without_an_address_is_no_broker_that_is_not_started() {
        let unknown = ("a..b", 9092).to_socket_addrs().unwrap_err();
        assert!(remedy("a..b:9092", &unknown).contains("does not resolve"), "{unknown}");
        let refused = std::io::ErrorKind::ConnectionRefused.into();
        assert!(remedy("localhost:9092", &refused).contains("levada serve"));
    }
}
