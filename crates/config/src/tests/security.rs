//! SASL and access control as configured.

use std::collections::BTreeSet;

use levada_security::sasl::Mechanism;
use levada_security::scram;

use crate::{BrokerConfig, Sources};

const JAAS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"s3cret\";";

fn load(flags: &[&str]) -> Result<BrokerConfig, String> {
    BrokerConfig::load(&Sources::flags(flags.iter().copied())).map_err(|errors| errors.to_string())
}

#[test]
fn each_listener_has_its_own_sasl() {
    let jaas = format!("listener.name.own.plain.sasl.jaas.config={JAAS}");
    let config = load(&[
        "listeners=PLAINTEXT://:0,OWN://:0,SASL_PLAINTEXT://:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OWN:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256",
        "listener.name.own.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        &jaas,
        "connections.max.reauth.ms=1000",
        "listener.name.own.connections.max.reauth.ms=2000",
        "listener.name.own.plain.connections.max.reauth.ms=3000",
    ]);
    let sasl = config.unwrap().security.sasl;
    let offers = |listener: &str| {
        let offers = sasl[listener].offers.iter();
        offers.map(|offer| (offer.mechanism, offer.session_ms_max.unwrap())).collect::<Vec<_>>()
    };
    let (short, long) =
        (Mechanism::Scram(scram::ScramMechanism::Sha256), Mechanism::Scram(scram::ScramMechanism::Sha512));
    assert_eq!(offers("OWN"), [(Mechanism::Plain, 3000), (short, 2000)]);
    assert_eq!(offers("SASL_PLAINTEXT"), [(long, 1000), (short, 1000)]);
    assert_eq!(sasl["OWN"].passwords["alice"], "s3cret");
    assert_eq!(sasl.len(), 2);
}

#[test]
fn listener_value_error_names_the_written_key() {
    fn check(key: &str, value: &str, others: &[&str]) {
        let flags = [
            "listeners=INSIDE://:0",
            "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT",
            "inter.broker.listener.name=INSIDE",
            &format!("{key}={value}"),
        ];
        let error = load(&[&flags[..], others].concat()).unwrap_err();
        let error =
            error.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {error}"));
        assert!(error.contains("(flag -o)"), "{error}");
    }
    let tokens = ["sasl.enabled.mechanisms=OAUTHBEARER"];
    let url = "http://login.example:8080/certs";
    for prefix in ["listener.name.inside.oauthbearer.", "listener.name.INSIDE.", ""] {
        check(&format!("{prefix}sasl.oauthbearer.jwks.endpoint.url"), url, &tokens);
    }
    check("listener.name.Inside.sasl.enabled.mechanisms", "GSSAPI", &[]);
    check("listener.name.INSIDE.max.connections", "many", &["sasl.enabled.mechanisms=SCRAM-SHA-512"]);
    check("listener.name.INSIDE.principal.builder.class", "a.B", &["sasl.enabled.mechanisms=SCRAM-SHA-512"]);
}

#[test]
fn jwks_url_must_be_https_loopback_or_file() {
    let check = |url: &str, taken: bool| {
        let url = format!("sasl.oauthbearer.jwks.endpoint.url={url}");
        let loaded = load(&[
            "listeners=SASL_PLAINTEXT://:0",
            "sasl.enabled.mechanisms=OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.audience=a, b",
            &url,
        ]);
        match loaded {
            Ok(config) => {
                assert!(taken, "{url}");
                let tokens = &config.security.sasl["SASL_PLAINTEXT"].tokens;
                assert_eq!((tokens.clock_skew_ms, &*tokens.sub_claim), (30_000, "sub"));
                assert_eq!(tokens.audiences, ["a", "b"]);
            }
            Err(error) => assert!(!taken && error.contains("must be a URL with the keys"), "{error}"),
        }
    };
    for url in [
        "file:/etc/jwks.json",
        "https://idp/keys",
        "http://127.0.0.1:8080/keys",
        "http://localhost/keys",
        "http://[::1]:80/",
    ] {
        check(url, true);
    }
    for url in [
        "",
        "/etc/jwks.json",
        "http://10.0.0.1/keys",
        "http://localhost.example/keys",
        "http://127.0.0.1:80@evil.example/",
        "https://a@b/",
        "https:///keys",
    ] {
        check(url, false);
    }
}

