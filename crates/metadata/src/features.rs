//! The features of Kafka 4.4 that Levada supports, their ranges, and the levels of a new cluster.

use super::records::SupportedFeature;

/// A feature that a cluster can finalise at some level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// Name of the feature.
    pub name: &'static str,
    /// Lowest level supported.
    pub min_version: i16,
    /// Highest level supported.
    pub max_version: i16,
    /// Level of a new cluster; 0 where it is not recorded at all.
    pub initial_level: i16,
    /// The `metadata.version` without which it has no level but 0.
    pub needs_metadata: i16,
}

/// Name of the feature that decides which metadata records may be written.
pub const METADATA_VERSION: &str = "metadata.version";

/// The `metadata.version` of a new cluster: that of Kafka 4.3, to which the cluster can still be
/// moved. An operator decides about higher levels.
pub const LATEST: i16 = 30;

/// The `metadata.version` (4.4-IV1) from which on the host of an access control entry may be a
/// range of addresses.
pub const CIDR_HOSTS: i16 = 32;

/// Highest `metadata.version` supported: the one of Kafka 4.4.
const SUPPORTED: i16 = 33;

/// Kafka's names of the `metadata.version`s, from the first with KRaft in production on.
const RELEASES: [&str; 27] = [
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0",
    "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
    "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
];
const FIRST_RELEASE: i16 = 7;

/// Kafka's name of a `metadata.version`, such as `4.3-IV0`; none if it is not known here.
pub fn release(level: i16) -> Option<&'static str> {
    let at = level.checked_sub(FIRST_RELEASE)?;
    RELEASES.get(usize::try_from(at).ok()?).copied()
}

/// The `metadata.version` with this name, or the highest one of a release such as `4.3`.
pub fn level_of_release(name: &str) -> Option<i16> {
    let is_meant = |known: &&str| *known == name || known.split_once('-').is_some_and(|(own, _)| own == name);
    let found = RELEASES.iter().rposition(is_meant)?;
    Some(FIRST_RELEASE + i16::try_from(found).expect("the list is short"))
}

/// The lowest `metadata.version` of a cluster that a broker can join: that of Kafka 4.0.
pub const LOWEST_OF_MEMBERS: i16 = 25;

/// Name of the feature that decides if eligible leaders are recorded.
pub const ELIGIBLE_LEADERS_VERSION: &str = "eligible.leader.replicas.version";

/// Name of the feature that permits consumer groups (KIP-848).
pub const GROUP_VERSION: &str = "group.version";

/// The feature that allows share groups.
pub const SHARE_VERSION: &str = "share.version";

/// Name of the feature that permits streams groups (KIP-1071).
pub const STREAMS_VERSION: &str = "streams.version";

/// The level of [`SHARE_VERSION`] from which on share groups have dead letter queues (Kafka 4.4).
pub const DEAD_LETTERS: i16 = 2;

/// Name of the quorum's own feature.
pub const KRAFT_VERSION: &str = "kraft.version";

/// Every feature, in the order in which a new cluster records them.
pub const FEATURES: [Feature; 7] = [
    feature(METADATA_VERSION, 7, SUPPORTED, LATEST),
    Feature { needs_metadata: 23, ..feature(ELIGIBLE_LEADERS_VERSION, 0, 1, 1) },
    feature(GROUP_VERSION, 0, 1, 1),
    feature(SHARE_VERSION, 0, DEAD_LETTERS, 1),
    feature(STREAMS_VERSION, 0, 1, 1),
    feature("transaction.version", 0, 2, 2),
    // Stored in separate control records, never as a feature level.
    feature(KRAFT_VERSION, 0, 1, 0),
];

const fn feature(name: &'static str, min_version: i16, max_version: i16, initial_level: i16) -> Feature {
    Feature { name, min_version, max_version, initial_level, needs_metadata: 0 }
}

/// The `metadata.version`s with records or fields that earlier versions cannot store.
const CHANGED: [i16; 11] = [7, 8, 11, 13, 14, 15, 17, 23, 30, CIDR_HOSTS, 33];

/// True if a change from one `metadata.version` to another could lose records that only later
/// versions have.
pub fn loses_metadata(from: i16, to: i16) -> bool {
    CHANGED.iter().any(|level| (to + 1..=from).contains(level))
}

/// The highest level of a feature that Kafka 4.3 and earlier releases of Levada support, if a
/// change between these levels exceeds it and so prevents a downgrade to them.
pub fn passed_former_level(name: &str, from: i16, to: i16) -> Option<i16> {
    let known = FEATURES.iter().find(|known| known.name == name && name != KRAFT_VERSION)?;
    let level = known.initial_level;
    (from <= level && to > level).then_some(level)
}

/// The features as a broker of a cluster registers them.
pub fn of_members() -> impl Iterator<Item = Feature> {
    FEATURES.into_iter().map(|feature| match feature.name {
        METADATA_VERSION => Feature { min_version: LOWEST_OF_MEMBERS, ..feature },
        _ => feature,
    })
}

/// The features as a node registers them.
pub(super) fn supported() -> Vec<SupportedFeature> {
    FEATURES
        .iter()
        .map(|feature| SupportedFeature {
            name: feature.name.to_owned(),
            min_version: feature.min_version,
            max_version: feature.max_version,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_supported_metadata_version_has_a_name() {
        for (level, name) in [
            (7, "3.3-IV3"),
            (13, "3.6-IV1"),
            (17, "3.7-IV2"),
            (25, "4.0-IV3"),
            (30, "4.3-IV0"),
            (33, "4.4-IV2"),
        ] {
            assert_eq!(release(level), Some(name));
            assert_eq!(level_of_release(name), Some(level));
        }
        for level in [i16::MIN, 0, 6, SUPPORTED + 1] {
            assert_eq!(release(level), None);
        }
        assert_eq!((level_of_release("3.7"), level_of_release("4.4")), (Some(19), Some(33)));
        assert_eq!((level_of_release("4"), level_of_release("")), (None, None));
    }
}
