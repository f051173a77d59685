//! Tests of the page after the login.

use super::*;

#[test]
fn a_login_leads_to_no_other_host_by_a_tab_in_its_link() {
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
