//! The throttle of moves: settings of the brokers with the rate, and of the topics with the
//! replicas that it holds for.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::Cluster;
use levada_terminal::failure::{Cause, Failure};

use super::{Move, ongoing};
use crate::layout::{Layout, listed};
use crate::settings::{self, Change, Kind, Resource, Setting};
use crate::sizes;

const RATES: [&str; 2] = ["leader.replication.throttled.rate", "follower.replication.throttled.rate"];
const REPLICAS: [&str; 2] =
    ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"];

/// Sources of values that a broker or a topic sets itself.
const OWN: [&str; 2] = ["dynamic-broker", "topic"];

/// Settings that this process has made.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Previous rates by broker; `None` if there was none.
    brokers: BTreeMap<i32, [Option<String>; 2]>,
    /// Throttled replicas by topic: the entries of leaders and of followers.
    topics: BTreeMap<String, [String; 2]>,
}

/// Sets the throttle of moves, in bytes per second. If a step fails, the steps before are undone.
pub(super) fn set(cluster: &mut Cluster, moves: &[Move], rate: u64) -> Result<Throttle, Failure> {
    let mut throttle = Throttle::default();
    match throttle.fill(cluster, moves, rate) {
        Ok(()) => {
            tell!("throttle: {} per second and broker", sizes::shown(Some(rate)));
            Ok(throttle)
        }
        Err(failure) => {
            throttle.remove(cluster)?;
            Err(failure)
        }
    }
}

impl Throttle {
    fn fill(&mut self, cluster: &mut Cluster, moves: &[Move], rate: u64) -> Result<(), Failure> {
        let copied = moves.iter().filter(|one| one.adding().count() > 0);
        let brokers: BTreeSet<i32> = copied.flat_map(|one| one.from.iter().chain(&one.to)).copied().collect();
        for id in brokers {
            let resource = broker(id);
            let before = own(cluster, &resource, &RATES)?;
            self.brokers.insert(id, before);
            let changes = RATES.map(|key| Change::Set(key.to_owned(), rate.to_string()));
            settings::alter(cluster, &resource, &changes, false)?;
        }
        for (topic, entries) in entries(moves) {
            let changes =
                [0, 1].map(|index| Change::Append(REPLICAS[index].to_owned(), entries[index].clone()));
            settings::alter(cluster, &Resource::topic(&topic), &changes, false)?;
            self.topics.insert(topic, entries);
        }
        Ok(())
    }

    /// Removes the entries that this process has added, and restores the rates before. The rates of
    /// a broker that does not respond stay, with a note.
    pub(super) fn remove(self, cluster: &mut Cluster) -> Result<(), Failure> {
        let mut failures = Vec::new();
        for (topic, entries) in self.topics {
            failures.extend(remove_entries(cluster, &Resource::topic(&topic), &entries).err());
        }
        let serving = Layout::ask(cluster).map(|layout| layout.serving());
        let mut unreachable = Unreachable::default();
        for (id, before) in self.brokers {
            if serving.as_ref().is_ok_and(|serving| !serving.contains(&id)) {
                unreachable.0.push(id);
                continue;
            }
            let change = |(key, value): (&str, Option<String>)| match value {
                Some(value) => Change::Set(key.to_owned(), value),
                None => Change::Delete(key.to_owned()),
            };
            let changes: Vec<Change> = RATES.into_iter().zip(before).map(change).collect();
            let restored = settings::alter(cluster, &broker(id), &changes, false);
            failures.extend(unreachable.except(id, restored).err());
        }
        unreachable.tell();
        Failure::all(failures)
    }
}

/// Brokers whose throttle stays: only the broker itself accepts changes of its settings.
#[derive(Debug, Default)]
struct Unreachable(Vec<i32>);

