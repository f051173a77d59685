//! Tests of the levels of features.

use levada_wire::messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};

use super::*;

/// The response of a broker that supports these levels, with these ones in force.
fn answer(supported: &[(&str, i16, i16)], epoch: i64, finalized: &[(&str, i16)]) -> ApiVersionsResponse {
    let mut answer = ApiVersionsResponse::default();
    answer.supported_features = supported
        .iter()
        .map(|(name, min, max)| {
            let mut feature = SupportedFeatureKey::default();
            feature.name = StrBytes::from(*name);
            (feature.min_version, feature.max_version) = (*min, *max);
            feature
        })
        .collect();
    answer.finalized_features_epoch = epoch;
    answer.finalized_features = finalized
        .iter()
        .map(|(name, level)| {
            let mut feature = FinalizedFeatureKey::default();
            feature.name = StrBytes::from(*name);
            (feature.min_version_level, feature.max_version_level) = (*level, *level);
            feature
        })
        .collect();
    answer
}

fn row(feature: &str, level: i16, lowest: i16, highest: i16) -> Row {
    let release = release(feature, level);
    Row { feature: feature.to_owned(), level, lowest, highest, release }
}

#[test]
fn levels_are_those_that_all_brokers_support() {
    let one = [("share.version", 0, 2), ("metadata.version", 7, 33), ("new.version", 0, 1)];
    let other = [("share.version", 0, 1), ("metadata.version", 25, 30)];
    let answers = [
        answer(&one, 8, &[("metadata.version", 29)]),
        answer(&other, 9, &[("metadata.version", 30), ("share.version", 1)]),
    ];
    assert_eq!(rows(&answers), [row("metadata.version", 30, 25, 30), row("share.version", 1, 0, 1)]);
}

#[test]
fn upgrade_all_stops_at_controllers_levels() {
    let change = |feature: &str, from, to| LevelChange { feature: feature.to_owned(), from, to };
    // Controllers of Kafka 4.3 with brokers of 4.4.
    let check = |change: &LevelChange| {
        let highest = if change.feature == METADATA_VERSION { 30 } else { 1 };
        let code = if change.to > highest { ErrorCode::InvalidUpdateVersion.code() } else { 0 };
        kafka_error::check(code, "change the levels of features", None)
    };
    let asked = vec![change(METADATA_VERSION, 29, 33), change("share.version", 1, 2)];
    assert_eq!(accepted(asked, check).unwrap(), [change(METADATA_VERSION, 29, 30)]);
    let refused = accepted(vec![change("share.version", 0, 1)], |_| {
        kafka_error::check(
            ErrorCode::ClusterAuthorizationFailed.code(),
            "change the levels of features",
            None,
        )
    });
    assert!(refused.is_err(), "only a level that is too high may be lowered");
}

#[test]
fn upgrades_do_not_lower_levels() {
    let rows = [row("kraft.version", 0, 0, 1), row("share.version", 1, 0, 2), row("group.version", 1, 0, 1)];
    let upgrade = |all, levels: &[(&str, i16)]| {
        let levels = levels.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
        let format = FormatArgs { format: Format::Table };
        let change = Change { dry_run: false, question: question::Args::default(), format };
        Upgrade { levels, all, change }.changes(&rows)
    };
    let raised = [LevelChange { feature: "share.version".to_owned(), from: 1, to: 2 }];
    assert_eq!(upgrade(true, &[]).unwrap(), raised);
    assert_eq!(upgrade(false, &[("share.version", 2)]).unwrap(), raised);
    let lower = upgrade(false, &[("share.version", 0)]).unwrap_err();
    assert!(format!("{lower:?}").contains("downgrade share.version=0"), "{lower:?}");
    let unknown = upgrade(false, &[("shares", 1)]).unwrap_err();
    assert!(format!("{unknown:?}").contains("features describe"), "{unknown:?}");
}

#[test]
fn irreversible_feature_upgrades_are_noted() {
    let note =
        |feature: &str, from, to| LevelChange { feature: feature.to_owned(), from, to }.lasting_effect();
    let ends = "prevents a downgrade to Kafka 4.3";
    assert!(note("share.version", 1, 2).unwrap().contains(ends));
    let metadata = note("metadata.version", 30, 33).unwrap();
    assert!(
        metadata.contains(ends) && metadata.contains("no command lowers metadata.version to 30"),
        "{metadata}"
    );
    assert!(note("metadata.version", 32, 33).unwrap().starts_with("no command lowers"), "already above 4.3");
    assert_eq!(note("share.version", 0, 1), None);
    assert_eq!(note("group.version", 1, 0), None);
    assert_eq!(note("kraft.version", 0, 1), None, "Kafka 4.3 supports it");
    assert_eq!(note("later.version", 0, 9), None, "this version does not know it");
}

#[test]
fn feature_level_argument_is_parsed() {
    assert_eq!(level("share.version=2"), Ok(("share.version".to_owned(), 2)));
    assert_eq!(level("metadata.version=4.3-IV0"), Ok((METADATA_VERSION.to_owned(), 30)));
    assert_eq!(level("metadata.version=4.4"), Ok((METADATA_VERSION.to_owned(), 33)));
    for text in [
        "share.version",
        "=1",
        "share.version=",
        "share.version=-1",
        "share.version=two",
        "share.version=4.3-IV0",
        "metadata.version=9.9-IV0",
    ] {
        assert!(level(text).is_err(), "{text}");
    }
}

#[test]
fn metadata_versions_have_names_of_releases() {
    let change = LevelChange { feature: METADATA_VERSION.to_owned(), from: 29, to: 30 };
    assert_eq!(change.describe(), "metadata.version from 29 (4.2-IV1) to 30 (4.3-IV0)");
    assert_eq!(shown("share.version", 1), "1");
    assert_eq!(shown(METADATA_VERSION, 99), "99", "of a later Kafka");
}
