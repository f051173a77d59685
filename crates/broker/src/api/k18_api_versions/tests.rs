//! Names and versions that KIP-511 lets clients give, and the features that clients are told.

use levada_metadata::image::{Image, Position, Replay};
use levada_metadata::records::FeatureLevelRecord;

use super::{SHOWN_FEATURES, finalized, is_software_name, supported};

#[test]
fn kraft_version_is_finalized_in_dynamic_quorum() {
    let mut replay = Replay::new(Image::empty());
    let record = FeatureLevelRecord { name: "eligible.leader.replicas.version".to_owned(), feature_level: 1 };
    replay.push(record.into(), Position::default()).unwrap();
    for (kraft_version, is_remote, expected) in [
        (0, false, &[][..]),
        (1, false, &["kraft.version"][..]),
        (0, true, &["eligible.leader.replicas.version"][..]),
        (1, true, &["eligible.leader.replicas.version", "kraft.version"][..]),
    ] {
        replay.set_kraft_version(kraft_version);
        let features = finalized(replay.image(), is_remote);
        let names: Vec<_> = features.iter().map(|feature| feature.name.as_str()).collect();
        assert_eq!(names, expected, "level {kraft_version}, in a cluster: {is_remote}");
        assert!(features.iter().all(|one| (one.min_version_level, one.max_version_level) == (1, 1)));
    }
}

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
