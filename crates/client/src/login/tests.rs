//! Tokens: where they come from, and that errors keep them.

use super::*;

#[test]
fn oauth_token_comes_from_file_or_environment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "ab.c-d_e.f\n").unwrap();
    let url = format!("file:{}", path.display());
    let check = |url: Option<&str>, given: Option<&str>, expected: Result<&str, &str>| {
        let value = |key: &str| url.filter(|_| key == "sasl.oauthbearer.token.endpoint.url");
        match (token(value, given.map(str::to_owned)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => {
                assert!(error.contains(expected) && !error.contains("planted"), "{error}");
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    };
    check(Some(&url), None, Ok("ab.c-d_e.f"));
    check(Some(&url.replace("file:", "file://")), Some("other"), Ok("ab.c-d_e.f"));
    check(None, Some(" other "), Ok("other"));
    check(Some(""), Some("other"), Ok("other"));
    check(None, None, Err("needs a token"));
    check(Some("https://localhost/token"), Some("other"), Err("requests no token"));
    check(Some("file:/nowhere"), None, Err("cannot read /nowhere"));
    check(None, Some("planted\u{1}auth=x"), Err("is not valid"));
    check(None, Some(" "), Err("is not valid"));
}
