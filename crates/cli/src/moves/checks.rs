//! Checks of a plan before anything changes.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;

use super::Move;
use crate::layout::{Directories, Layout, listed};
use crate::settings;
use crate::sizes;

const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Fails if a move has no valid target; warns if a broker has too little space.
pub(super) fn check(cluster: &mut Cluster, layout: &Layout, moves: &[Move]) -> Result<(), Failure> {
    moves.iter().try_for_each(|one| targets(layout, one))?;
    let topics: BTreeSet<&str> = moves.iter().map(|one| one.topic.as_str()).collect();
    let least = least_in_sync(cluster, &topics)?;
    moves.iter().try_for_each(|one| enough(one, least.get(&one.topic).copied().unwrap_or(1)))?;
    if let Some(warning) = fewer(moves, &least) {
        tell!("warning: {warning}");
    }
    warn_of_leaders(layout, moves);
    warn_of_space(cluster, moves);
    Ok(())
}

/// Prints a warning if partitions have no leader to copy from.
fn warn_of_leaders(layout: &Layout, moves: &[Move]) {
    let has_none = |one: &&Move| {
        one.adding().count() > 0
            && layout.partitions.get(&one.place()).is_some_and(|placed| placed.leader.is_none())
    };
    let mut without = moves.iter().filter(has_none);
    if let Some(Move { topic, partition, .. }) = without.next() {
        let others = without.count();
        tell!(
            "warning: {topic}/{partition} and {others} other partitions of the plan have no leader: their moves wait for one"
        );
    }
}

/// Fails if a broker is named twice, does not exist, or is fenced and would get a replica.
pub(super) fn targets(layout: &Layout, one: &Move) -> Result<(), Failure> {
    let place = format!("{}/{}", one.topic, one.partition);
    if one.to.is_empty() {
        return Err(Failure::new(format!("{place}: the list of brokers is empty")));
    }
    let distinct: BTreeSet<i32> = one.to.iter().copied().collect();
    if distinct.len() < one.to.len() {
        let what = format!("{place}: {} names a broker twice", listed(one.to.iter().copied()));
        return Err(Failure::with_next(what, "each replica needs a broker of its own"));
    }
    for id in &one.to {
        let member = layout.member(*id)?;
        if member.fenced == Some(true) && !one.from.contains(id) {
            return Err(Failure::with_next(
                format!("{place}: broker {id} is fenced, so that it cannot get a replica"),
                "start the broker, or name another; levada broker list shows their states",
            ));
        }
    }
    Ok(())
}

/// Fails if producers with acks=all would be refused after the move.
pub(super) fn enough(one: &Move, least: usize) -> Result<(), Failure> {
    // A partition that has too few replicas today may get more.
    if one.to.len() >= least || one.to.len() >= one.from.len() {
        return Ok(());
    }
    let (count, Move { topic, partition, .. }) = (one.to.len(), one);
    let replicas = counted(count as u64, "replica is", "replicas are");
    Err(Failure::with_next(
        format!("{topic}/{partition}: {replicas} fewer than {MIN_IN_SYNC}={least}"),
        format!("name at least {least} brokers, or levada config set topic {topic} {MIN_IN_SYNC}={count}"),
    ))
}

/// A sentence about partitions that lose replicas.
pub(super) fn fewer(moves: &[Move], least: &BTreeMap<String, usize>) -> Option<String> {
    let fewer: Vec<&Move> = moves.iter().filter(|one| one.to.len() < one.from.len()).collect();
    let count = counted(fewer.len() as u64, "partition gets", "partitions get");
    let has_no_spare = |one: &&Move| one.to.len() <= least.get(&one.topic).copied().unwrap_or(1);
    match fewer.iter().any(has_no_spare) {
        _ if fewer.is_empty() => None,
        true => Some(format!(
            "{count} fewer replicas than now; producers with acks=all are refused while one of the brokers is down"
        )),
        false => Some(format!("{count} fewer replicas than now")),
    }
}

/// `min.insync.replicas` of topics.
pub(crate) fn least_in_sync(
    cluster: &mut Cluster,
    topics: &BTreeSet<&str>,
) -> Result<BTreeMap<String, usize>, Failure> {
    let topics: Vec<&str> = topics.iter().copied().collect();
    let values = settings::of_topics(cluster, &topics, &[MIN_IN_SYNC])?;
    let least = values.into_iter().map(|(topic, settings)| {
        let value = settings.first().and_then(|setting| setting.value.as_deref()?.parse().ok());
        (topic, value.unwrap_or(1))
    });
    Ok(least.collect())
}

/// Prints a warning about each broker that has less free space than the plan copies to it.
fn warn_of_space(cluster: &mut Cluster, moves: &[Move]) {
    let mut added: BTreeMap<i32, u64> = BTreeMap::new();
    for one in moves {
        for id in one.adding() {
            let sum = added.entry(id).or_insert(0);
            *sum = sum.saturating_add(one.bytes.unwrap_or(0));
        }
    }
    let directories = Directories::ask(cluster, added.keys().copied(), Some(&[]));
    for (id, bytes) in added {
        if let Some(free) = directories.free(id).filter(|free| *free < bytes) {
            let (bytes, free) = (sizes::shown(Some(bytes)), sizes::shown(Some(free)));
            tell!("warning: the plan copies {bytes} to broker {id}, whose directories have {free} free");
        }
    }
}
