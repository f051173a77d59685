//! The listener of another broker at which a visitor logs in.

use levada_config::Sources;
use levada_security::sasl::Mechanism;
use levada_security::scram::ScramMechanism;

use super::*;

const PLAIN: &str = "listener.name.inner.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a=\"b\";";

fn config(flags: &[&str]) -> BrokerConfig {
    let map = "listener.security.protocol.map=OPEN:PLAINTEXT,CERT:SSL,INNER:SASL_PLAINTEXT,OUTER:SASL_SSL";
    BrokerConfig::load(&Sources::flags([map].into_iter().chain(flags.iter().copied())))
        .expect("a configuration")
}

fn login(mechanism: Mechanism) -> SaslLogin {
    SaslLogin::new(mechanism, "alice".to_owned(), "secret".to_owned())
}

#[test]
fn a_login_takes_listeners_with_its_mechanism() {
    let config = config(&[
        "listeners=OPEN://127.0.0.1:1,INNER://127.0.0.1:2,OUTER://127.0.0.1:3",
        "inter.broker.listener.name=OPEN",
        "listener.name.inner.sasl.enabled.mechanisms=PLAIN",
        "listener.name.outer.sasl.enabled.mechanisms=SCRAM-SHA-256",
        PLAIN,
    ]);
    let at = |mechanism: Mechanism, name: &str, protocol: Protocol| {
        rank(&config, Some(&login(mechanism)), name, protocol.id())
    };
    let scram = Mechanism::Scram(ScramMechanism::Sha256);
    assert_eq!(at(Mechanism::Plain, "INNER", Protocol::SaslPlaintext), Some(1));
    assert_eq!(at(scram, "outer", Protocol::SaslSsl), Some(0), "encrypted first");
    assert_eq!(at(scram, "INNER", Protocol::SaslPlaintext), None, "not offered");
    assert_eq!(at(Mechanism::Plain, "OTHER", Protocol::SaslPlaintext), None, "unknown here");
    assert_eq!(at(Mechanism::Plain, "OPEN", Protocol::Plaintext), None, "it would be another principal");
}

#[test]
fn without_a_login_only_open_listeners_count() {
    let flags = ["listeners=OPEN://127.0.0.1:1,CERT://127.0.0.1:2", "inter.broker.listener.name=OPEN"];
    let at = |config: &BrokerConfig, name: &str, protocol: Protocol| rank(config, None, name, protocol.id());
    let open = config(&flags);
    assert_eq!(at(&open, "ANY", Protocol::Plaintext), Some(0));
    assert_eq!(at(&open, "CERT", Protocol::Ssl), Some(1));
    assert_eq!(at(&open, "ANY", Protocol::Ssl), None, "it may require a certificate");
    assert_eq!(at(&open, "ANY", Protocol::SaslSsl), None);
    let closed = config(&[flags[0], flags[1], "ssl.client.auth=required"]);
    assert_eq!(at(&closed, "CERT", Protocol::Ssl), None);
}

#[test]
fn slow_broker_shortens_time_for_later_brokers() {
    let others = Others::default();
    assert_eq!(others.limit(), PATIENCE);
    *others.lost.lock() += Duration::from_secs(1);
    assert_eq!(others.limit(), Duration::from_millis(500));
    *others.lost.lock() += Duration::from_secs(9);
    assert_eq!(others.limit(), HURRY);
}

#[test]
fn console_notice_escapes_reasons() {
    let others = Others::default();
    assert_eq!(others.notice().into_string(), "");
    others.unheard.lock().insert(7, "cannot connect to <b>:9092".to_owned());
    let notice = others.notice().into_string();
    assert!(notice.contains("data-unheard=\"7\"") && notice.contains("&lt;b&gt;:9092"), "{notice}");
    assert!(notice.contains("what only this broker knows"), "{notice}");
}