#[test]
fn access_control_is_off_unless_it_is_named() {
    assert_eq!(load(&[]).unwrap().security.authorizer, None);
    assert_eq!(load(&["super.users=User:a"]).unwrap().security.authorizer, None);
    let class = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let config = load(&[class, "super.users= User:CN=a,O=b ;User:c;", "allow.everyone.if.no.acl.found=true"]);
    let authorizer = config.unwrap().security.authorizer.unwrap();
    assert_eq!(authorizer.super_users, BTreeSet::from(["User:CN=a,O=b", "User:c"].map(str::to_owned)));
    assert!(authorizer.allow_if_no_acl);
}

#[test]
fn security_setting_errors_hide_passwords() {
    let check = |flags: &[&str], expected: &str| {
        let flags = [&["listeners=SASL_PLAINTEXT://:0"], flags].concat();
        let errors = load(&flags).unwrap_err();
        assert!(errors.contains(expected), "{errors}");
        assert!(!errors.contains("s3cret"), "{errors}");
    };
    check(
        &[],
        "sasl.enabled.mechanisms=GSSAPI (default): must be a list of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    );
    check(&["sasl.enabled.mechanisms="], "sasl.enabled.mechanisms= (flag -o): must be a list of PLAIN");
    let key = "listener.name.sasl_plaintext.plain.sasl.jaas.config";
    check(&["sasl.enabled.mechanisms=PLAIN"], &format!("{key}=(hidden) (default): must be set, such as"));
    let jaas = format!("{key}=a.B required user_alice=s3cret");
    check(&["sasl.enabled.mechanisms=PLAIN", &jaas], &format!("{key}=(hidden) (flag -o): must be like"));
    let jaas = format!("{key}=a.B required user_alice=s3cret;");
    check(&["sasl.enabled.mechanisms=PLAIN", &jaas], "no other login module is served");
    let class = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    check(
        &["sasl.enabled.mechanisms=SCRAM-SHA-256", class, "super.users=alice"],
        "super.users=alice (flag -o): must be principals",
    );
}

#[test]
fn config_key_errors_hide_text_after_the_name() {
    let check = |flag: &str, expected: &str| {
        let error = load(&[flag]).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("s3cret"), "{error}");
    };
    check("ssl.key.password:s3cret", "flag -o \"ssl.key.password…\": expected key=value");
    check("ssl.key.password s3cret", "flag -o \"ssl.key.password…\"");
    check("ssl.key.pasword=s3cret", "unknown key ssl.key.pasword (flag -o): did you mean ssl.key.password?");
    check("ssl.key.password s3cret=1", "unknown key ssl.key.password… (flag -o)");
    let line = format!("MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7s3cret{}=", "x".repeat(20));
    check(&line, "unknown key (hidden) (flag -o)");
    check("MIIE/s3cret=", "unknown key (hidden) (flag -o)");
}

#[test]
fn debug_output_of_configuration_hides_secrets() {
    let config = load(&[
        "listeners=PLAINTEXT://:0,OWN://:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OWN:SASL_PLAINTEXT",
        "listener.name.own.sasl.enabled.mechanisms=PLAIN,OAUTHBEARER",
        &format!("listener.name.own.plain.sasl.jaas.config={JAAS}"),
        "listener.name.own.oauthbearer.sasl.jaas.config=Login required ssl.truststore.password=\"s3cret\";",
        "sasl.oauthbearer.jwks.endpoint.url=https://idp/keys",
        "ssl.keystore.password=s3cret",
        "ssl.truststore.password=s3cret",
        "ssl.keystore.key=s3cret",
        "listener.name.own.ssl.key.password=s3cret",
        "levada.http.token=s3cret",
    ]);
    let dump = format!("{config:#?}");
    assert!(dump.contains("listener.name.own.ssl.key.password"), "{dump}");
    let line = dump.lines().find(|line| line.contains("s3cret"));
    assert_eq!(line, None);
}
