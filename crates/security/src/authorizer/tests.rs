//! Decisions, as those of Kafka's `StandardAuthorizer` in its own tests.

use super::*;
use crate::acl::tests::index;

fn session(user: &str) -> Session {
    Session::new(user, [10, 0, 0, 1].into())
}

fn allows(
    config: &AuthorizerConfig,
    texts: &[&str],
    who: &str,
    wanted: (Operation, ResourceType, &str),
) -> bool {
    config.decide(&index(texts), &session(who), wanted).allows()
}

#[test]
fn acl_ipv6_host_is_compared_as_address() {
    let deny = |host: &str, from: &str| {
        let texts = ["TOPIC:LITERAL:a ALLOW READ", &format!("TOPIC:LITERAL:a DENY READ User:alice {host}")];
        let session = Session::new("alice", from.parse().unwrap());
        let wanted = (Operation::Read, ResourceType::Topic, "a");
        !AuthorizerConfig::default().decide(&index(&texts), &session, wanted).allows()
    };
    for host in ["::1", "0:0:0:0:0:0:0:1", "0000::0001"] {
        assert!(deny(host, "::1"), "{host}");
        assert!(!deny(host, "::2"), "{host}");
    }
    assert!(deny("FE80:0:0:0:0:0:0:1%eth0", "fe80::1"));
    assert!(deny("fe80::/10", "fe80::1") && !deny("fe80::/10", "10.0.0.1"));
    assert!(deny("10.0.0.0/8", "::ffff:10.9.9.9") && !deny("10.0.0.0/8", "11.0.0.1"));
    assert!(!deny("10.0.0.0/x", "10.0.0.1"));
    assert!(deny("::ffff:10.0.0.1", "10.0.0.1") && deny("10.0.0.1", "::ffff:10.0.0.1"));
    assert!(!deny("10.0.0.1", "10.0.0.2") && !deny("::", "10.0.0.1"));
}

#[test]
fn authorizer_applies_allow_and_deny_entries() {
    use Operation::{Alter, AlterConfigs, Create, Delete, Describe, DescribeConfigs, Read, Write};
    let check = |texts: &[&str], operation: Operation, name: &str, expected: bool| {
        let found =
            allows(&AuthorizerConfig::default(), texts, "alice", (operation, ResourceType::Topic, name));
        assert_eq!(found, expected, "{texts:?} {operation} {name}");
    };
    check(&[], Read, "a", false);
    check(&["TOPIC:LITERAL:a ALLOW READ User:alice"], Read, "a", true);
    check(&["TOPIC:LITERAL:a ALLOW READ User:alice"], Read, "ab", false);
    check(&["TOPIC:LITERAL:a ALLOW READ User:bob"], Read, "a", false);
    check(&["TOPIC:LITERAL:a ALLOW READ Group:alice"], Read, "a", false);
    check(&["GROUP:LITERAL:a ALLOW READ User:alice"], Read, "a", false);
    check(&["TOPIC:PREFIXED:a ALLOW READ User:alice"], Read, "ab", true);
    check(&["TOPIC:LITERAL:* ALLOW READ"], Read, "ab", true);
    check(&["TOPIC:LITERAL:a ALLOW READ User:alice 10.0.0.1"], Read, "a", true);
    check(&["TOPIC:LITERAL:a ALLOW READ User:alice 10.0.0.2"], Read, "a", false);
    check(&["TOPIC:LITERAL:a ALLOW ALL User:alice"], AlterConfigs, "a", true);
    // Implied, by what allows only.
    for operation in ["READ", "WRITE", "DELETE", "ALTER", "DESCRIBE"] {
        check(&[&format!("TOPIC:LITERAL:a ALLOW {operation}")], Describe, "a", true);
        check(&[&format!("TOPIC:LITERAL:a ALLOW {operation}")], DescribeConfigs, "a", false);
    }
    for operation in ["CREATE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"] {
        check(&[&format!("TOPIC:LITERAL:a ALLOW {operation}")], Describe, "a", false);
    }
    check(&["TOPIC:LITERAL:a ALLOW ALTER_CONFIGS"], DescribeConfigs, "a", true);
    check(&["TOPIC:LITERAL:a ALLOW DESCRIBE", "TOPIC:LITERAL:a DENY READ"], Describe, "a", true);
    // An entry that denies wins, wherever it stands.
    let all = "TOPIC:LITERAL:* ALLOW ALL";
    for deny in
        ["TOPIC:LITERAL:a DENY READ", "TOPIC:PREFIXED:a DENY ALL", "TOPIC:LITERAL:* DENY READ User:alice"]
    {
        check(&[all, deny], Read, "a", false);
    }
    check(&[all, "TOPIC:LITERAL:a DENY READ User:bob"], Read, "a", true);
    for operation in [Read, Write, Create, Delete, Alter, Describe] {
        check(&[all, "TOPIC:LITERAL:a DENY READ"], operation, "b", true);
    }
}

