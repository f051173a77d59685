//! Tests of the file of credentials.

use super::of_profile;

const FILE: &str = "[default]\naws_access_key_id = one\naws_secret_access_key=first\n\n\
    # a comment\n[ other ]\naws_secret_access_key = second\naws_access_key_id = two\naws_session_token = t=1\n\
    [half]\naws_access_key_id = three\n";

#[test]
fn profiles_are_separate() {
    let default = of_profile(FILE, "default").unwrap();
    assert_eq!((&*default.access_key_id, &*default.secret_access_key), ("one", "first"));
    assert!(default.session_token.is_none());
    let other = of_profile(FILE, "other").unwrap();
    assert_eq!((&*other.access_key_id, &*other.secret_access_key), ("two", "second"));
    assert_eq!(other.session_token.as_deref(), Some("t=1"));
}

#[test]
fn incomplete_profiles_have_no_credentials() {
    assert!(of_profile(FILE, "half").is_none());
    assert!(of_profile(FILE, "missing").is_none());
}
