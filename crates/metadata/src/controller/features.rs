//! Upgrades and downgrades of feature levels, with the error messages of Kafka's controller.

use super::{Decision, Reason, Refusal};
use crate::features::{self, ELIGIBLE_LEADERS_VERSION, FEATURES, KRAFT_VERSION, METADATA_VERSION};
use crate::image::{ConfigResource, Image, ResourceKind};
use crate::records::{ConfigRecord, FeatureLevelRecord, Record};

/// A requested level of a feature.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureUpdate {
    /// Name of the feature.
    pub name: String,
    /// New level; 0 turns the feature off.
    pub level: i16,
    /// Up only, or down as well: the protocol's number.
    pub upgrade_type: i8,
}

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// Sets the levels of features, all of them or none. For "validate only", drop the records.
/// The quorum's own level stays as it is; `min_insync_replicas` is the value before the start.
pub fn update_features(
    image: &Image,
    (node_id, min_insync_replicas): (i32, i32),
    updates: &[FeatureUpdate],
) -> Result<Decision<()>, Refusal> {
    let mut decision = Decision::nothing(());
    if updates.iter().any(|update| update.name == ELIGIBLE_LEADERS_VERSION && update.level > 0) {
        decision.records = one_min_insync_replicas(image, min_insync_replicas);
    }
    for update in updates {
        check(image, node_id, (update, updates))?;
        let FeatureUpdate { name, level, .. } = update.clone();
        if name != KRAFT_VERSION {
            decision.records.push(Record::from(FeatureLevelRecord { name, feature_level: level }));
        }
    }
    Ok(decision)
}

/// If eligible leaders are recorded, `min.insync.replicas` must have the same value on every
/// broker: all of them get one, and single brokers lose theirs.
fn one_min_insync_replicas(image: &Image, value: i32) -> Vec<Record> {
    const KEY: &str = "min.insync.replicas";
    let record = |resource: &ConfigResource, value: Option<String>| {
        let (resource_type, resource_name) = (resource.kind.id(), resource.name.clone());
        Record::from(ConfigRecord { resource_type, resource_name, name: KEY.to_owned(), value })
    };
    let all = ConfigResource::all_brokers();
    let is_set = image.configs(&all).is_some_and(|values| values.contains_key(KEY));
    let of_all = (!is_set).then(|| record(&all, Some(value.to_string())));
    let of_one = image.config_resources().filter(|(resource, values)| {
        resource.kind == ResourceKind::Broker && !resource.name.is_empty() && values.contains_key(KEY)
    });
    of_all.into_iter().chain(of_one.map(|(resource, _)| record(resource, None))).collect()
}

fn check(
    image: &Image,
    node_id: i32,
    (update, all): (&FeatureUpdate, &[FeatureUpdate]),
) -> Result<(), Refusal> {
    let FeatureUpdate { name, level, upgrade_type } = update;
    let refuse = |why: &str| refuse(format!("Invalid update version {level} for feature {name}. {why}"));
    if ![UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE].contains(upgrade_type) {
        return refuse("The controller does not support the given upgrade type.");
    }
    if *level < 0 {
        return refuse("A feature version cannot be less than 0.");
    }
    let Some(feature) = FEATURES.iter().find(|feature| feature.name == name) else {
        return refuse(&format!("Local controller {node_id} does not support this feature."));
    };
    if !(feature.min_version..=feature.max_version).contains(level) {
        let (min, max) = (feature.min_version, feature.max_version);
        return refuse(&format!("Local controller {node_id} only supports versions {min}-{max}"));
    }
    let current = match image.features().get(name) {
        _ if name == KRAFT_VERSION => image.kraft_version(),
        level => level.copied().unwrap_or(0),
    };
    if *level < current && *upgrade_type == UPGRADE {
        return refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or \
             unsafe downgrade.",
        );
    }
    if *level > current && *upgrade_type != UPGRADE {
        return refuse("Can't downgrade to a newer version.");
    }
    if name == KRAFT_VERSION {
        return match (*upgrade_type, *level == current) {
            (UPGRADE, true) => Ok(()),
            (UPGRADE, false) => refuse("The quorum keeps the level that its directory was formatted with."),
            _ => refuse("Can't downgrade the version of this feature."),
        };
    }
    if name == METADATA_VERSION {
        return check_metadata_version(current, *level, *upgrade_type);
    }
    let proposed = all.iter().rev().find(|one| one.name == METADATA_VERSION).map(|one| one.level);
    let metadata = proposed.or_else(|| image.features().get(METADATA_VERSION).copied()).unwrap_or(0);
    match feature.needs_metadata {
        needed if *level > 0 && metadata < needed => refuse(&format!(
            "{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
        )),
        _ => Ok(()),
    }
}

fn check_metadata_version(current: i16, level: i16, upgrade_type: i8) -> Result<(), Refusal> {
    if !features::loses_metadata(current, level) {
        return Ok(());
    }
    let why = match upgrade_type {
        UNSAFE_DOWNGRADE => "Unsafe metadata downgrade is not supported in this version.",
        _ => "Refusing to perform the requested downgrade because it might delete metadata information.",
    };
    refuse(format!("Unsupported metadata.version downgrade from {current} to {level}. {why}"))
}

fn refuse(message: String) -> Result<(), Refusal> {
    Err(Refusal::new(Reason::InvalidUpdateVersion, message))
}

#[cfg(test)]
mod tests;
