//! Tests of the names of client properties.

use super::*;

#[test]
fn misspelt_login_property_is_refused() {
    fn check(key: &str, meant: &str) {
        let error = check_names("client.properties", ["bootstrap.servers", key].into_iter()).unwrap_err();
        let expected = format!("client.properties: unknown client property {key}; did you mean {meant}?");
        assert_eq!(error, expected);
    }
    check("secruity.protocol", "security.protocol");
    check("security_protocol", "security.protocol");
    check("Security.Protocol", "security.protocol");
    check("sasl.mechanisms", "sasl.mechanism");
    check("sasl.jaas.conf", "sasl.jaas.config");
    check("ssl.trustore.location", "ssl.truststore.location");
    check("sasl.oauthbearer.token.endpint.url", "sasl.oauthbearer.token.endpoint.url");
}

#[test]
fn unused_property_warns_unless_kafkas_admin_knows() {
    let warning = |keys: &[&str]| check_names("f", keys.iter().copied()).unwrap();
    assert_eq!(warning(&["security.protocol", "ssl.protocol", "request.timeout.ms"]), None);
    let expected = "f: without effect: ssl.keystore.chain (the nearest is ssl.keystore.key), group.id; \
                    levada reads security.protocol, sasl.*, ssl.*, basic.auth.* and schema.registry.*";
    assert_eq!(warning(&["ssl.keystore.chain", "group.id"]).as_deref(), Some(expected));
}

#[test]
fn valid_kafka_properties_get_no_warning() {
    for key in OMITTED {
        assert_eq!(Name::of(key), Name::Omitted, "{key}");
    }
}
