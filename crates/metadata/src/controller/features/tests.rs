//! Levels that may be asked for, and those that may not.

use super::*;
use crate::image::{Position, Replay};

/// An image with these levels.
fn image(levels: &[(&str, i16)]) -> Image {
    let mut image = Image::empty();
    for (name, level) in levels {
        let record = FeatureLevelRecord { name: (*name).to_owned(), feature_level: *level };
        image.apply(&record.into(), Position::default()).unwrap();
    }
    image
}

fn update(name: &str, level: i16, upgrade_type: i8) -> FeatureUpdate {
    FeatureUpdate { name: name.to_owned(), level, upgrade_type }
}

#[test]
fn feature_levels_change_with_kafka_error_messages() {
    let image = image(&[(METADATA_VERSION, 25), ("group.version", 1), ("transaction.version", 2)]);
    let check = |one: FeatureUpdate, expected: Result<(), &str>| {
        let decided = update_features(&image, (1, 2), std::slice::from_ref(&one));
        match (decided, expected) {
            (Ok(decision), Ok(())) => {
                let record = FeatureLevelRecord { name: one.name, feature_level: one.level };
                assert_eq!(decision.records, [record.into()]);
            }
            (Err(refusal), Err(words)) => {
                assert_eq!(refusal.reason, Reason::InvalidUpdateVersion);
                let text = refusal.message.unwrap();
                assert!(text.ends_with(words), "{text}");
            }
            (decided, expected) => panic!("{one:?}: {decided:?}, not {expected:?}"),
        }
    };
    check(update("group.version", 0, SAFE_DOWNGRADE), Ok(()));
    check(update("group.version", 1, UPGRADE), Ok(()));
    check(update("transaction.version", 1, UNSAFE_DOWNGRADE), Ok(()));
    check(update(METADATA_VERSION, 30, UPGRADE), Ok(()));
    // Between 4.0-IV3 and 4.0-IV1 no record was added.
    check(update(METADATA_VERSION, 23, SAFE_DOWNGRADE), Ok(()));
    check(
        update("group.version", 0, UPGRADE),
        Err(
            "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature \
             without setting the upgrade type to either safe or unsafe downgrade.",
        ),
    );
    check(update("share.version", 1, SAFE_DOWNGRADE), Err("Can't downgrade to a newer version."));
    // Dead letters need no level of the metadata, as in Kafka.
    check(update("share.version", 2, UPGRADE), Ok(()));
    check(update("share.version", 3, UPGRADE), Err("only supports versions 0-2"));
    check(update("group.version", 2, UPGRADE), Err("Local controller 1 only supports versions 0-1"));
    check(update("nonsense", 1, UPGRADE), Err("Local controller 1 does not support this feature."));
    check(update(KRAFT_VERSION, 0, SAFE_DOWNGRADE), Err("Can't downgrade the version of this feature."));
    check(update("group.version", -1, UPGRADE), Err("A feature version cannot be less than 0."));
    check(update("group.version", 1, 0), Err("The controller does not support the given upgrade type."));
    check(update(METADATA_VERSION, 6, SAFE_DOWNGRADE), Err("only supports versions 7-33"));
    check(
        update(METADATA_VERSION, 22, SAFE_DOWNGRADE),
        Err("Unsupported metadata.version downgrade from 25 to 22. Refusing to perform the requested \
             downgrade because it might delete metadata information."),
    );
    check(
        update(METADATA_VERSION, 7, UNSAFE_DOWNGRADE),
        Err("from 25 to 7. Unsafe metadata downgrade is not supported in this version."),
    );
}

#[test]
fn feature_requires_its_metadata_version() {
    let image = image(&[(METADATA_VERSION, 22)]);
    let name = "eligible.leader.replicas.version";
    let refused = update_features(&image, (1, 2), &[update(name, 1, UPGRADE)]).unwrap_err();
    assert!(refused.message.unwrap().ends_with("because it depends on metadata.version level 23"));
    let both = [update(METADATA_VERSION, 30, UPGRADE), update(name, 1, UPGRADE)];
    assert_eq!(update_features(&image, (1, 2), &both).unwrap().records.len(), 3);
}

#[test]
fn eligible_leaders_upgrade_sets_one_min_insync_replicas() {
    let set = |image: &mut Image, broker: &str, value: &str| {
        let record = config(broker, Some(value));
        image.apply(&record, Position::default()).unwrap();
    };
    let update = [update(ELIGIBLE_LEADERS_VERSION, 1, UPGRADE)];
    let level = FeatureLevelRecord { name: ELIGIBLE_LEADERS_VERSION.to_owned(), feature_level: 1 };
    let level = Record::from(level);
    let mut image = image(&[(METADATA_VERSION, 30)]);
    let decided = |image: &Image| update_features(image, (1, 2), &update).unwrap().records;
    assert_eq!(decided(&image), [config("", Some("2")), level.clone()]);
    set(&mut image, "1", "3");
    assert_eq!(decided(&image), [config("", Some("2")), config("1", None), level.clone()]);
    set(&mut image, "", "1");
    assert_eq!(decided(&image), [config("1", None), level]);
}

/// `min.insync.replicas` of a broker, or of all.
fn config(broker: &str, value: Option<&str>) -> Record {
    let record = ConfigRecord {
        resource_type: ResourceKind::Broker.id(),
        resource_name: broker.to_owned(),
        name: "min.insync.replicas".to_owned(),
        value: value.map(str::to_owned),
    };
    record.into()
}

#[test]
fn one_invalid_update_rejects_the_request() {
    let image = image(&[(METADATA_VERSION, 30)]);
    let updates = [update("group.version", 1, UPGRADE), update("group.version", 9, UPGRADE)];
    assert!(update_features(&image, (1, 2), &updates).is_err());
}

#[test]
fn unchanged_kraft_version_update_is_accepted() {
    let image = image(&[(METADATA_VERSION, 30)]);
    let raised = [update(KRAFT_VERSION, 1, UPGRADE)];
    assert!(update_features(&image, (1, 2), &raised).is_err(), "a level of 0 stays");
    let mut replay = Replay::new(image);
    replay.set_kraft_version(1);
    assert_eq!(update_features(replay.image(), (1, 2), &raised).unwrap().records, []);
}
