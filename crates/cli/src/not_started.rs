//! Failures of servers that do not start, and of configurations that are not valid.

use std::io;

use levada_broker::server::StartError;
use levada_config::ConfigErrors;
use levada_terminal::failure::Failure;

/// Next step where a port below 1024 may not be listened on.
const SMALL_PORT: &str = "use a port from 1024 on; a smaller port needs the capability CAP_NET_BIND_SERVICE (AmbientCapabilities= in a unit file)";

/// Message about an address on which the program cannot listen; `key` names its setting, if there
/// are several.
fn not_listening(address: &str, key: &str, source: &io::Error, other: impl FnOnce() -> Failure) -> Failure {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            Failure::with_next(format!("cannot listen on {address}{key}: {source}"), SMALL_PORT)
        }
        _ => other(),
    }
}

/// A configuration that is not valid. Prints all errors but the last one.
pub(crate) fn config(errors: ConfigErrors) -> Failure {
    let mut failures = errors.0.into_iter().map(|error| Failure::Usage(error.to_string()));
    let last = failures.next_back().expect("there is an error");
    failures.for_each(|failure| {
        failure.report();
    });
    last
}

/// A broker that does not start.
pub(crate) fn broker(error: &StartError) -> Failure {
    let other = || Failure::new(error.to_string());
    match error {
        StartError::Bind { address, key: "listeners", source } => not_listening(address, "", source, other),
        StartError::Bind { address, key, source } => {
            not_listening(address, &format!(" ({key})"), source, other)
        }
        _ => other(),
    }
}

/// A file server that does not start.
pub(crate) fn files(error: &levada_files::StartError) -> Failure {
    let other = || Failure::new(error.to_string());
    match error {
        levada_files::StartError::Bind { address, source } => {
            not_listening(&address.to_string(), "", source, other)
        }
        _ => other(),
    }
}
