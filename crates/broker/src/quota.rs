//! Client quotas: the limit of a client, its recent use, and the delay that results.
//!
//! No clock, socket or disk: time is a parameter. Rates are measured as Kafka measures them: over
//! eleven samples of a second, the last of them unfinished.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use levada_metadata::image::{QuotaEntity, QuotaLimits, Quotas};

mod book;
mod mutations;
mod uses;

pub(crate) use self::book::QuotaBook;
pub(crate) use self::mutations::MutationQuota;
use self::mutations::{Taking, TokenBucket};
use self::uses::AccountMeter;
pub use self::uses::QuotaUse;

/// Kafka's defaults of `quota.window.num` and `quota.window.size.seconds`.
const SAMPLES: usize = 11;
const SAMPLE_MS: i64 = 1000;

/// Limited quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Used {
    /// Bytes of Produce requests.
    Produced,
    /// Record bytes of Fetch responses.
    Fetched,
    /// Time of the shards, in percent of one.
    Time,
    /// Partitions created and deleted.
    Mutations,
}

impl Used {
    fn key(self) -> &'static str {
        match self {
            Self::Produced => "producer_byte_rate",
            Self::Fetched => "consumer_byte_rate",
            Self::Time => "request_percentage",
            Self::Mutations => "controller_mutation_rate",
        }
    }

    /// The longest wait at a time.
    fn wait_ms_max(self) -> f64 {
        match self {
            Self::Produced | Self::Fetched | Self::Mutations => f64::from(u32::MAX),
            Self::Time => SAMPLE_MS as f64,
        }
    }
}

/// Part of an entity that is an address, and the key of its limit.
const ADDRESS: &str = "ip";
const CONNECTIONS: &str = "connection_creation_rate";

/// Number of addresses with a meter from which on the broker drops the inactive ones.
const ADDRESSES_KEPT: usize = 1024;

/// Maximum number of addresses: one client may have a whole network of them. At the maximum the
/// half is dropped that was used longest ago.
const ADDRESSES_MAX: usize = 100_000;

/// Time without use after which a meter is dropped, as in Kafka; also the interval of this check.
const METER_KEPT_MS: i64 = 3_600_000;
const SWEEP_MS: i64 = 60_000;

/// Meters at most: a client chooses its id. At the maximum the half is dropped that was used
/// longest ago: a client with many ids escapes its limits in any case, and no other may pay for
/// that.
const METERS_MAX: usize = 100_000;

/// User of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    pub(crate) user: &'a str,
    pub(crate) client_id: &'a str,
}

/// The clients that share one limit: all clients of a user, all with a client id, or all with both.
/// Contains hashes of the names, which may be long.
type Account = (Used, Option<u64>, Option<u64>);

/// A part of an entity: absent, the default for all clients without a separate limit, or one name.
type Part<'a> = Option<Option<&'a str>>;

/// All limits and the measured use.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    limits: Quotas,
    meters: HashMap<Account, AccountMeter>,
    hashes: RandomState,
    /// Time of the last search for unused meters.
    swept_ms: i64,
    /// Partitions that clients may create and delete.
    buckets: HashMap<Account, TokenBucket>,
    /// Time of the last search for unused buckets.
    buckets_swept_ms: i64,
    /// `connection_creation_rate` of single addresses.
    address_limits: HashMap<IpAddr, f64>,
    connections: HashMap<IpAddr, QuotaMeter>,
    /// Time of the last check for addresses without recent connections.
    addresses_swept_ms: i64,
}

impl Accounts {
    /// Applies changed limits; the measured use stays.
    pub(crate) fn set_limits(&mut self, limits: Quotas) {
        // An address has several forms, and any of them may name the entity.
        let address = |(entity, limits): (&QuotaEntity, &QuotaLimits)| {
            let address: IpAddr = entity.get(ADDRESS)?.as_ref()?.parse().ok()?;
            Some((address.to_canonical(), *limits.get(CONNECTIONS)?))
        };
        self.address_limits = limits.iter().filter_map(address).collect();
        self.limits = limits;
    }

    /// The limit of `used` that holds for the client, per second, if any.
    pub(crate) fn limit(&self, used: Used, client: Client<'_>) -> Option<f64> {
        self.find(used, client).map(|(_, limit)| limit)
    }

