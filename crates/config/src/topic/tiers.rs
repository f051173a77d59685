//! The part of a topic's configuration that tiered storage needs, and Kafka's checks of it.

use super::TopicConfig;

/// Value of a local limit that takes the limit of the whole log.
const AS_WHOLE: i64 = -2;

/// `remote.storage.enable` and the other keys of tiered storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicTiers {
    /// `remote.storage.enable`. Without effect where `remote.log.storage.system.enable` is off.
    pub is_enabled: bool,
    /// False if `remote.log.copy.disable` is set.
    pub copies: bool,
    /// `remote.log.delete.on.disable`.
    pub deletes_on_disable: bool,
    /// `local.retention.bytes`; -2 is `retention.bytes`.
    pub local_retention_bytes: i64,
    /// `local.retention.ms`; -2 is `retention.ms`.
    pub local_retention_ms: i64,
    /// `remote.copy.lag.bytes`; -1 is `local.retention.bytes`.
    pub copy_lag_bytes: i64,
    /// `remote.copy.lag.ms`; -1 is `local.retention.ms`.
    pub copy_lag_ms: i64,
}

impl TopicConfig {
    /// `local.retention.bytes`, by default `retention.bytes`.
    pub fn local_retention_bytes(&self) -> i64 {
        self.local_or(self.tiers.local_retention_bytes, self.retention_bytes)
    }

    /// `local.retention.ms`, by default `retention.ms`.
    pub fn local_retention_ms(&self) -> i64 {
        self.local_or(self.tiers.local_retention_ms, self.retention_ms)
    }

    /// `remote.copy.lag.bytes`, by default `local.retention.bytes`; -1 for no limit.
    pub fn copy_lag_bytes(&self) -> i64 {
        if self.tiers.copy_lag_bytes < 0 { self.local_retention_bytes() } else { self.tiers.copy_lag_bytes }
    }

    /// `remote.copy.lag.ms`, by default `local.retention.ms`; -1 for no limit.
    pub fn copy_lag_ms(&self) -> i64 {
        if self.tiers.copy_lag_ms < 0 { self.local_retention_ms() } else { self.tiers.copy_lag_ms }
    }

    fn local_or(&self, local: i64, whole: i64) -> i64 {
        if local == AS_WHOLE { whole } else { local }
    }

    /// Kafka's checks of a topic that has, had or gets remote storage. `was_enabled`: it has remote
    /// storage before the change. `is_served`: `remote.log.storage.system.enable`.
    ///
    /// # Errors
    /// Kafka's message for the first contradiction.
    pub fn check_tiers(&self, was_enabled: bool, is_served: bool) -> Result<(), String> {
        let tiers = &self.tiers;
        if !tiers.is_enabled {
            return if was_enabled && !tiers.deletes_on_disable { Err(KEEPS.to_owned()) } else { Ok(()) };
        }
        if !is_served {
            return Err(NOT_SERVED.to_owned());
        }
        if self.cleanup_policy.compact {
            return Err(COMPACTED.to_owned());
        }
        self.check_local_limits()?;
        let differs = |local: i64, whole: i64| !tiers.copies && local != AS_WHOLE && local != whole;
        let pairs = [
            ("bytes", tiers.local_retention_bytes, self.retention_bytes),
            ("ms", tiers.local_retention_ms, self.retention_ms),
        ];
        match pairs.into_iter().find(|(_, local, whole)| differs(*local, *whole)) {
            Some((unit, ..)) => Err(format!(
                "When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` must be set to the identical value because there will be no more logs copied to the remote storage."
            )),
            None => Ok(()),
        }
    }

    /// Checks that no more is to be kept locally than in all.
    ///
    /// # Errors
    /// Kafka's message for the first limit that is too high.
    pub fn check_local_limits(&self) -> Result<(), String> {
        let pairs = [
            ("bytes", self.tiers.local_retention_bytes, self.retention_bytes),
            ("ms", self.tiers.local_retention_ms, self.retention_ms),
        ];
        for (unit, local, whole) in pairs {
            if whole < 0 || local == AS_WHOLE || (0..=whole).contains(&local) {
                continue;
            }
            let must = if local == -1 {
                format!("Value must not be -1 as retention.{unit} value is set as {whole}.")
            } else {
                format!("Value must not be more than retention.{unit} property value: {whole}")
            };
            return Err(format!("Invalid value {local} for configuration local.retention.{unit}: {must}"));
        }
        self.check_copy_lag()
    }

    /// Checks that a segment is copied before local retention could delete it.
    fn check_copy_lag(&self) -> Result<(), String> {
        let pairs = [
            ("bytes", self.tiers.copy_lag_bytes, self.local_retention_bytes()),
            ("ms", self.tiers.copy_lag_ms, self.local_retention_ms()),
        ];
        match pairs.into_iter().find(|(_, lag, local)| *lag > 0 && (0..*lag).contains(local)) {
            Some((unit, lag, local)) => Err(format!(
                "Invalid value {lag} for configuration remote.copy.lag.{unit}: Value must not exceed local.retention.{unit} (effective value: {local})"
            )),
            None => Ok(()),
        }
    }
}

const KEEPS: &str = "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote storage and delete all remote data, please set `remote.storage.enable=false,remote.log.delete.on.disable=true`.";
const NOT_SERVED: &str = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.";
const COMPACTED: &str = "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.";

#[cfg(test)]
mod tests;
