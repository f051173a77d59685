//! Tests of the settings of a registry.

use super::*;

fn settings(pairs: &'static [(&str, &str)]) -> Result<Option<RegistrySettings>, String> {
    let value = move |key: &str| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    RegistrySettings::of("profile p", value).map_err(|error| error.to_string())
}

fn authorization(pairs: &'static [(&str, &str)]) -> Option<String> {
    settings(pairs).unwrap().unwrap().authorization
}

#[test]
fn registry_is_off_without_url() {
    for pairs in [&[][..], &[(URL, "")], &[(URL, " , ")]] {
        let value = move |key: &str| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        assert!(RegistrySettings::of("", value).unwrap().is_none());
    }
}

#[test]
fn urls_lose_slash_and_login() {
    let found = settings(&[(URL, "http://u:p%40@a:1/api/, http://b")]).unwrap().unwrap();
    assert_eq!(found.urls, ["http://a:1/api", "http://b"]);
    assert_eq!(found.authorization.as_deref(), Some("Basic dTpwQA=="));
    assert!(found.tls.is_none());
}

#[test]
fn login_is_of_the_source() {
    let both = &[(URL, "http://u:p@a"), ("basic.auth.user.info", "v:q")];
    assert_eq!(authorization(both).as_deref(), Some("Basic djpx"));
    let url =
        &[(URL, "http://u:p@a"), ("basic.auth.user.info", "v:q"), ("basic.auth.credentials.source", "URL")];
    assert_eq!(authorization(url).as_deref(), Some("Basic dTpw"));
    let own = &[
        (URL, "http://a"),
        ("schema.registry.basic.auth.user.info", "v:q"),
        ("basic.auth.credentials.source", "USER_INFO"),
    ];
    assert_eq!(authorization(own).as_deref(), Some("Basic djpx"));
    assert_eq!(authorization(&[(URL, "http://a")]), None);
}

#[test]
fn wrong_settings_are_named() {
    fn check(pairs: &'static [(&str, &str)], expected: &str) {
        match settings(pairs) {
            Err(error) => assert_eq!(error, format!("profile p: {expected}")),
            Ok(_) => panic!("{pairs:?}"),
        }
    }
    check(&[(URL, "localhost:8081")], "schema.registry.url: must be http://HOST:PORT or https://HOST:PORT");
    check(&[(URL, "ftp://a")], "schema.registry.url: must be http://HOST:PORT or https://HOST:PORT");
    check(&[(URL, "http://")], "schema.registry.url: must be http://HOST:PORT or https://HOST:PORT");
    check(
        &[(URL, "http://a"), ("basic.auth.credentials.source", "SASL_INHERIT")],
        "basic.auth.credentials.source: must be URL or USER_INFO",
    );
    check(
        &[(URL, "http://a"), ("basic.auth.credentials.source", "USER_INFO")],
        "basic.auth.user.info: is not set; expected USER:PASSWORD",
    );
    check(
        &[(URL, "http://a"), ("basic.auth.user.info", "s3cret")],
        "basic.auth.user.info: must be USER:PASSWORD",
    );
    check(
        &[(URL, "https://a"), ("schema.registry.ssl.endpoint.identification.algorithm", "")],
        "schema.registry.ssl.endpoint.identification.algorithm: must be https",
    );
}
