//! Checks of the `server.properties` of a broker to be replaced, and of the directories that it
//! names.

use std::path::Path;

use levada_broker::{offline, tls};
use levada_config::{BrokerConfig, ConfigError, Sources};
use levada_terminal::output;

use super::Check;
use super::checks::some;
use super::facts::Facts;
use super::tiers::Tiers;

/// Checks of a file.
pub(super) struct OfFile {
    /// Id of the broker, if the file can be used.
    pub(super) node_id: Option<i32>,
    pub(super) tiers: Tiers,
    pub(super) checks: Vec<Check>,
}

/// Reads the file as `levada serve --config` does, without the environment.
pub(super) fn checks(path: &Path, facts: &Facts) -> OfFile {
    let sources = Sources { file: Some(path.to_owned()), ..Sources::default() };
    let config = match BrokerConfig::load(&sources) {
        Ok(config) => config,
        Err(errors) => {
            let check = |error: &_| Check::blocked("configuration", format!("{error}"), next_step(error));
            let checks = errors.0.iter().map(check).collect();
            return OfFile { node_id: None, tiers: Tiers::Unknown, checks };
        }
    };
    let mut checks = vec![keys(&config), role(&config), identity(&config, facts), security(&config)];
    checks.extend(directories(&config, facts));
    OfFile { node_id: Some(config.node_id), tiers: Tiers::of(&config, facts), checks }
}

fn next_step(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Invalid { key, .. } if key == "levada.remote.store" => {
            "set levada.remote.store to the same remote store, or keep this node with Apache Kafka"
        }
        _ => {
            "change or remove the key; `levada serve --lenient` ignores keys that neither Levada nor Kafka has"
        }
    }
}

fn keys(config: &BrokerConfig) -> Check {
    let notes: Vec<String> = config.settings().notes().iter().map(|note| note.key.clone()).collect();
    if notes.is_empty() {
        Check::ok("configuration", "every key has an effect")
    } else {
        Check::ok("configuration", format!("keys without effect: {}", some(&notes)))
    }
}

fn role(config: &BrokerConfig) -> Check {
    match config.cluster {
        Some(_) => Check::ok("role", "process.roles=broker"),
        None => Check::blocked(
            "role",
            "process.roles is not exactly broker",
            "move the controllers to separate processes of Kafka",
        ),
    }
}

fn identity(config: &BrokerConfig, facts: &Facts) -> Check {
    let node_id = config.node_id;
    match facts.brokers.iter().find(|broker| broker.broker_id == node_id) {
        Some(broker) if broker.is_fenced => Check::ok("broker", format!("{node_id}, stopped")),
        Some(_) => Check::ok("broker", format!("{node_id}, in service")),
        None => Check::warning(
            "broker",
            format!("the cluster has no broker {node_id}"),
            "check node.id, unless the broker is a new one",
        ),
    }
}

/// Key stores and trust stores: of this broker's listeners, and for connections to controllers and
/// brokers.
fn security(config: &BrokerConfig) -> Check {
    let mut peers = config.cluster.iter().flat_map(|cluster| [&cluster.controllers, &cluster.brokers]);
    let checked = tls::check(config).and_then(|()| peers.try_for_each(|peer| peer.tls().map(drop)));
    match checked {
        Ok(()) => {
            let listeners =
                config.listeners.iter().map(|one| format!("{} ({})", one.name, one.protocol.name()));
            Check::ok("listeners", listeners.collect::<Vec<_>>().join(", "))
        }
        Err(error) => Check::blocked(
            "listeners",
            error.to_string(),
            "change the ssl.* key, or run this command as the user of the broker",
        ),
    }
}

fn directories(config: &BrokerConfig, facts: &Facts) -> Vec<Check> {
    config.log_dirs.iter().map(|path| directory(path, config.node_id, facts)).collect()
}

fn directory(path: &Path, node_id: i32, facts: &Facts) -> Check {
    const NAME: &str = "directory";
    let info = match offline::info(path, &[]) {
        Ok(info) => info,
        Err(error) => {
            let next = "run this command on the machine of the broker, as its user";
            return Check::blocked(NAME, error.to_string(), next);
        }
    };
    let shown = path.display();
    let Some(identity) = &info.identity else {
        let next = "name the directory of the broker in log.dirs; levada storage format creates that of a new broker";
        return Check::blocked(NAME, format!("{shown} has no meta.properties"), next);
    };
    if identity.cluster_id != facts.cluster_id {
        let found = format!("{shown} belongs to cluster {}", identity.cluster_id);
        return Check::blocked(NAME, found, "name the directory of this cluster's broker in log.dirs");
    }
    if identity.node_id != node_id {
        let found = format!("{shown} belongs to node {}, the file has node.id={node_id}", identity.node_id);
        return Check::blocked(NAME, found, "use the file and the directory of the same broker");
    }
    let partitions = output::counted(info.partitions.len() as u64, "partition", "partitions");
    match (info.in_use, info.clean) {
        (true, _) => Check::ok(NAME, format!("{shown}: {partitions}, in use by the running broker")),
        (false, true) => Check::ok(NAME, format!("{shown}: {partitions}, stopped in good order")),
        (false, false) => Check::warning(
            NAME,
            format!("{shown}: {partitions}, without the mark of a clean stop"),
            "start the broker and stop it with SIGTERM; else Levada checks the logs after the recovery points when it starts",
        ),
    }
}
