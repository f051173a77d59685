//! Tests of the door of the console.

use levada_config::Sources;

use super::*;

#[test]
fn console_is_closed_when_all_listeners_need_certificates() {
    let closed = |flags: &[&str]| {
        let common = ["listener.security.protocol.map=A:SSL,B:PLAINTEXT,C:SSL,D:SASL_SSL"];
        let flags = common.iter().chain(flags).copied();
        is_closed(&BrokerConfig::load(&Sources::flags(flags)).expect("a configuration"))
    };
    let (one, required) = ("listeners=A://127.0.0.1:1", "ssl.client.auth=required");
    let inside = "inter.broker.listener.name=A";
    assert!(closed(&[one, inside, required]));
    assert!(closed(&["listeners=A://127.0.0.1:1,C://127.0.0.1:2", inside, required]));
    assert!(!closed(&[one, inside]), "TLS alone asks for no certificate");
    assert!(!closed(&[one, inside, "ssl.client.auth=requested"]));
    assert!(!closed(&[one, inside, required, "levada.http.token=s3cret"]));
    assert!(!closed(&["listeners=A://127.0.0.1:1,B://127.0.0.1:2", inside, required]), "B admits anybody");
    let other = "listener.name.c.ssl.client.auth=none";
    assert!(!closed(&["listeners=A://127.0.0.1:1,C://127.0.0.1:2", inside, required, other]));
    let plain = "listener.name.d.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a=\"b\";";
    let both = "listeners=A://127.0.0.1:1,D://127.0.0.1:2";
    assert!(!closed(&[both, inside, required, "sasl.enabled.mechanisms=PLAIN", plain]), "users log in");
    assert!(!is_closed(&BrokerConfig::default()));
}