    /// Books a client's use; returns the time that the client has to wait before it continues.
    pub(crate) fn book(&mut self, used: Used, client: Client<'_>, amount: f64, now_ms: i64) -> Duration {
        let Some((account, limit)) = self.find(used, client) else { return Duration::ZERO };
        let rate = self.meter((account, limit), client, now_ms).add(amount, now_ms);
        if rate <= limit {
            return Duration::ZERO;
        }
        let window_ms = (SAMPLES as i64 - 1) * SAMPLE_MS;
        let wait_ms = ((rate - limit) / limit * window_ms as f64).min(used.wait_ms_max());
        Duration::from_millis(wait_ms.round() as u64)
    }

    /// True if the client has used nothing in the last seconds.
    pub(crate) fn is_idle(&mut self, used: Used, client: Client<'_>, now_ms: i64) -> bool {
        let Some((account, _)) = self.find(used, client) else { return true };
        self.meters.get_mut(&account).is_none_or(|one| one.meter.add(0.0, now_ms) <= 0.0)
    }

    /// Cancels the booking of a response that is not sent.
    pub(crate) fn take_back(&mut self, used: Used, client: Client<'_>, amount: f64, now_ms: i64) {
        if let Some(found) = self.find(used, client) {
            self.meter(found, client, now_ms).add(-amount, now_ms);
        }
    }

    /// Takes tokens for partitions that a client creates or deletes (`controller_mutation_rate`).
    pub(crate) fn take_mutations(
        &mut self,
        client: Client<'_>,
        partitions: usize,
        is_strict: bool,
        now_ms: i64,
    ) -> Taking {
        let Some((account, limit)) = self.find(Used::Mutations, client) else { return Taking::default() };
        if (now_ms - self.buckets_swept_ms).abs() >= SWEEP_MS {
            self.buckets_swept_ms = now_ms;
            self.buckets.retain(|_, bucket| (now_ms - bucket.refilled_ms).abs() < METER_KEPT_MS);
        }
        if self.buckets.len() >= METERS_MAX && !self.buckets.contains_key(&account) {
            drop_older_half(&mut self.buckets, |bucket| bucket.refilled_ms);
        }
        let bucket = self.buckets.entry(account).or_insert_with(|| TokenBucket::full(limit, now_ms));
        bucket.take(partitions as f64, is_strict, (limit, now_ms))
    }

    /// The meter of an account with its limit, which may be new.
    fn meter(
        &mut self,
        (account, limit): (Account, f64),
        client: Client<'_>,
        now_ms: i64,
    ) -> &mut QuotaMeter {
        if (now_ms - self.swept_ms).abs() >= SWEEP_MS {
            self.swept_ms = now_ms;
            self.meters.retain(|_, one| (now_ms - one.meter.used_ms()).abs() < METER_KEPT_MS);
        }
        if self.meters.len() >= METERS_MAX && !self.meters.contains_key(&account) {
            drop_older_half(&mut self.meters, |one| one.meter.used_ms());
        }
        let one = self.meters.entry(account).or_insert_with(|| AccountMeter::of(&account, client));
        one.limited_to(limit)
    }

    /// Books a connection from an address (`connection_creation_rate`); returns the time after
    /// which it is closed. A connection that has to wait does not count.
    pub(crate) fn book_connection(&mut self, address: IpAddr, now_ms: i64) -> Duration {
        let of_any = || {
            let limits = self.limits.limits(&QuotaEntity::from([(ADDRESS.to_owned(), None)]));
            limits.and_then(|limits| limits.get(CONNECTIONS)).copied()
        };
        let limit = self.address_limits.get(&address).copied().or_else(of_any);
        let Some(limit) = limit.filter(|limit| !limit.is_nan()) else { return Duration::ZERO };
        let is_known = self.connections.contains_key(&address);
        let since_ms = (now_ms - self.addresses_swept_ms).abs();
        if !is_known && self.connections.len() >= ADDRESSES_KEPT && since_ms >= SAMPLE_MS {
            self.addresses_swept_ms = now_ms;
            self.connections.retain(|_, meter| meter.add(0.0, now_ms) > 0.0);
        }
        if !is_known && self.connections.len() >= ADDRESSES_MAX {
            drop_older_half(&mut self.connections, QuotaMeter::used_ms);
        }
        let meter = self.connections.entry(address).or_default();
        let rate = meter.add(1.0, now_ms);
        if rate <= limit {
            return Duration::ZERO;
        }
        meter.add(-1.0, now_ms);
        let window_ms = (SAMPLES as i64 - 1) * SAMPLE_MS;
        // No wait would satisfy a limit of 0.
        let wait_ms =
            ((rate - limit) / limit.max(f64::MIN_POSITIVE) * window_ms as f64).min(SAMPLE_MS as f64);
        Duration::from_millis(wait_ms.round() as u64)
    }

