//! Quotas: limits of clients, by user, client id and address.

use std::fmt;
use std::str::FromStr;

use levada_client::Cluster;
use levada_wire::StrBytes;
use levada_wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use levada_wire::messages::describe_client_quotas_request::ComponentData;
use levada_wire::messages::{
    AlterClientQuotasRequest, DescribeClientQuotasRequest, describe_client_quotas_response,
};

use crate::kafka_error;
use crate::settings::{Change, Setting};
use levada_terminal::failure::Failure;

/// Entity of a limit: Kafka's entity types, each with a name or, without one, for all that have
/// none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity(Vec<(String, Option<String>)>);

/// A limit of a quota, or its removal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    key: String,
    value: Option<f64>,
}

/// The types, as Kafka calls them.
const TYPES: [&str; 3] = ["user", "client-id", "ip"];

impl FromStr for Entity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |part: &str| {
            let (kind, name) = match part.split_once('=') {
                Some((kind, name)) => (kind, Some(name.to_owned())),
                None => (part, None),
            };
            let kind = kind.strip_suffix('s').filter(|kind| TYPES.contains(kind)).unwrap_or(kind);
            let valid = TYPES.contains(&kind) && name.as_deref() != Some("");
            valid.then(|| (kind.to_owned(), name))
        };
        let parts: Option<Vec<_>> = text.split(',').map(part).collect();
        parts.map(Self).ok_or_else(|| {
            format!(
                "{text:?} names no client: expected user=NAME, client-id=NAME or ip=ADDRESS, joined by commas"
            )
        })
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, name)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match name {
                Some(name) => write!(f, "{comma}{kind}={name}")?,
                None => write!(f, "{comma}{kind}")?,
            }
        }
        Ok(())
    }
}

impl Limit {
    /// Changes of `config set`.
    pub(super) fn from_change(change: &Change) -> Result<Self, String> {
        match change {
            Change::Set(key, value) => match value.parse::<f64>() {
                Ok(number) => Ok(Self { key: key.clone(), value: Some(number) }),
                Err(_) => Err(format!("{key}={value}: expected a number")),
            },
            _ => Err("a limit is not a list: expected KEY=NUMBER".to_owned()),
        }
    }

    /// Removal of a limit.
    pub(super) fn removed(key: &str) -> Self {
        Self { key: key.to_owned(), value: None }
    }
}

/// The limits of one client, or of all.
pub(super) fn describe(
    cluster: &mut Cluster,
    entity: Option<&Entity>,
) -> Result<Vec<(Entity, Vec<Setting>)>, Failure> {
    const EXACT: i8 = 0;
    const DEFAULT: i8 = 1;
    let mut request = DescribeClientQuotasRequest::default();
    request.strict = entity.is_some();
    let component = |(kind, name): &(String, Option<String>)| {
        let mut component = ComponentData::default();
        component.entity_type = StrBytes::from(kind.as_str());
        component.match_type = if name.is_some() { EXACT } else { DEFAULT };
        component.match_ = name.as_deref().map(StrBytes::from);
        component
    };
    request.components = entity.iter().flat_map(|entity| &entity.0).map(component).collect();
    let response = cluster.ask(&request)?;
    let checked =
        kafka_error::check(response.error_code, "describe quotas", response.error_message.as_deref());
    kafka_error::needing(checked, "describe-configs", "--cluster")?;
    let mut found: Vec<_> = response.entries.unwrap_or_default().iter().map(limits).collect();
    found.sort_by_key(|(entity, _)| entity.to_string());
    Ok(found)
}

fn limits(entry: &describe_client_quotas_response::EntryData) -> (Entity, Vec<Setting>) {
    let part = |one: &describe_client_quotas_response::EntityData| {
        (one.entity_type.as_str().to_owned(), one.entity_name.as_deref().map(str::to_owned))
    };
    let mut parts: Vec<_> = entry.entity.iter().map(part).collect();
    parts.sort_by_key(|(kind, _)| TYPES.iter().position(|known| known == kind));
    let setting = |one: &describe_client_quotas_response::ValueData| Setting {
        key: one.key.as_str().to_owned(),
        value: Some(one.value.to_string()),
        source: "quota".to_owned(),
        read_only: false,
        sensitive: false,
        synonyms: Vec::new(),
    };
    let mut settings: Vec<Setting> = entry.values.iter().map(setting).collect();
    settings.sort_by(|one, other| one.key.cmp(&other.key));
    (Entity(parts), settings)
}

/// Changes the limits of one client, all or none; or only checks if the change is possible.
pub(super) fn alter(
    cluster: &mut Cluster,
    entity: &Entity,
    limits: &[Limit],
    dry_run: bool,
) -> Result<(), Failure> {
    let mut entry = EntryData::default();
    let part = |(kind, name): &(String, Option<String>)| {
        let mut part = EntityData::default();
        part.entity_type = StrBytes::from(kind.as_str());
        part.entity_name = name.as_deref().map(StrBytes::from);
        part
    };
    entry.entity = entity.0.iter().map(part).collect();
    let operation = |limit: &Limit| {
        let mut operation = OpData::default();
        operation.key = StrBytes::from(limit.key.as_str());
        operation.value = limit.value.unwrap_or_default();
        operation.remove = limit.value.is_none();
        operation
    };
    entry.ops = limits.iter().map(operation).collect();
    let mut request = AlterClientQuotasRequest::default();
    request.entries = vec![entry];
    request.validate_only = dry_run;
    let response = cluster.ask(&request)?;
    let doing = format!("change quotas of {entity}");
    let mut results = response.entries.iter();
    let checked =
        results.try_for_each(|one| kafka_error::check(one.error_code, &doing, one.error_message.as_deref()));
    kafka_error::needing(checked, "alter-configs", "--cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_read_and_shown() {
        fn check(text: &str, shown: &str) {
            assert_eq!(text.parse::<Entity>().unwrap().to_string(), shown);
        }
        check("user=alice", "user=alice");
        check("user=alice,client-id=import", "user=alice,client-id=import");
        check("user,client-id=a=b", "user,client-id=a=b");
        check("users=alice", "user=alice");
        for text in ["", "alice", "user=", "user=alice,"] {
            assert!(text.parse::<Entity>().is_err(), "{text}");
        }
    }

    #[test]
    fn quota_limits_must_be_numbers() {
        let set = |key: &str, value: &str| Limit::from_change(&Change::Set(key.to_owned(), value.to_owned()));
        assert_eq!(set("k", "1.5"), Ok(Limit { key: "k".to_owned(), value: Some(1.5) }));
        assert!(set("k", "fast").is_err());
        assert!(Limit::from_change(&Change::Append("k".to_owned(), "1".to_owned())).is_err());
    }
}