impl Unreachable {
    /// Takes a broker whose connection failed: a broker that has died is not fenced immediately.
    fn except(&mut self, id: i32, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match outcome {
            Err(failure) if failure.cause() == Cause::Connection => {
                self.0.push(id);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn tell(self) {
        let (brokers, verb) = match self.0.len() {
            0 => return,
            1 => ("broker", "does"),
            _ => ("brokers", "do"),
        };
        tell!(
            "note: the throttle of {brokers} {} stays, because the {brokers} {verb} not respond; \
             levada partition move --follow removes it later",
            listed(self.0)
        );
    }
}

/// Removes the throttle of moves that have ended, if no partition moves any more: the settings of
/// a command that was interrupted, or of Kafka's tool.
pub(crate) fn remove_leftovers(cluster: &mut Cluster, layout: &Layout) -> Result<(), Failure> {
    if !ongoing::ongoing(cluster)?.is_empty() {
        tell!("note: other partitions move; their throttle stays");
        return Ok(());
    }
    let names: BTreeSet<&str> = layout.partitions.keys().map(|place| place.0.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    for (topic, settings) in settings::of_topics(cluster, &names, &REPLICAS)? {
        delete(cluster, &Resource::topic(&topic), &settings)?;
    }
    let (keys, mut unreachable) = (RATES.map(str::to_owned), Unreachable::default());
    for id in layout.serving() {
        let resource = broker(id);
        let described = settings::describe(cluster, &resource, &keys);
        let deleted = described.and_then(|settings| delete(cluster, &resource, &settings));
        unreachable.except(id, deleted)?;
    }
    unreachable.tell();
    Ok(())
}

/// Deletes those of the settings that the resource sets itself.
fn delete(cluster: &mut Cluster, resource: &Resource, settings: &[Setting]) -> Result<(), Failure> {
    let own = settings.iter().filter(|setting| OWN.contains(&setting.source.as_str()));
    let changes: Vec<Change> = own.map(|setting| Change::Delete(setting.key.clone())).collect();
    if changes.is_empty() {
        return Ok(());
    }
    settings::alter(cluster, resource, &changes, false)?;
    tell!("removed the throttle of {}", resource.shown());
    Ok(())
}

/// Removes entries from the lists of a topic; a list without other entries is deleted.
fn remove_entries(cluster: &mut Cluster, topic: &Resource, entries: &[String; 2]) -> Result<(), Failure> {
    let present = own(cluster, topic, &REPLICAS)?;
    let changes = [0, 1].map(|index| removal(REPLICAS[index], present[index].as_deref(), &entries[index]));
    settings::alter(cluster, topic, &changes, false)
}

/// The change that removes these entries from a list. The list is that of a moment before: a
/// deletion does not depend on the entries that the broker shows a moment later.
pub(super) fn removal(key: &str, present: Option<&str>, entries: &str) -> Change {
    let own: BTreeSet<&str> = entries.split(',').collect();
    let has_others = present.unwrap_or_default().split(',').any(|one| !one.is_empty() && !own.contains(one));
    if has_others {
        Change::Subtract(key.to_owned(), entries.to_owned())
    } else {
        Change::Delete(key.to_owned())
    }
}

/// Values that a resource sets itself.
fn own(cluster: &mut Cluster, resource: &Resource, keys: &[&str; 2]) -> Result<[Option<String>; 2], Failure> {
    let described = settings::describe(cluster, resource, &keys.map(str::to_owned))?;
    let value = |key: &str| {
        let mut own = described.iter().filter(|setting| OWN.contains(&setting.source.as_str()));
        own.find(|setting| setting.key == key)?.value.clone()
    };
    Ok(keys.map(value))
}

/// The entries of each topic, `PARTITION:BROKER`: present replicas send, new ones receive.
pub(super) fn entries(moves: &[Move]) -> BTreeMap<String, [String; 2]> {
    let mut lists: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    for one in moves.iter().filter(|one| one.adding().count() > 0) {
        let [leaders, followers] = lists.entry(one.topic.clone()).or_default();
        leaders.extend(one.from.iter().map(|id| format!("{}:{id}", one.partition)));
        followers.extend(one.adding().map(|id| format!("{}:{id}", one.partition)));
    }
    lists.into_iter().map(|(topic, lists)| (topic, lists.map(|list| list.join(",")))).collect()
}

fn broker(id: i32) -> Resource {
    Resource { kind: Kind::Broker, name: id.to_string() }
}
