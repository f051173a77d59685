//! Client quotas in the image.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::records::ClientQuotaRecord;

/// Subject of a limit: kind (`user`, `client-id` or `ip`) and name of each part, in the order of
/// the kinds; no name means all subjects without a separate limit. Clones share the parts: a
/// request may name tens of thousands of entities.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuotaEntity(Arc<[QuotaPart]>);

/// Kind and name of one part of an entity.
pub type QuotaPart = (String, Option<String>);

impl QuotaEntity {
    /// The name of the part of that kind, if there is one.
    pub fn get(&self, kind: &str) -> Option<&Option<String>> {
        self.0.iter().find(|part| part.0 == kind).map(|part| &part.1)
    }

    /// Parts of the entity.
    pub fn iter(&self) -> std::slice::Iter<'_, QuotaPart> {
        self.0.iter()
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no part.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<QuotaPart> for QuotaEntity {
    /// If several parts have one kind, the last of them counts.
    fn from_iter<I: IntoIterator<Item = QuotaPart>>(parts: I) -> Self {
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.reverse();
        parts.sort_by(|one, other| one.0.cmp(&other.0));
        parts.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(parts.into())
    }
}

impl<const N: usize> From<[QuotaPart; N]> for QuotaEntity {
    fn from(parts: [QuotaPart; N]) -> Self {
        parts.into_iter().collect()
    }
}

/// Limits of one entity, by the name of the quota.
pub type QuotaLimits = BTreeMap<String, f64>;

/// All client quotas.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<BTreeMap<QuotaEntity, QuotaLimits>>);

impl Quotas {
    /// Limits of one entity.
    pub fn limits(&self, entity: &QuotaEntity) -> Option<&QuotaLimits> {
        self.0.get(entity)
    }

    /// True if every limit equals that in `other`.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }

    /// Every entity with its limits.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &QuotaLimits)> {
        self.0.iter()
    }

    pub(super) fn apply(&mut self, record: &ClientQuotaRecord) {
        let entity: QuotaEntity = record.entity.iter().cloned().collect();
        let quotas = Arc::make_mut(&mut self.0);
        let limits = quotas.entry(entity.clone()).or_default();
        if record.remove {
            limits.remove(&record.key);
        } else {
            limits.insert(record.key.clone(), record.value);
        }
        if limits.is_empty() {
            quotas.remove(&entity);
        }
    }
}
