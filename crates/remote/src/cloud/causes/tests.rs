//! Tests of the texts of errors.

use super::{cause, remote_error};
use crate::RemoteErrorKind;

fn response(status: u16, code: &str) -> object_store::Error {
    let text = format!(
        "Server returned non-2xx status code: {status}: <?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>"
    );
    let (path, source) = ("a".to_owned(), text.into());
    match status {
        403 => object_store::Error::PermissionDenied { path, source },
        404 => object_store::Error::NotFound { path, source },
        _ => object_store::Error::Generic { store: "S3", source },
    }
}

#[test]
fn error_codes_get_their_next_step() {
    use RemoteErrorKind::{
        Forbidden, NoBucket, NotFound, Refused, Skewed, Throttled, Unavailable, Unsupported,
    };
    for (status, code, kind, step) in [
        (403, "RequestTimeTooSkewed", Skewed, "set the clock of this machine"),
        (403, "AccessDenied", Forbidden, "permissions on the store"),
        (403, "InvalidAccessKeyId", Refused, "check the credentials"),
        (403, "SignatureDoesNotMatch", Refused, "check the credentials"),
        (400, "ExpiredToken", Refused, "check the credentials"),
        (403, "AnotherCode", Refused, "check the credentials"),
        (404, "NoSuchBucket", NoBucket, "create the bucket"),
        (404, "NoSuchKey", NotFound, "levada storage remote check"),
        (503, "SlowDown", Throttled, "copy.max.bytes.per.second"),
        (503, "InternalError", Unavailable, "check that the store is reachable"),
        (501, "NotImplemented", Unsupported, "docs/operating/tiered-storage.md"),
    ] {
        let error = remote_error("cannot write a".to_owned(), &response(status, code));
        assert_eq!(error.kind, kind, "{code}");
        let text = error.to_string();
        assert!(text.contains(code) && text.contains(step), "{text}");
    }
}

#[test]
fn documents_are_reduced_to_code_and_message() {
    let text = "Generic S3 error: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
        <Message>The signature does not match.</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
    let line = cause(text);
    assert_eq!(line, "Generic S3 error: 403 Forbidden: SignatureDoesNotMatch The signature does not match.");
    assert!(!line.contains("AKIA"));
}

#[test]
fn long_causes_are_cut_between_characters() {
    assert_eq!(cause(&"ä".repeat(400)), "ä".repeat(150));
    assert_eq!(cause("two\n lines"), "two lines");
}

#[test]
fn error_causes_omit_requests() {
    let text = "Generic S3 error: Error performing PUT http://host/logs/a-b in 2.1s, after 1 retries, \
        max_retries: 4, retry_timeout: 2s  - HTTP error: the store did not respond in time";
    assert_eq!(cause(text), "HTTP error: the store did not respond in time");
    assert_eq!(cause("Generic S3 error: a - b"), "Generic S3 error: a - b");
}
