//! Names and versions that KIP-511 lets clients give, and the features that clients are told.

use super::{SHOWN_FEATURES, is_software_name, supported};

#[test]
fn api_versions_of_cluster_broker_lists_registered_features() {
    let ranges = |is_remote| {
        let of = |feature: levada_metadata::features::Feature| (feature.name, feature.min_version);
        supported(is_remote).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(ranges(true).len(), 7);
    assert!(ranges(true).contains(&("metadata.version", 25)));
    assert_eq!(ranges(false).len(), SHOWN_FEATURES.len());
    assert!(ranges(false).contains(&("metadata.version", 7)));
}

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
