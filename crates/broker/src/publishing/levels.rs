//! Warnings about feature levels that prevent a downgrade to earlier releases.

use std::collections::BTreeMap;

use levada_metadata::features::{METADATA_VERSION, passed_former_level};

/// Levels of features by name.
type Levels = BTreeMap<String, i16>;

/// A feature whose level prevents a downgrade.
#[derive(Debug, PartialEq, Eq)]
struct Passed<'a> {
    feature: &'a str,
    level: i16,
    /// Highest level that earlier releases support.
    former: i16,
}

/// Features that have passed the highest level of earlier releases; none at the start, when the
/// broker has no levels yet.
fn passed<'a>(before: &Levels, next: &'a Levels) -> Vec<Passed<'a>> {
    if !before.contains_key(METADATA_VERSION) {
        return Vec::new();
    }
    let passed = next.iter().filter_map(|(feature, level)| {
        let from = before.get(feature).copied().unwrap_or(0);
        let former = passed_former_level(feature, from, *level)?;
        Some(Passed { feature, level: *level, former })
    });
    passed.collect()
}

/// Logs a warning for each feature that has passed the highest level of earlier releases.
pub(super) fn tell(before: &Levels, next: &Levels) {
    for Passed { feature, level, former } in passed(before, next) {
        tracing::warn!(
            feature,
            level,
            "this level prevents a downgrade to Kafka 4.3 and to earlier releases of Levada, which support levels up to \
             {former}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(levels: &[(&str, i16)]) -> Levels {
        levels.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect()
    }

    #[test]
    fn only_a_feature_upgrade_prevents_downgrade() {
        let (before, next) = (levels(&[("metadata.version", 30)]), levels(&[("share.version", 2)]));
        assert_eq!(passed(&before, &next), [Passed { feature: "share.version", level: 2, former: 1 }]);
        assert_eq!(passed(&Levels::new(), &next), [], "the start is no upgrade");
        let both = levels(&[("metadata.version", 30), ("share.version", 1)]);
        assert_eq!(passed(&before, &both), [], "Kafka 4.3 has this level");
        let later = levels(&[("metadata.version", 33), ("share.version", 2)]);
        let [metadata, share] = &passed(&both, &later)[..] else { panic!("two features") };
        assert_eq!((metadata.level, metadata.former, share.former), (33, 30, 1));
        assert_eq!(passed(&later, &later), []);
        assert_eq!(passed(&later, &both), [], "a downgrade ends nothing");
    }
}
