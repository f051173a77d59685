//! Checks before a takeover of a directory from another program or a newer version. They run before
//! the first write.

use std::path::Path;

use levada_log::checkpoint::MetaProperties;
use levada_wire::primitives::Uuid;

use super::StoreError;
use crate::features::FEATURES;
use crate::image::Image;
use crate::uuid::{self, is_reserved};

/// Maximum number of topics or partitions named in one sentence.
const NAMED_MAX: usize = 5;

/// All reasons against a takeover; empty if there are none. `others` has the ids of the other
/// directories in `log.dirs`, if all are known.
pub fn objections(image: &Image, identity: &MetaProperties, others: Option<&[Uuid]>) -> Vec<String> {
    let mut objections = Vec::new();
    for (name, level) in image.features() {
        match FEATURES.iter().find(|feature| feature.name == name) {
            None => objections
                .push(format!("the cluster uses {name} {level}, which this version does not support")),
            Some(feature)
                if *level > feature.max_version || (*level != 0 && *level < feature.min_version) =>
            {
                let (min, max) = (feature.min_version, feature.max_version);
                objections
                    .push(format!("the cluster uses {name} {level}; this version supports {min} to {max}"));
            }
            Some(_) => {}
        }
    }
    let elsewhere = others.map(|others| elsewhere(image, identity, others)).unwrap_or_default();
    if !elsewhere.is_empty() {
        objections.push(format!(
            "{} lie in another log directory of the node; name all its directories in log.dirs",
            named(&elsewhere)
        ));
    }
    objections
}

/// The identity of a directory, with an id if it has none: `former`, or otherwise a new one.
pub(super) fn with_id(identity: &MetaProperties, former: impl FnOnce() -> Option<Uuid>) -> MetaProperties {
    let directory_id = match identity.directory_id {
        MetaProperties::NO_ID => former().unwrap_or_else(uuid::random).to_bytes(),
        known => known,
    };
    MetaProperties { directory_id, ..identity.clone() }
}

/// The id under which the node last registered the directory of the metadata, if no other of its
/// directories can have had it. Replicas that the metadata assigns to this id are in the directory.
pub(super) fn former_id(image: &Image, node_id: i32, others: Option<&[Uuid]>) -> Option<Uuid> {
    let (registered, others) = (image.brokers().broker(node_id)?, others?);
    let mut left = registered.log_dirs.iter().filter(|id| !others.contains(id));
    left.next().filter(|_| left.next().is_none()).copied()
}

/// Refuses a directory that cannot be taken over, and one with tiered topics where
/// `remote.log.storage.system.enable` is off.
pub(super) fn check(
    dir: &Path,
    image: &Image,
    (identity, others): (&MetaProperties, Option<&[Uuid]>),
    serves_tiers: bool,
) -> Result<(), StoreError> {
    let mut objections = objections(image, identity, others);
    let topics = image.topics().iter().map(|topic| topic.name().to_string());
    let tiered: Vec<String> = topics.filter(|name| !serves_tiers && image.is_tiered(name)).collect();
    if !tiered.is_empty() {
        objections.push(format!(
            "older records of {} lie in remote storage: set remote.log.storage.system.enable=true and the store \
             (levada.remote.store); turning remote.storage.enable off deletes these records",
            named(&tiered)
        ));
    }
    if objections.is_empty() {
        Ok(())
    } else {
        Err(StoreError::Foreign { dir: dir.to_owned(), objections: objections.join("; ") })
    }
}

/// Partitions of this node whose replica is assigned to a directory that the node does not have:
/// they would begin empty.
fn elsewhere(image: &Image, identity: &MetaProperties, others: &[Uuid]) -> Vec<String> {
    let node = identity.node_id;
    let own = with_id(identity, || former_id(image, node, Some(others))).directory_id;
    let own = Uuid::from_bytes(own);
    let mut found = Vec::new();
    for topic in image.topics().iter() {
        for (index, partition) in topic.partitions() {
            let at = partition.replicas.iter().position(|replica| *replica == node);
            let directory = at.and_then(|at| partition.directories.get(at).copied());
            if directory.is_some_and(|id| id != own && !others.contains(&id) && !is_reserved(id)) {
                found.push(format!("{}-{index}", topic.name()));
            }
        }
    }
    found
}

fn named(names: &[String]) -> String {
    let listed = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED_MAX) {
        None | Some(0) => listed,
        Some(more) => format!("{listed} and {more} more"),
    }
}
