//! Checks of the state of a cluster.

use std::collections::BTreeMap;

use levada_metadata::features::{FEATURES, LOWEST_OF_MEMBERS, METADATA_VERSION};
use levada_terminal::output;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::Check;
use super::facts::Facts;
use super::tiers::{self, Tiers};

/// Maximum number of names in a line.
const NAMES_MAX: usize = 5;

/// All checks. `own` is the broker to be replaced, if it is known: it may be stopped already.
pub(super) fn all(facts: &Facts, own: Option<i32>, tiers: &Tiers) -> Vec<Check> {
    let mut checks = vec![brokers(facts, own)];
    checks.extend(features(facts));
    checks.push(releases(facts));
    checks.push(replicas(facts, own));
    checks.push(single_replicas(facts, own));
    checks.extend(topic_settings(facts, own, tiers));
    checks
}

fn brokers(facts: &Facts, own: Option<i32>) -> Check {
    let fenced = facts.brokers.iter().filter(|broker| broker.is_fenced && Some(broker.broker_id) != own);
    let fenced: Vec<String> = fenced.map(|broker| broker.broker_id.to_string()).collect();
    if !fenced.is_empty() {
        let found = format!("fenced: {}", some(&fenced));
        let next =
            "start these brokers, or remove them with kafka-cluster unregister; replace one broker at a time";
        return Check::blocked("brokers", found, next);
    }
    Check::ok(
        "brokers",
        format!("{} in service", output::counted(count(facts.brokers.len()), "broker", "brokers")),
    )
}

/// Finalized features of the cluster against the levels of this version.
fn features(facts: &Facts) -> Vec<Check> {
    // The newest answer counts: brokers get a new level one after the other.
    let newest = facts.versions.values().max_by_key(|answer| answer.finalized_features_epoch);
    let finalized = newest.map(|answer| &answer.finalized_features[..]).unwrap_or_default();
    let mut checks = Vec::new();
    let mut served = Vec::new();
    for feature in finalized {
        let (name, level) = (feature.name.as_str(), feature.max_version_level);
        let known = FEATURES.iter().find(|known| known.name == name);
        let min = if name == METADATA_VERSION { LOWEST_OF_MEMBERS } else { 0 };
        match known {
            Some(known) if (min..=known.max_version).contains(&level) => {
                served.push(format!("{name} {level}"))
            }
            Some(known) => {
                let found = format!(
                    "{name} is finalized at {level}; this Levada supports {min} to {}",
                    known.max_version
                );
                let next = if level < min {
                    "kafka-features upgrade --release-version 4.0, or higher"
                } else {
                    "install a newer Levada; the controllers refuse this one"
                };
                checks.push(Check::blocked("features", found, next));
            }
            None if level == 0 => {}
            None => {
                let found = format!("{name} is finalized at {level}; this Levada does not support it");
                let next = "install a newer Levada; the controllers refuse this one";
                checks.push(Check::blocked("features", found, next));
            }
        }
    }
    if checks.is_empty() {
        checks.push(Check::ok("features", served.join(", ")));
    }
    checks
}

/// Releases of the brokers, by the `metadata.version`s that they support: a newer one may finalize
/// a level that Levada does not support.
fn releases(facts: &Facts) -> Check {
    let highest = FEATURES.iter().find(|feature| feature.name == METADATA_VERSION);
    let highest = highest.map_or(0, |feature| feature.max_version);
    let mut by_level: BTreeMap<i16, Vec<String>> = BTreeMap::new();
    for (node, answer) in &facts.versions {
        let supported =
            answer.supported_features.iter().find(|feature| feature.name.as_str() == METADATA_VERSION);
        by_level
            .entry(supported.map_or(0, |feature| feature.max_version))
            .or_default()
            .push(node.to_string());
    }
    let levels = by_level.iter().map(|(level, nodes)| format!("up to {level}: {}", some(nodes)));
    let found = format!("metadata.version of brokers {}", levels.collect::<Vec<_>>().join("; "));
    match by_level.last_key_value() {
        Some((level, _)) if *level > highest => {
            let next =
                format!("do not finalize a metadata.version above {highest} before Levada is upgraded");
            Check::warning("releases", found, next)
        }
        _ => Check::ok("releases", found),
    }
}

