//! Client quotas in the image.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::metadata::records::ClientQuotaRecord;

/// Whom a limit is for: kind (`user`, `client-id` or `ip`) and name of each part; no name stands for all that have
/// no limit of their own.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// Limits by what they limit.
pub type QuotaLimits = BTreeMap<String, f64>;

/// All limits.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<BTreeMap<QuotaEntity, QuotaLimits>>);

impl Quotas {
    /// What is set on one entity.
    pub fn limits(&self, entity: &QuotaEntity) -> Option<&QuotaLimits> {
        self.0.get(entity)
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
