//! Tests of the page after the login.

use super::*;

#[test]
fn login_redirect_never_leads_to_another_host() {
    for within in ["/", "/topics", "/group?id=a%2Fb", "/topics/t/messages?value=//x"] {
        assert_eq!(inside(within), within);
    }
    for elsewhere in [
        "",
        "topics",
        "//evil.test",
        "/\\evil.test",
        "http://evil.test",
        "/\t/evil.test",
        "/\r\n/evil.test",
        "/\0",
    ] {
        assert_eq!(inside(elsewhere), "/", "{elsewhere:?}");
    }
}
