//! Tests of subscriptions. Numbers and orders were computed by Kafka's classes.

use levada_base::parse_id;

use super::*;

fn id(text: &str) -> Uuid {
    Uuid::from_bytes(parse_id(text).expect("the text is an id"))
}

fn client() -> Identity<'static> {
    Identity {
        instance_id: id("3JeMHvLYQYe1HHcXZ_CBvw"),
        client_id: Some("orders-1"),
        software: Some(("apache-kafka-java", "4.3.1")),
        source: "[::ffff:10.0.0.9]:40123".parse().expect("the text is an address"),
    }
}

fn subscription(name: &str, patterns: &[(&str, &str)], metrics: &[&str], interval_ms: i32) -> Subscription {
    let patterns = patterns.iter().map(|(name, value)| MatchPattern::new(name, value));
    Subscription {
        name: name.to_owned(),
        metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
        interval_ms,
        patterns: patterns.collect::<Result<_, _>>().expect("the patterns are valid"),
    }
}

#[test]
fn subscription_ids_are_those_of_kafka() {
    let ids = [id("BwcHBwcHBwcHBwcHBwcHBw"), id("3JeMHvLYQYe1HHcXZ_CBvw")];
    let long = [
        "org.apache.kafka.consumer.fetch.manager.",
        "org.apache.kafka.client.topic",
        "org.apache.kafka.producer.",
        "org.apache.kafka.producer.",
    ];
    let table: [(&[&str], [i32; 2]); 4] = [
        (&[], [-725_132_322, -1_774_912_263]),
        (&["*"], [1_012_207_395, -836_204_152]),
        (&long, [-803_653_737, -499_407_277]),
        (&["Aa", "BB", "AaAa", "BBBB", "AaBB"], [1_152_879_836, -1_238_555_351]),
    ];
    for (metrics, expected) in table {
        let all = Subscriptions::new(vec![subscription("one", &[], metrics, 1000)]);
        let requested = all.requested_of(&client());
        let slow = Requested { interval_ms: 300_000, ..requested.clone() };
        let found = [slow.subscription_id(ids[0]), requested.subscription_id(ids[1])];
        assert_eq!(found, expected, "{metrics:?}");
    }
    let many: Vec<String> = (0..40).map(|number| format!("metric.{}.", number * 7919)).collect();
    let requested = Requested { metrics: in_hash_order(&many), interval_ms: 300_000 };
    assert_eq!(requested.subscription_id(ids[0]), -1_847_625_524);
    let first = ["metric.23757.", "metric.47514.", "metric.300922."];
    assert_eq!(requested.metrics[..3], first);
}

#[test]
fn subscriptions_are_in_the_order_of_kafka() {
    let named = (0..14).map(|number| subscription(&format!("sub-{}", number * 31), &[], &[], 1));
    let all = Subscriptions::new(named.collect());
    let names: Vec<&str> = all.all.iter().map(|one| &one.name[4..]).collect();
    let kafka = ["248", "217", "403", "0", "310", "155", "279", "124", "372", "341", "186", "31", "62", "93"];
    assert_eq!(names, kafka);
}

#[test]
fn clients_are_matched_by_whole_attributes() {
    let table: [(&[(&str, &str)], bool); 15] = [
        (&[], true),
        (&[("client_id", "orders-1")], true),
        (&[("client_id", "orders")], false),
        (&[("client_id", "orders-.*")], true),
        (&[("client_id", "payments|orders-1")], true),
        (&[("client_instance_id", "3JeMHvLYQYe1HHcXZ_CBvw")], true),
        (&[("client_software_name", "apache-kafka-java"), ("client_software_version", r"4\..*")], true),
        (&[("client_software_name", "apache-kafka-java"), ("client_software_version", r"3\..*")], false),
        (&[("client_source_address", r"10\.0\.0\.\d+")], true),
        (&[("client_source_address", r"::ffff:10\.0\.0\.9")], false),
        (&[("client_source_port", "40123")], true),
        (&[("client_source_port", "4012")], false),
        // The last one of an attribute counts.
        (&[("client_id", "a"), ("client_id", "orders-1")], true),
        (&[("client_id", "orders-1"), ("client_id", "a")], false),
        (&[("client_id", "")], false),
    ];
    for (patterns, expected) in table {
        let all = Subscriptions::new(vec![subscription("one", patterns, &["a."], 1)]);
        let is_asked = !all.requested_of(&client()).metrics.is_empty();
        assert_eq!(is_asked, expected, "{patterns:?}");
    }
    let unknown = Identity { client_id: None, software: None, ..client() };
    for name in ["client_id", "client_software_name", "client_software_version"] {
        let all = Subscriptions::new(vec![subscription("one", &[(name, ".*")], &["a."], 1)]);
        assert!(all.requested_of(&unknown).metrics.is_empty(), "{name}");
    }
}

#[test]
fn addresses_are_written_as_in_java() {
    let texts = ["127.0.0.1", "::ffff:127.0.0.1", "::1", "fe80::1:2"];
    let written = texts.map(|text| address_text(text.parse().expect("the text is an address")));
    assert_eq!(written, ["127.0.0.1", "127.0.0.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:1:2"]);
}

#[test]
fn matching_subscriptions_add_up() {
    let all = Subscriptions::new(vec![
        subscription("slow", &[], &["a.", "b."], 600_000),
        subscription("other", &[("client_id", "x")], &["*"], 100),
        subscription("quick", &[], &["b.", "c."], 20_000),
    ]);
    let requested = all.requested_of(&client());
    assert_eq!(
        requested,
        Requested { metrics: ["c.", "b.", "a."].map(str::to_owned).into(), interval_ms: 20_000 }
    );
    let requested = all.requested_of(&Identity { client_id: Some("x"), ..client() });
    assert_eq!(requested, Requested { metrics: vec!["*".to_owned()], interval_ms: 100 });
    // Without a match, and with a match that asks for less often than the default.
    let slow = Subscriptions::new(vec![subscription("slow", &[], &["a."], 600_000)]);
    assert_eq!(slow.requested_of(&client()).interval_ms, INTERVAL_MS_DEFAULT);
    assert_eq!(Subscriptions::default().requested_of(&client()).interval_ms, INTERVAL_MS_DEFAULT);
}

#[test]
fn unusable_patterns_are_refused_with_a_reason() {
    let table = [
        ("client", "a", "client is not an attribute of a client"),
        ("client_id", "(?!a)b", "look-around, including look-ahead and look-behind, is not supported"),
        ("client_id", r"(a)\1", "backreferences are not supported"),
        ("client_id", "(", "unclosed group"),
        ("client_id", "a)|(b", "unopened group"),
    ];
    for (name, value, expected) in table {
        let refused = MatchPattern::new(name, value).expect_err("the pattern cannot be used");
        assert_eq!(refused.to_string(), expected);
    }
    let large = MatchPattern::new("client_id", r"((\w{100}){100}){100}").expect_err("it is too large");
    assert!(large.to_string().contains("size limit"), "{large}");
}