#[test]
fn allow_if_no_acl_applies_only_without_entries() {
    let config = AuthorizerConfig { allow_if_no_acl: true, ..AuthorizerConfig::default() };
    let topic = |name| (Operation::Read, ResourceType::Topic, name);
    let texts = ["TOPIC:LITERAL:a ALLOW READ User:bob", "TOPIC:PREFIXED:p ALLOW WRITE User:bob"];
    for (name, expected) in [("a", false), ("b", true), ("pa", false)] {
        assert_eq!(allows(&config, &texts, "alice", topic(name)), expected, "{name}");
    }
    assert!(!allows(&config, &["TOPIC:LITERAL:* ALLOW READ User:bob"], "alice", topic("b")));
}

#[test]
fn super_user_overrides_deny_entries() {
    let super_users = BTreeSet::from(["User:root".to_owned()]);
    let config = AuthorizerConfig { super_users, allow_if_no_acl: false };
    let wanted = (Operation::Read, ResourceType::Topic, "a");
    let deny = index(&["TOPIC:LITERAL:a DENY ALL"]);
    assert_eq!(config.decide(&deny, &session("root"), wanted), Rule::SuperUser);
    assert!(!config.decide(&deny, &session("alice"), wanted).allows());
    assert!(config.allows_some(&deny, &session("root"), (Operation::Write, ResourceType::Topic)));
}

#[test]
fn write_access_to_any_topic_is_found() {
    let check = |texts: &[&str], expected: bool| {
        let wanted = (Operation::Write, ResourceType::Topic);
        let found = AuthorizerConfig::default().allows_some(&index(texts), &session("alice"), wanted);
        assert_eq!(found, expected, "{texts:?}");
    };
    check(&[], false);
    check(&["TOPIC:LITERAL:a ALLOW WRITE"], true);
    check(&["TOPIC:LITERAL:a ALLOW ALL"], true);
    check(&["TOPIC:LITERAL:a ALLOW READ"], false);
    check(&["GROUP:LITERAL:a ALLOW WRITE"], false);
    check(&["TOPIC:LITERAL:a ALLOW WRITE User:bob"], false);
    check(&["TOPIC:LITERAL:a ALLOW WRITE", "TOPIC:LITERAL:a DENY WRITE"], false);
    check(&["TOPIC:LITERAL:a ALLOW WRITE", "TOPIC:LITERAL:b DENY WRITE"], true);
    check(&["TOPIC:PREFIXED:ab ALLOW WRITE", "TOPIC:PREFIXED:a DENY WRITE"], false);
    check(&["TOPIC:PREFIXED:a ALLOW WRITE", "TOPIC:PREFIXED:ab DENY WRITE"], true);
    check(&["TOPIC:PREFIXED:a ALLOW WRITE", "TOPIC:LITERAL:a DENY WRITE"], true);
    check(&["TOPIC:LITERAL:ab ALLOW WRITE", "TOPIC:PREFIXED:a DENY WRITE"], false);
    check(&["TOPIC:LITERAL:* ALLOW WRITE", "TOPIC:LITERAL:a DENY WRITE"], true);
    check(&["TOPIC:LITERAL:* ALLOW WRITE", "TOPIC:LITERAL:* DENY WRITE"], false);
}
