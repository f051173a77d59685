//! Use of quotas for `/metrics`: the accounts that use the largest shares of their limits.

use std::collections::BTreeSet;

use super::{Account, Accounts, Client, QuotaMeter};
use crate::stats::shortened;

/// Maximum number of accounts that one pass inspects: each inspection takes the lock that requests
/// of clients with quotas take.
const LOOKED_AT_MAX: usize = 10_000;

/// Recent use of one quota by the clients that share it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaUse {
    /// Key of the quota, such as `producer_byte_rate`.
    pub quota: &'static str,
    /// First 64 characters of the name of the user; empty if the quota is not by user.
    pub user: String,
    /// First 64 characters of the client id; empty if the quota is not by client id.
    pub client_id: String,
    /// Use per second in the last seconds, in the unit of the quota.
    pub rate: f64,
    /// Limit per second, in the unit of the quota.
    pub limit: f64,
}

/// The meter of an account, with the values for `/metrics`.
#[derive(Debug, Default)]
pub(super) struct AccountMeter {
    pub(super) meter: QuotaMeter,
    user: Box<str>,
    client_id: Box<str>,
    limit: f64,
}

impl AccountMeter {
    /// The meter of an account without use.
    pub(super) fn of((_, user, client_id): &Account, client: Client<'_>) -> Self {
        let name = |is_part: bool, name: &str| -> Box<str> {
            if is_part { shortened(name) } else { Box::default() }
        };
        Self {
            user: name(user.is_some(), client.user),
            client_id: name(client_id.is_some(), client.client_id),
            ..Self::default()
        }
    }

    /// Notes the limit that is in force.
    pub(super) fn limited_to(&mut self, limit: f64) -> &mut QuotaMeter {
        self.limit = limit;
        &mut self.meter
    }
}

impl Accounts {
    /// The accounts that have used the largest shares of their limits in the last seconds, at most
    /// this number of them.
    pub(crate) fn uses(&self, most: usize, now_ms: i64) -> Vec<QuotaUse> {
        let rated = |((used, ..), one): (&Account, &AccountMeter)| {
            let rate = one.meter.rate(now_ms);
            (rate > 0.0).then(|| (used.key(), rate, rate / one.limit.max(f64::MIN_POSITIVE)))
        };
        let looked_at = self.meters.iter().take(LOOKED_AT_MAX);
        let mut in_use: Vec<_> = looked_at.filter_map(|entry| Some((rated(entry)?, entry.1))).collect();
        in_use.sort_by(|((.., one), _), ((.., other), _)| other.total_cmp(one));
        let mut seen = BTreeSet::new();
        // Names that are cut may be equal.
        in_use.retain(|((quota, ..), one)| seen.insert((*quota, &*one.user, &*one.client_id)));
        let shown = in_use.into_iter().take(most).map(|((quota, rate, _), one)| QuotaUse {
            quota,
            user: one.user.to_string(),
            client_id: one.client_id.to_string(),
            rate,
            limit: one.limit,
        });
        shown.collect()
    }
}
