//! Errors of the object store's client as errors of this crate.

use object_store::Error;

use crate::error::{RemoteError, RemoteErrorKind};

/// Longest text of a cause, in bytes.
const CAUSE_LIMIT: usize = 300;

/// Translates an error. The text has one line and no document of the server.
pub(super) fn remote_error(operation: String, error: &Error) -> RemoteError {
    let kind = match error {
        Error::NotFound { .. } => RemoteErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => RemoteErrorKind::Refused,
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => RemoteErrorKind::Unsupported,
        _ => RemoteErrorKind::Unavailable,
    };
    RemoteError::new(kind, operation, cause(&error.to_string()))
}

/// One line of an error's text. Of an XML document only code and message remain, because documents
/// of S3 about a wrong signature have the access key and the signed text.
fn cause(text: &str) -> String {
    let (head, document) = match text.find("<?xml").or_else(|| text.find("<Error>")) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let head = without_request(head);
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
