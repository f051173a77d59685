//! Changing configuration.

use std::collections::{BTreeMap, HashSet};

use super::names::{MAX_RESOURCE_NAME_LEN, check_topic_name, too_long};
use super::topics::duplicates;
use super::{ConfigRules, Decision, Reason, Refusal};
use crate::image::{ConfigResource, Image, ResourceKind};
use crate::records::{ConfigRecord, Record};

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterConfig {
    /// Configuration key.
    pub key: String,
    /// Change of the value.
    pub change: ConfigChange,
}

/// Operation on a key's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigChange {
    /// The key gets this value.
    Set(String),
    /// The key gets its default.
    Delete,
    /// The items, separated by commas, are added to the list unless there already.
    Append(String),
    /// The items are removed from the list.
    Subtract(String),
}

/// Maximum number of keys of a broker that one request may change, as Kafka's controllers allow
/// records.
const KEYS_MAX: usize = 10_000;

/// Changes single keys, all keys of a resource or none; outcomes are in the order of `changes`.
/// For "validate only", drop the records.
pub fn alter_configs(
    image: &Image,
    changes: &[(ConfigResource, Vec<AlterConfig>)],
    rules: &dyn ConfigRules,
) -> Decision<Vec<Result<(), Refusal>>> {
    each_resource(changes, |resource, changes| {
        check_count(resource, changes.len())?;
        let current = values(image, resource);
        let mut altered = BTreeMap::new();
        for AlterConfig { key, change } in changes {
            altered.insert(key.clone(), changed(resource, key, change, &current, rules)?);
        }
        check(image, resource, altered, &current, rules)
    })
}

/// A key and its new value, `None` for its default.
pub type NewValue = (String, Option<String>);

/// Replaces everything set on a resource; outcomes are in the order of `configs`.
/// For "validate only", drop the records.
pub fn replace_configs(
    image: &Image,
    configs: &[(ConfigResource, Vec<NewValue>)],
    rules: &dyn ConfigRules,
) -> Decision<Vec<Result<(), Refusal>>> {
    each_resource(configs, |resource, configs| {
        check_count(resource, configs.len())?;
        let current = values(image, resource);
        let mut altered: BTreeMap<String, Option<String>> =
            current.keys().map(|key| (key.clone(), None)).collect();
        altered.extend(configs.iter().cloned());
        check(image, resource, altered, &current, rules)
    })
}

fn each_resource<T>(
    requests: &[(ConfigResource, T)],
    decide: impl Fn(&ConfigResource, &T) -> Result<Vec<Record>, Refusal>,
) -> Decision<Vec<Result<(), Refusal>>> {
    let mut records = Vec::new();
    let repeated = duplicates(requests.iter().map(|(resource, _)| resource));
    let outcome = requests
        .iter()
        .map(|(resource, request)| {
            if repeated.contains(resource) {
                return Err(Refusal::new(Reason::InvalidRequest, "Duplicate resource."));
            }
            decide(resource, request).map(|new| records.extend(new))
        })
        .collect();
    Decision { records, outcome }
}

/// Refuses more keys of a broker than a change may have records, before any copy of them is made:
/// brokers take keys of any name. Unknown keys of other resources are refused by name.
fn check_count(resource: &ConfigResource, keys: usize) -> Result<(), Refusal> {
    if resource.kind == ResourceKind::Broker && keys > KEYS_MAX {
        let text = "Unable to perform excessively large batch operation.";
        return Err(Refusal::new(Reason::PolicyViolation, text));
    }
    Ok(())
}

fn values(image: &Image, resource: &ConfigResource) -> BTreeMap<String, String> {
    image.configs(resource).map(|values| (**values).clone()).unwrap_or_default()
}

