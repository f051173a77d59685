//! Names and versions that KIP-511 lets clients give.

use super::is_software_name;

#[test]
fn software_names_are_those_of_kip_511() {
    for (name, allowed) in [
        ("apache-kafka-java", true),
        ("librdkafka", true),
        ("4.3.1", true),
        ("a", true),
        ("v2.0.2-gitea", true),
        ("", false),
        ("-kafka", false),
        ("kafka.", false),
        ("ka fka", false),
        ("kafka_x", false),
        ("käfka", false),
    ] {
        assert_eq!(is_software_name(name), allowed, "{name:?}");
    }
}
