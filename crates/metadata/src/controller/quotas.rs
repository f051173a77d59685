//! Changing client quotas.

use std::collections::HashMap;

use super::names::{MAX_RESOURCE_NAME_LEN, too_long};
use super::topics::duplicates;
use super::{Decision, Reason, Refusal};
use crate::image::{Image, QuotaEntity};
use crate::records::{ClientQuotaRecord, Record};

/// A limit and its new value, `None` to lift it.
pub type QuotaChange = (String, Option<f64>);

/// Change of one entity's limits. Outcomes name it as the request did.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterQuota {
    /// Kind and name of each part.
    pub entity: QuotaEntity,
    /// Changes of the limits.
    pub changes: Vec<QuotaChange>,
}

/// The kind of values that a limit takes.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Whole(f64, &'static str),
    Real,
}

const USER_AND_CLIENT_KEYS: [(&str, Kind); 4] = [
    ("producer_byte_rate", Kind::Whole(i64::MAX as f64, "a LONG")),
    ("consumer_byte_rate", Kind::Whole(i64::MAX as f64, "a LONG")),
    ("request_percentage", Kind::Real),
    ("controller_mutation_rate", Kind::Real),
];
const IP_KEYS: [(&str, Kind); 1] = [("connection_creation_rate", Kind::Whole(i32::MAX as f64, "an INT"))];

/// Changes the limits of all entities, or none; the caller must check that addresses resolve. A
/// repeated entity is refused once, at its first mention, as in Kafka.
pub fn alter_client_quotas(
    image: &Image,
    requests: &[AlterQuota],
) -> Decision<Vec<(QuotaEntity, Result<(), Refusal>)>> {
    let mut decision = Decision { records: Vec::new(), outcome: Vec::<(QuotaEntity, _)>::new() };
    let mut places: HashMap<&QuotaEntity, usize> = HashMap::new();
    for request in requests {
        if let Some(place) = places.get(&request.entity) {
            let message = format!("Ignoring duplicate entity {}", shown(&request.entity));
            decision.outcome[*place].1 = Err(refuse(message));
            continue;
        }
        places.insert(&request.entity, decision.outcome.len());
        let records = alter(image, request);
        let outcome = records.map(|records| decision.records.extend(records));
        decision.outcome.push((request.entity.clone(), outcome));
    }
    decision
}

fn alter(image: &Image, request: &AlterQuota) -> Result<Vec<Record>, Refusal> {
    let AlterQuota { entity, changes } = request;
    if !duplicates(changes.iter().map(|(key, _)| key)).is_empty() {
        return Err(refuse(format!("Ignoring duplicate entity {}", shown(entity))));
    }
    let keys = keys(entity)?;
    let current = image.quotas().limits(entity);
    let mut records = Vec::new();
    for (key, value) in changes {
        let present = current.and_then(|current| current.get(key)).copied();
        match value {
            None if present.is_none() => continue,
            None => {}
            Some(value) => check(keys, key, *value)?,
        }
        if *value != present || value.is_none() {
            records.push(Record::from(ClientQuotaRecord {
                entity: entity.iter().cloned().collect(),
                key: key.clone(),
                value: value.unwrap_or_default(),
                remove: value.is_none(),
            }));
        }
    }
    Ok(records)
}

/// Limits that apply to such an entity.
fn keys(entity: &QuotaEntity) -> Result<&'static [(&'static str, Kind)], Refusal> {
    for (kind, name) in entity.iter() {
        if !["user", "client-id", "ip"].contains(&&**kind) {
            return Err(refuse(format!("Unhandled client quota entity type: {kind}")));
        }
        if name.as_deref() == Some("") {
            return Err(refuse(format!("Empty {kind} not supported")));
        }
        if name.as_ref().is_some_and(|name| name.len() > MAX_RESOURCE_NAME_LEN) {
            return Err(refuse(too_long(&format!("{kind} of a quota"))));
        }
    }
    match entity.get("ip") {
        None if entity.is_empty() => Err(refuse("Invalid empty client quota entity".to_owned())),
        None => Ok(&USER_AND_CLIENT_KEYS),
        Some(_) if entity.len() > 1 => Err(refuse(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
                .to_owned(),
        )),
        Some(_) => Ok(&IP_KEYS),
    }
}

fn check(keys: &[(&str, Kind)], key: &str, value: f64) -> Result<(), Refusal> {
    let Some((_, kind)) = keys.iter().find(|(known, _)| *known == key) else {
        return Err(refuse(format!("Invalid configuration key {key}")));
    };
    if value.is_nan() || value <= 0.0 {
        return Err(refuse(format!("Quota {key} must be greater than 0")));
    }
    match kind {
        Kind::Whole(most, name) if value > *most => {
            Err(refuse(format!("Proposed value for {key} is too large for {name}.")))
        }
        Kind::Whole(..) if (value % 1.0).abs() > 1e-6 => {
            Err(refuse(format!("{key} cannot be a fractional value.")))
        }
        Kind::Whole(..) | Kind::Real => Ok(()),
    }
}

fn refuse(message: String) -> Refusal {
    Refusal::new(Reason::InvalidRequest, message)
}

/// The entity in the form in which Kafka prints it.
fn shown(entity: &QuotaEntity) -> String {
    let parts = entity.iter().map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("null")));
    format!("ClientQuotaEntity(entries={{{}}})", parts.collect::<Vec<_>>().join(", "))
}
