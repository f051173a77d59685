//! Tests of the texts of errors.

use super::cause;

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