    /// The most specific limit that matches the client, in Kafka's order. Kafka accepts a value
    /// that is not a number, and no use exceeds it.
    fn find(&self, used: Used, client: Client<'_>) -> Option<(Account, f64)> {
        let (user, client_id) = (Some(Some(client.user)), Some(Some(client.client_id)));
        let default = Some(None);
        let levels: [(Part<'_>, Part<'_>); 8] = [
            (user, client_id),
            (user, default),
            (user, None),
            (default, client_id),
            (default, default),
            (default, None),
            (None, client_id),
            (None, default),
        ];
        let found = levels.into_iter().find_map(|(user, client_id)| {
            let parts = [("user", user), ("client-id", client_id)].into_iter();
            let parts = parts.filter_map(|(kind, name)| Some((kind.to_owned(), name?.map(str::to_owned))));
            let limit = *self.limits.limits(&parts.collect::<QuotaEntity>())?.get(used.key())?;
            let account = (
                used,
                user.map(|_| self.hashes.hash_one(client.user)),
                client_id.map(|_| self.hashes.hash_one(client.client_id)),
            );
            Some((account, limit))
        });
        found.filter(|(_, limit)| !limit.is_nan())
    }
}

/// Drops the half of the entries that was used longest ago.
fn drop_older_half<K, V>(entries: &mut HashMap<K, V>, used_ms: impl Fn(&V) -> i64) {
    let mut times: Vec<i64> = entries.values().map(&used_ms).collect();
    let mut excess = times.len().div_ceil(2);
    let Some(middle) = excess.checked_sub(1) else { return };
    let (_, limit_ms, _) = times.select_nth_unstable(middle);
    let limit_ms = *limit_ms;
    entries.retain(|_, entry| {
        let is_dropped = excess > 0 && used_ms(entry) <= limit_ms;
        excess -= usize::from(is_dropped);
        !is_dropped
    });
}

/// Use in the last seconds.
#[derive(Debug, Default)]
pub(crate) struct QuotaMeter {
    /// Begin and amount of each sample, oldest first.
    samples: VecDeque<(i64, f64)>,
}

impl QuotaMeter {
    /// Start of the last sample, ms.
    fn used_ms(&self) -> i64 {
        self.samples.back().map_or(i64::MIN / 2, |(begin_ms, _)| *begin_ms)
    }

    /// Adds an amount; the rate with it, per second.
    fn add(&mut self, amount: f64, now_ms: i64) -> f64 {
        if self.samples.back().is_none_or(|(begin_ms, _)| now_ms - begin_ms >= SAMPLE_MS) {
            self.samples.push_back((now_ms, 0.0));
        }
        let oldest_ms = now_ms - SAMPLES as i64 * SAMPLE_MS;
        while self.samples.front().is_some_and(|(begin_ms, _)| *begin_ms <= oldest_ms) {
            self.samples.pop_front();
        }
        if let Some((_, sum)) = self.samples.back_mut() {
            *sum += amount;
        }
        self.rate(now_ms)
    }

    /// The rate at this time, per second.
    fn rate(&self, now_ms: i64) -> f64 {
        let oldest_ms = now_ms - SAMPLES as i64 * SAMPLE_MS;
        let recent = || self.samples.iter().filter(|(begin_ms, _)| *begin_ms > oldest_ms);
        let begin_ms = recent().next().map_or(now_ms, |(begin_ms, _)| *begin_ms);
        let elapsed_ms = now_ms - begin_ms;
        // A client that has just come is given credit for the seconds before.
        let missing = (SAMPLES as i64 - 1 - elapsed_ms / SAMPLE_MS).max(0);
        let window_ms = elapsed_ms + missing * SAMPLE_MS;
        recent().map(|(_, sum)| sum).sum::<f64>() * 1000.0 / window_ms as f64
    }
}

#[cfg(test)]
mod tests;
