//! Errors of the object store's client as errors of this crate.

use object_store::Error;

use crate::error::{RemoteError, RemoteErrorKind};

/// Longest text of a cause, in bytes.
const CAUSE_LIMIT: usize = 300;

/// Translates an error. The text has one line and no document of the server.
pub(super) fn remote_error(operation: String, error: &Error) -> RemoteError {
    let fallback = match error {
        Error::NotFound { .. } => RemoteErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => RemoteErrorKind::Refused,
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => RemoteErrorKind::Unsupported,
        _ => RemoteErrorKind::Unavailable,
    };
    let text = error.to_string();
    let kind = document(&text).and_then(|document| element(document, "Code")).and_then(kind_of);
    RemoteError::new(kind.unwrap_or(fallback), operation, cause(&text))
}

/// Kind of an error by its code in S3, which Azure partly shares; none if the status tells more.
/// Many codes of different kinds have the same status.
fn kind_of(code: &str) -> Option<RemoteErrorKind> {
    match code {
        "RequestTimeTooSkewed" | "RequestExpired" => Some(RemoteErrorKind::Skewed),
        "AccessDenied" | "AllAccessDisabled" => Some(RemoteErrorKind::Forbidden),
        "ExpiredToken"
        | "InvalidToken"
        | "TokenRefreshRequired"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch" => Some(RemoteErrorKind::Refused),
        "NoSuchBucket" | "ContainerNotFound" => Some(RemoteErrorKind::NoBucket),
        "SlowDown" | "ServerBusy" | "ServiceUnavailable" => Some(RemoteErrorKind::Throttled),
        "NotImplemented" => Some(RemoteErrorKind::Unsupported),
        _ => None,
    }
}

/// The XML document of the server in an error's text.
fn document(text: &str) -> Option<&str> {
    text.find("<?xml").or_else(|| text.find("<Error>")).map(|at| &text[at..])
}

/// One line of an error's text. Of an XML document only code and message remain, because documents
/// of S3 about a wrong signature have the access key and the signed text.
fn cause(text: &str) -> String {
    let document = document(text).unwrap_or_default();
    let head = without_request(&text[..text.len() - document.len()]);
    let parts = [element(document, "Code"), element(document, "Message")];
    let mut line = head.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts.into_iter().flatten() {
        line = format!("{} {part}", line.trim_end());
    }
    let end = (0..=CAUSE_LIMIT.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    line.truncate(end.unwrap_or(0));
    line
}

/// The text after the address of the request and the numbers of its repetitions: the operation has
/// the object's name.
fn without_request(text: &str) -> &str {
    let rest = text.split_once("Error performing ").and_then(|(_, rest)| rest.split_once(" - "));
    rest.map_or(text, |(_, cause)| cause)
}

fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

#[cfg(test)]
mod tests;