/// Checks the replicas in sync: the broker to be replaced must not be the only one with a record.
fn replicas(facts: &Facts, own: Option<i32>) -> Check {
    let mut missing = Vec::new();
    let mut total = 0;
    for (topic, partition) in partitions(facts) {
        total += 1;
        let in_sync = |node: &&i32| partition.isr_nodes.contains(*node) || Some(**node) == own;
        let all = partition.replica_nodes.iter().filter(in_sync).count();
        if partition.leader_id < 0 && partition.replica_nodes.iter().any(|node| Some(*node) != own) {
            missing.push(format!("{} has no leader", shown(topic, partition)));
        } else if all < partition.replica_nodes.len() {
            let (found, of) = (partition.isr_nodes.len(), partition.replica_nodes.len());
            missing.push(format!("{} has {found} of {of} replicas in sync", shown(topic, partition)));
        }
    }
    if missing.is_empty() {
        Check::ok(
            "replicas",
            format!("all in sync, of {}", output::counted(total, "partition", "partitions")),
        )
    } else {
        let next = "wait until all replicas are in sync: levada doctor --cluster --watch";
        Check::blocked("replicas", some(&missing), next)
    }
}

fn single_replicas(facts: &Facts, own: Option<i32>) -> Check {
    let single = partitions(facts).filter(|(_, partition)| partition.replica_nodes.len() == 1);
    let single = single.filter(|(_, partition)| concerns(partition, own));
    let single: Vec<String> = single.map(|(topic, partition)| shown(topic, partition)).collect();
    if single.is_empty() {
        Check::ok("single replicas", "no partition has one replica only")
    } else {
        Check::warning(
            "single replicas",
            format!("not available while the broker is replaced: {}", some(&single)),
            "levada partition move TOPIC --to BROKER,BROKER adds replicas",
        )
    }
}

/// Tiered topics, and topics whose writers wait while a broker is replaced.
fn topic_settings(facts: &Facts, own: Option<i32>, tiers: &Tiers) -> Vec<Check> {
    if let Some(error) = &facts.settings_refused {
        let found = format!("cannot read settings of topics: {error}");
        let next =
            "levada acl add USER --allow describe-configs --topic '*', or another user in --command-config";
        return vec![Check::blocked("topic settings", found, next)];
    }
    let waits = |(topic, partition): &(&MetadataResponseTopic, &MetadataResponsePartition)| {
        let settings = topic.name.as_deref().and_then(|name| facts.settings.get(name)).copied();
        let replicas = partition.replica_nodes.len();
        replicas > 1 && settings.is_some_and(|settings| settings.min_in_sync > replicas - 1)
    };
    let waiting = partitions(facts).filter(waits).filter(|(_, partition)| concerns(partition, own));
    let waiting: Vec<String> = waiting.map(|(topic, partition)| shown(topic, partition)).collect();
    let waiting = if waiting.is_empty() {
        Check::ok("min.insync.replicas", "met while one broker is replaced")
    } else {
        Check::warning(
            "min.insync.replicas",
            format!("acks=all is refused while the broker is replaced: {}", some(&waiting)),
            "lower min.insync.replicas of these topics, or add replicas",
        )
    };
    vec![tiers::check(facts, tiers), waiting]
}

fn partitions(facts: &Facts) -> impl Iterator<Item = (&MetadataResponseTopic, &MetadataResponsePartition)> {
    facts.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
}

/// True if the broker to be replaced has a replica, or may be any broker.
fn concerns(partition: &MetadataResponsePartition, own: Option<i32>) -> bool {
    own.is_none_or(|own| partition.replica_nodes.contains(&own))
}

fn shown(topic: &MetadataResponseTopic, partition: &MetadataResponsePartition) -> String {
    format!("{}-{}", topic.name.as_deref().unwrap_or_default(), partition.partition_index)
}

fn count(number: usize) -> u64 {
    number as u64
}

/// The first few of these names, and the number of the others.
pub(super) fn some(names: &[String]) -> String {
    let first = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}