/// The key's value after the change, `None` for "not set".
///
/// # Errors
/// The key has no list that the change could extend or shorten.
pub fn changed(
    resource: &ConfigResource,
    key: &str,
    change: &ConfigChange,
    current: &BTreeMap<String, String>,
    rules: &dyn ConfigRules,
) -> Result<Option<String>, Refusal> {
    let (verb, items) = match change {
        ConfigChange::Set(value) => return Ok(Some(value.clone())),
        ConfigChange::Delete => return Ok(None),
        ConfigChange::Append(items) => ("APPEND", items),
        ConfigChange::Subtract(items) => ("SUBTRACT", items),
    };
    if rules.is_list(resource.kind, key) != Some(true) {
        let message = match (resource.kind, rules.is_list(resource.kind, key)) {
            (ResourceKind::Broker, None) => format!("Unknown config name: {key}"),
            (ResourceKind::Broker, _) => {
                format!("Config value {} is not allowed for config key: {key}", verb.to_lowercase())
            }
            _ => format!("Can't {verb} to key {key} because its type is not LIST."),
        };
        return Err(Refusal::new(Reason::InvalidConfig, message));
    }
    let list =
        current.get(key).cloned().or_else(|| rules.default_value(resource.kind, key)).unwrap_or_default();
    let mut list: Vec<&str> = list.split(',').filter(|item| !item.is_empty()).collect();
    if verb == "APPEND" {
        let mut present: HashSet<&str> = list.iter().copied().collect();
        list.extend(items.split(',').filter(|item| present.insert(item)));
    } else {
        let mut taken: HashSet<&str> = items.split(',').collect();
        list.retain(|item| !taken.remove(item));
    }
    Ok(Some(list.join(",")))
}

/// The longest value, in bytes.
const MAX_VALUE_LEN: usize = 32_767;

fn check_sizes(altered: &BTreeMap<String, Option<String>>) -> Result<(), Refusal> {
    if altered.keys().any(|key| key.len() > MAX_RESOURCE_NAME_LEN) {
        return Err(Refusal::new(Reason::InvalidConfig, too_long("configuration key")));
    }
    if altered.values().flatten().all(|value| value.len() <= MAX_VALUE_LEN) {
        return Ok(());
    }
    let message = format!(
        "The configuration value cannot be added because it exceeds the maximum value size of {MAX_VALUE_LEN} \
         bytes."
    );
    Err(Refusal::new(Reason::InvalidConfig, message))
}

/// If eligible leaders are recorded, `min.insync.replicas` must have the same value on every
/// broker.
fn check_min_insync_replicas(
    image: &Image,
    resource: &ConfigResource,
    altered: &BTreeMap<String, Option<String>>,
) -> Result<(), Refusal> {
    let recorded = image.features().get("eligible.leader.replicas.version").is_some_and(|level| *level > 0);
    let message = match altered.get("min.insync.replicas") {
        _ if !recorded || resource.kind != ResourceKind::Broker => return Ok(()),
        None => return Ok(()),
        Some(Some(_)) if resource.name.is_empty() => return Ok(()),
        Some(None) if resource.name.is_empty() => {
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        }
        Some(_) => "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    };
    Err(Refusal::new(Reason::InvalidConfig, message))
}

fn check_name(resource: &ConfigResource) -> Result<(), Refusal> {
    let message = match resource.kind {
        ResourceKind::Topic if !resource.name.is_empty() => return check_topic_name(&resource.name),
        ResourceKind::Topic => "Default topic resources are not allowed.",
        ResourceKind::Group if resource.name.is_empty() => "Default group resources are not allowed.",
        ResourceKind::ClientMetrics if resource.name.is_empty() => "Subscription name can't be empty",
        _ if resource.name.len() > MAX_RESOURCE_NAME_LEN => {
            return Err(Refusal::new(Reason::InvalidRequest, too_long("resource")));
        }
        _ => return Ok(()),
    };
    Err(Refusal::new(Reason::InvalidRequest, message))
}

fn check(
    image: &Image,
    resource: &ConfigResource,
    altered: BTreeMap<String, Option<String>>,
    current: &BTreeMap<String, String>,
    rules: &dyn ConfigRules,
) -> Result<Vec<Record>, Refusal> {
    let mut all = current.clone();
    all.retain(|key, _| rules.is_supported(resource.kind, key));
    for (key, value) in &altered {
        match value {
            Some(value) => drop(all.insert(key.clone(), value.clone())),
            None => drop(all.remove(key)),
        }
    }
    check_sizes(&altered)?;
    check_min_insync_replicas(image, resource, &altered)?;
    check_name(resource)?;
    rules.check(resource, &all, current)?;
    if resource.kind == ResourceKind::Topic && image.topic(&resource.name).is_none() {
        let message = format!("The topic '{}' does not exist.", resource.name);
        return Err(Refusal { reason: Reason::UnknownTopic, message: Some(message.into()) });
    }
    let records = altered
        .into_iter()
        // A broker's value is written even if it is unchanged: this makes a broker reload a key
        // store.
        .filter(|(key, value)| value.as_ref() != current.get(key) || resource.kind == ResourceKind::Broker)
        .map(|(name, value)| {
            Record::from(ConfigRecord {
                resource_type: resource.kind.id(),
                resource_name: resource.name.clone(),
                name,
                value,
            })
        });
    Ok(records.collect())
}
