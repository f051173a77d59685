//! Changing configuration.

use std::collections::BTreeMap;

use super::{ConfigRules, Decision, Reason, Refusal};
use crate::metadata::image::{ConfigResource, Image, ResourceKind};
use crate::metadata::records::{ConfigRecord, Record};

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterConfig {
    /// The key.
    pub key: String,
    /// What happens to it.
    pub change: ConfigChange,
}

/// What happens to a key's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigChange {
    /// It becomes this.
    Set(String),
    /// It falls back to its default.
    Delete,
    /// These items, separated by commas, are added to the list unless there already.
    Append(String),
    /// These items are removed from the list.
    Subtract(String),
}

/// Changes single keys, all keys of a resource or none; outcomes are in the order of `changes`.
/// For "validate only", drop the records.
pub fn alter_configs(
    image: &Image,
    changes: &[(ConfigResource, Vec<AlterConfig>)],
    rules: &dyn ConfigRules,
) -> Decision<Vec<Result<(), Refusal>>> {
    each_resource(changes, |resource, changes| {
        let current = values(image, resource);
        let mut altered = BTreeMap::new();
        for AlterConfig { key, change } in changes {
            altered.insert(key.clone(), changed(resource, key, change, &current, rules)?);
        }
        check(image, resource, altered, &current, rules)
    })
}

/// Replaces everything set on a resource; outcomes are in the order of `configs`.
/// For "validate only", drop the records.
pub fn replace_configs(
    image: &Image,
    configs: &[(ConfigResource, Vec<(String, Option<String>)>)],
    rules: &dyn ConfigRules,
) -> Decision<Vec<Result<(), Refusal>>> {
    each_resource(configs, |resource, configs| {
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
    let outcome = requests
        .iter()
        .enumerate()
        .map(|(position, (resource, request))| {
            if requests.iter().enumerate().any(|(other, (name, _))| other != position && name == resource) {
                return Err(Refusal::new(Reason::InvalidRequest, "Duplicate resource."));
            }
            decide(resource, request).map(|new| records.extend(new))
        })
        .collect();
    Decision { records, outcome }
}

fn values(image: &Image, resource: &ConfigResource) -> BTreeMap<String, String> {
    image.configs(resource).map(|values| (**values).clone()).unwrap_or_default()
}

/// The key's value after the change, `None` for "not set".
fn changed(
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
    if !rules.is_list(resource.kind, key) {
        let message = format!("Can't {verb} to key {key} because its type is not LIST.");
        return Err(Refusal::new(Reason::InvalidConfig, message));
    }
    let list =
        current.get(key).cloned().or_else(|| rules.default_value(resource.kind, key)).unwrap_or_default();
    let mut list: Vec<&str> = list.split(',').filter(|item| !item.is_empty()).collect();
    for item in items.split(',') {
        match (verb, list.iter().position(|present| *present == item)) {
            ("APPEND", None) => list.push(item),
            ("SUBTRACT", Some(position)) => drop(list.remove(position)),
            _ => {}
        }
    }
    Ok(Some(list.join(",")))
}

fn check(
    image: &Image,
    resource: &ConfigResource,
    altered: BTreeMap<String, Option<String>>,
    current: &BTreeMap<String, String>,
    rules: &dyn ConfigRules,
) -> Result<Vec<Record>, Refusal> {
    let mut all = current.clone();
    for (key, value) in &altered {
        match value {
            Some(value) => drop(all.insert(key.clone(), value.clone())),
            None => drop(all.remove(key)),
        }
    }
    rules.check(resource.kind, &all).map_err(|message| Refusal::new(Reason::InvalidConfig, message))?;
    if resource.kind == ResourceKind::Topic && image.topic(&resource.name).is_none() {
        let message = format!("The topic '{}' does not exist.", resource.name);
        return Err(Refusal { reason: Reason::UnknownTopic, message: Some(message) });
    }
    let records = altered
        .into_iter()
        // A broker's value is written even if it is the same: that is how a broker is told to read a
        // key store again.
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
