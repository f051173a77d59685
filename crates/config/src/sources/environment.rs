//! Environment variables that set keys: `LEVADA_` and the key, and on request the names that
//! Kafka's container images read.

use std::collections::BTreeMap;

use super::{Assignment, Note, Sources, hint, known_names, nearest, no_such_key};
use crate::kafka::kafka_key;
use crate::{Origin, foreign, prefix};

const OWN: &str = "LEVADA_";
const KAFKAS: &str = "KAFKA_";
const OWN_LISTENER: &str = "LEVADA_LISTENER_NAME_";
const IN_NAMES: &str = "; in the name of a listener or mechanism, write _ as __ and - as ___";

/// Variables with the prefix that are not keys: the command line reads them.
const OTHER_VARIABLES: [&str; 6] = [
    "LEVADA_BROKERS",
    "LEVADA_COMMAND_CONFIG",
    "LEVADA_CONFIG",
    "LEVADA_KAFKA_ENVIRONMENT",
    "LEVADA_LOG",
    "LEVADA_OAUTHBEARER_TOKEN",
];

/// Beginnings of Kafka's variables that are not keys: they are for a Java process or its scripts.
const JAVA: [&str; 9] = [
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_",
    "KAFKA_VERSION",
];

/// Assignments of the environment, Levada's own names last. Variables are looked up by the names of
/// known keys. Others cause a note and no error: containers and orchestrators set such names
/// themselves (a service called levada gets `LEVADA_PORT`).
pub(super) fn layer(sources: &Sources, notes: &mut Vec<Note>) -> Vec<Assignment> {
    if sources.environment.is_empty() {
        return Vec::new();
    }
    let by_variable: BTreeMap<String, &str> = known_names().map(|name| (env_name(name), name)).collect();
    let (mut assignments, mut own) = (Vec::new(), Vec::new());
    for (variable, value) in &sources.environment {
        let kafkas = variable.strip_prefix(KAFKAS).filter(|_| sources.kafka_environment);
        if kafkas.is_none() && (!variable.starts_with(OWN) || OTHER_VARIABLES.contains(&variable.as_str())) {
            continue;
        }
        let origin = Origin::Environment(variable.clone());
        let name = kafkas.map_or_else(|| variable.clone(), |rest| format!("{OWN}{rest}"));
        let known = by_variable.get(&name).map(|key| (*key).to_owned()).or_else(|| listener_key(&name));
        let key = known.filter(|key| kafkas.is_none() || !key.starts_with("levada."));
        let text = match (key, kafkas) {
            (Some(key), _) => {
                let layer = if kafkas.is_some() { &mut assignments } else { &mut own };
                layer.push(Assignment { key, value: value.clone(), origin });
                continue;
            }
            (None, Some(_)) if JAVA.iter().any(|java| variable.starts_with(java)) => {
                "it is for a Java process".to_owned()
            }
            (None, Some(rest)) => no_such_key(&rest.to_lowercase().replace('_', ".")),
            (None, None) => {
                let near = nearest(variable, by_variable.keys().map(String::as_str));
                let is_of_listener = variable.starts_with(OWN_LISTENER);
                let next = if is_of_listener { IN_NAMES.to_owned() } else { hint(near) };
                format!("no key has this variable{next}")
            }
        };
        notes.push(Note { key: variable.clone(), origin, text });
    }
    assignments.append(&mut own);
    assignments
}

/// The environment variable of a key: `log.dirs` is `LEVADA_LOG_DIRS`, `levada.http.listen` is
/// `LEVADA_HTTP_LISTEN`.
pub fn env_name(key: &str) -> String {
    let tail = key.strip_prefix("levada.").unwrap_or(key);
    format!("{OWN}{}", tail.to_uppercase().replace('.', "_"))
}

/// The key of one listener that a variable sets: `LEVADA_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG`
/// sets `listener.name.in.plain.sasl.jaas.config`. As in Kafka's images, `__` is an underscore and
/// `___` a dash.
fn listener_key(variable: &str) -> Option<String> {
    let rest = variable.strip_prefix(OWN_LISTENER)?.to_lowercase();
    // Kafka's names of listeners have no white space.
    let rest = rest.replace("___", "-").replace("__", " ").replace('_', ".").replace(' ', "_");
    let key = format!("listener.name.{rest}");
    let bare = foreign::bare_foreign(&key);
    // After the name of a mechanism, only the keys of SASL.
    let is_own = prefix::bare(&key) == Some(bare) || bare.starts_with("sasl.");
    let is_known = prefix::row(&key).is_some() || (is_own && kafka_key(bare).is_some());
    is_known.then_some(key)
}
