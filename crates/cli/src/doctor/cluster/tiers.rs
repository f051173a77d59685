//! Check of tiered topics: the remote store of the broker that is to be replaced.

use levada_broker::offline;
use levada_config::BrokerConfig;
use levada_remote::{RemoteError, RemoteErrorKind, Store, StoreOptions};
use levada_terminal::output;

use super::Check;
use super::checks::some;
use super::facts::Facts;

const NAME: &str = "tiered topics";

/// Remote storage in the configuration of the broker that is to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tiers {
    /// The command line names no configuration that can be used.
    Unknown,
    /// `remote.log.storage.system.enable` is off.
    Off,
    /// Levada can read the store, which is named here. The copies of this number of topics were
    /// compared.
    Readable(String, usize),
    /// Levada cannot serve the topics from the store that is named here.
    Unusable(String, Problem),
}

/// Reason why a store cannot be used, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    found: String,
    next: String,
}

impl From<RemoteError> for Problem {
    fn from(error: RemoteError) -> Self {
        let next = match error.kind {
            RemoteErrorKind::Unavailable => "check that the store is reachable from this machine".to_owned(),
            kind => kind.advice().to_owned(),
        };
        Self { found: format!("{}: {}", error.operation, error.cause), next }
    }
}

impl Tiers {
    /// Reads the newest copy of each tiered topic whose metadata is in the broker's directories.
    pub(super) fn of(config: &BrokerConfig, facts: &Facts) -> Self {
        let Some(options) = &config.remote_store else { return Self::Off };
        let (name, topics) = (options.location.to_string(), tiered(facts));
        match compare(config, options, (&topics, &facts.cluster_id)) {
            Ok(copies) => Self::Readable(name, copies),
            Err(problem) => Self::Unusable(name, problem),
        }
    }
}

/// Number of topics with a copy, which Levada can read.
fn compare(
    config: &BrokerConfig,
    options: &StoreOptions,
    (topics, cluster_id): (&[String], &str),
) -> Result<usize, Problem> {
    if topics.is_empty() {
        return Ok(0);
    }
    let store = Store::open(options)?;
    if let Some(owner) = store.cluster()?.filter(|owner| owner != cluster_id) {
        let found = format!("the store belongs to cluster {owner}");
        return Err(Problem {
            found,
            next: "name the store of this cluster in levada.remote.store".to_owned(),
        });
    }
    let directories = offline::directories_of(config);
    // Another check reports a directory that cannot be read.
    let Ok(found) = offline::remote_inventory(&directories, config.remote_log.topic_partitions) else {
        return Ok(0);
    };
    let newest: Vec<_> = topics.iter().filter_map(|topic| found.inventory.newest_of(topic)).collect();
    newest.iter().try_for_each(|segment| store.check_readable(segment))?;
    Ok(newest.len())
}

/// Topics with remote storage.
fn tiered(facts: &Facts) -> Vec<String> {
    let tiered = facts.settings.iter().filter(|(_, settings)| settings.is_tiered);
    tiered.map(|(name, _)| name.clone()).collect()
}

pub(super) fn check(facts: &Facts, tiers: &Tiers) -> Check {
    let topics = tiered(facts);
    if topics.is_empty() {
        return Check::ok(NAME, "none");
    }
    let topics = format!("remote.storage.enable=true: {}", some(&topics));
    match tiers {
        Tiers::Unknown => Check::blocked(
            NAME,
            format!("{topics}; the store of the broker is not known"),
            "name a usable file of the broker with --config: with remote.log.storage.system.enable=true and the store of these \
             topics (levada.remote.store) Levada serves them",
        ),
        Tiers::Off => Check::blocked(
            NAME,
            format!("{topics}; remote.log.storage.system.enable is off in the file"),
            "set it to true and levada.remote.store to the store of these topics, or let brokers that have them keep the \
             replicas; turning remote.storage.enable off deletes the remote records",
        ),
        Tiers::Unusable(store, problem) => {
            Check::blocked(NAME, format!("{topics}; {store}: {}", problem.found), problem.next.clone())
        }
        Tiers::Readable(store, 0) => Check::ok(
            NAME,
            format!("{topics}, in {store}; the directories have no metadata of a copy to compare"),
        ),
        Tiers::Readable(store, copies) => {
            let read = output::counted(*copies as u64, "topic", "topics");
            Check::ok(NAME, format!("{topics}, in {store}; the newest copies of {read} were read"))
        }
    }
}
