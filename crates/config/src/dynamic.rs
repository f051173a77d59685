//! Dynamic configuration: the two layers above flags, environment and file. The metadata stores
//! them. This module validates them and builds a configuration from all layers.

use super::foreign::{self, Foreign};
use super::kafka::kafka_key;
use super::layers::{DynamicLayers, Values};
use super::sources::{Differences, no_such_key};
use super::{BrokerConfig, ConfigErrors, ConfigKey, ConfigType, Dynamic, broker_key, cluster, prefix};

const FIXED: &str = "Cannot update these configs dynamically";

const CLEANERS: &str = "log.cleaner.threads";

/// Numbers of threads. A value that is unset means all cores here, and has no bounds.
const THREADS: [&str; 6] = [
    CLEANERS,
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

impl BrokerConfig {
    /// This configuration with other dynamic layers: `own` for this broker, `cluster` for all
    /// brokers. Values that the table does not allow, left by other software, are logged and count
    /// as not set.
    pub fn with_dynamic(&self, own: &Values, cluster: &Values) -> Result<Self, ConfigErrors> {
        let layers = DynamicLayers { own: usable(own), cluster: usable(cluster) };
        Self::from_settings(self.settings().with_dynamic(layers))
    }

    /// This configuration with the dynamic layers that the metadata has. Values that do not go with
    /// the rest of the configuration, such as a lower bound above the upper one, are logged and
    /// count as not set; the others hold. The error is that of the configuration without any of
    /// them.
    pub fn with_stored(&self, own: &Values, cluster: &Values) -> Result<Self, ConfigErrors> {
        let stored = DynamicLayers { own: usable(own), cluster: usable(cluster) };
        let with = |layers: &DynamicLayers| Self::from_settings(self.settings().with_dynamic(layers.clone()));
        if let Ok(config) = with(&stored) {
            return Ok(config);
        }
        let DynamicLayers { own, cluster } = stored;
        // A key without a row goes with everything.
        let (left_own, own): (Values, Values) =
            own.into_iter().partition(|(name, _)| prefix::row(name).is_some());
        let (left_cluster, cluster): (Values, Values) =
            cluster.into_iter().partition(|(name, _)| prefix::row(name).is_some());
        let mut held = DynamicLayers { own, cluster };
        let mut config = with(&held)?;
        let of_layer = |is_own: bool, values: Values| values.into_iter().map(move |one| (is_own, one));
        let mut left: Vec<_> = of_layer(true, left_own).chain(of_layer(false, left_cluster)).collect();
        // As long as something is taken: a value may go only with another one.
        loop {
            let (count, mut refused) = (left.len(), Vec::new());
            for (is_own, (name, value)) in left {
                let mut next = held.clone();
                let layer = if is_own { &mut next.own } else { &mut next.cluster };
                layer.insert(name.clone(), value.clone());
                match with(&next) {
                    Ok(fits) => (held, config) = (next, fits),
                    Err(errors) => refused.push(((is_own, (name, value)), errors)),
                }
            }
            if refused.is_empty() || refused.len() == count {
                refused.iter().for_each(|((_, (name, _)), errors)| {
                    tracing::error!(key = name, error = %errors, "ignored a stored value that contradicts the rest of the configuration; alter or delete it");
                });
                return Ok(config);
            }
            left = refused.into_iter().map(|(one, _)| one).collect();
        }
    }

    /// This configuration with those values of `fresh`, read later from the same sources, that may
    /// change without a restart. The error is that of the combination.
    pub fn reloaded(&self, fresh: &Self) -> Result<(Self, Differences), ConfigErrors> {
        let (settings, differences) = self.settings().reloaded(fresh.settings());
        Ok((Self::from_settings(settings)?, differences))
    }

    /// `min.insync.replicas` without the dynamic layers.
    pub fn first_min_insync_replicas(&self) -> i32 {
        let text = self.settings().before_the_start("min.insync.replicas");
        text.and_then(|text| text.parse().ok())
            .expect("the table has an integer default and settings are checked")
    }

    /// This configuration with other values of this single broker.
    pub fn with_own(&self, own: &Values) -> Result<Self, ConfigErrors> {
        self.with_dynamic(own, &self.settings().dynamic().cluster)
    }

    /// True if one of the dynamic layers may have these values; `whole_cluster` selects the layer.
    /// The error is Kafka's message where Kafka refuses too. An unknown name is allowed, as in
    /// Kafka, because plug-ins define keys.
    pub fn check_dynamic(&self, whole_cluster: bool, values: &Values) -> Result<(), String> {
        let those = |which: &dyn Fn(&str) -> bool, message: &str| {
            let those: Vec<&str> = values.keys().map(String::as_str).filter(|name| which(name)).collect();
            if those.is_empty() { Ok(()) } else { Err(format!("{message}: [{}]", those.join(", "))) }
        };
        those(&is_fixed, FIXED)?;
        those(
            &|name| {
                !prefix::is_prefixed(name)
                    && known(name).is_some_and(|key| key.dynamic == Dynamic::PerListener)
            },
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        )?;
        if let Some(refusal) = values.iter().find_map(|(name, value)| refusal(name, value)) {
            return Err(refusal);
        }
        if whole_cluster {
            those(
                &is_of_one_broker,
                "Cannot update these configs at default cluster level, broker id must be specified",
            )?;
        }
        let stays = |name: &str| prefix::row(name).is_some_and(|key| key.dynamic == Dynamic::ReadOnly);
        those(&stays, FIXED)?;
        let DynamicLayers { own, cluster } = self.settings().dynamic();
        let (own, cluster) = if whole_cluster { (own, values) } else { (values, cluster) };
        let changed = self.with_dynamic(own, cluster).map_err(|errors| errors.to_string())?;
        changed.check_assignment_intervals()?;
        self.check_threads(&changed)
    }

    /// Refuses numbers of threads that differ too much from those in force, as Kafka does, whose
    /// pools change by steps.
    fn check_threads(&self, changed: &Self) -> Result<(), String> {
        let number = |config: &Self, name| config.settings().text(name)?.trim().parse::<i64>().ok();
        for name in THREADS {
            let (Some(old), Some(new)) = (number(self, name), number(changed, name)) else { continue };
            let (few, many) = (new < old / 2, old > 0 && new > old * 2);
            let why = match name {
                _ if !few && !many => continue,
                CLEANERS if few => {
                    format!("Log cleaner threads cannot be reduced to less than half the current value {old}")
                }
                CLEANERS => {
                    format!(
                        "Log cleaner threads cannot be increased to more than double the current value {old}"
                    )
                }
                _ => {
                    let bound = if few { "be at least half" } else { "not be greater than double" };
                    format!(
                        "Dynamic thread count update validation failed for {name}={new}, value should {bound} the \
                         current value {old}"
                    )
                }
            };
            return Err(format!(
                "Invalid value org.apache.kafka.common.config.ConfigException: {why} for configuration Invalid dynamic \
                 configuration"
            ));
        }
        Ok(())
    }

    /// Checks the assignment intervals against each other, as Kafka does.
    fn check_assignment_intervals(&self) -> Result<(), String> {
        let number = |name: &str| self.settings().text(name).and_then(|text| text.parse::<i64>().ok());
        for kind in ["consumer", "share", "streams"] {
            let [least, value, most] =
                ["min.", "", "max."].map(|bound| format!("group.{kind}.{bound}assignment.interval.ms"));
            if number(&value) < number(&least) {
                return Err(format!("{value} must be greater than or equal to {least}"));
            }
            if number(&value) > number(&most) {
                return Err(format!("{value} must be less than or equal to {most}"));
            }
        }
        Ok(())
    }
}

/// The reason why this value cannot be set, in Kafka's words if Kafka has the same reason.
fn refusal(name: &str, value: &str) -> Option<String> {
    let key = known(name)?;
    if let Some(refusal) = key.refusal(value) {
        return Some(refusal);
    }
    match foreign_verdict(name, value)? {
        Foreign::Refused(_) if key.kind == ConfigType::Class => Some(format!(
            "Invalid value {value} for configuration {}: Class {value} could not be found.",
            key.name
        )),
        Foreign::Refused(reason) => {
            Some(format!("Invalid value {} for configuration {name}: {reason}", key.shown(value)))
        }
        Foreign::Noted(_) => None,
    }
}

fn foreign_verdict(name: &str, value: &str) -> Option<Foreign> {
    if prefix::row(name).is_some() { None } else { foreign::verdict(name, value) }
}

/// The key of the table or of Kafka's for a name with or without a listener's prefix.
pub(super) fn known(name: &str) -> Option<&'static ConfigKey> {
    prefix::row(name).or_else(|| {
        let bare = foreign::bare_foreign(name);
        broker_key(bare).or_else(|| kafka_key(bare).map(|known| &known.key))
    })
}

/// The type of a broker key that the table or Kafka has, written without a prefix.
pub fn broker_kind(name: &str) -> Option<ConfigType> {
    if prefix::is_prefixed(name) { None } else { known(name).map(|key| key.kind) }
}

/// The default of a broker key that the table or Kafka has.
pub fn broker_default(name: &str) -> Option<&'static str> {
    known(name)?.default
}

/// Reason for which a key that is set on a broker at run time has no effect: as of
/// [`without_effect`](foreign::without_effect), or the key is unknown, or unknown without a
/// cluster. Kafka's brokers keep such keys too.
pub fn without_effect_on_broker(name: &str, is_alone: bool) -> Option<String> {
    let name = prefix::canonical(name);
    let unknown = || {
        let is_known = prefix::row(&name).is_some() || kafka_key(foreign::bare_foreign(&name)).is_some();
        (!is_known).then(|| no_such_key(&name))
    };
    if is_alone && cluster::is_for_clusters(&name) {
        Some("the broker is its own controller".to_owned())
    } else {
        foreign::without_effect(&name).map(str::to_owned).or_else(unknown)
    }
}

fn usable(values: &Values) -> Values {
    let mut usable = Values::new();
    for (name, value) in values {
        if is_fixed(name) || prefix::row(name).is_some_and(|key| !may_change(name, key)) {
            tracing::error!(
                key = name,
                "ignored a stored value: the key changes only with a restart; set it in the configuration file and delete the stored value"
            );
            continue;
        }
        let Some(key) = known(name) else {
            usable.insert(name.clone(), value.clone());
            continue;
        };
        match (key.normalise(value), foreign_verdict(name, value)) {
            (Some(_), Some(Foreign::Refused(reason))) => tracing::error!(
                key = name,
                value = key.shown(value),
                reason,
                "ignored a stored value that Levada cannot serve; delete it"
            ),
            (Some(value), _) => drop(usable.insert(name.clone(), value)),
            (None, _) => tracing::error!(
                key = name,
                value = key.shown(value),
                allowed = key.allowed(),
                "ignored a stored value that is not allowed; alter or delete it"
            ),
        }
    }
    usable
}

/// True if neither Kafka nor Levada changes the key without a restart. A separate error reports a
/// missing listener prefix. For single listeners Kafka accepts every key.
fn is_fixed(name: &str) -> bool {
    let fixed = |key: &ConfigKey| key.dynamic == Dynamic::ReadOnly;
    match kafka_key(name) {
        Some(known) => fixed(&known.key),
        None => prefix::row(name).is_some_and(fixed),
    }
}

/// True if the whole cluster cannot have a value for this name.
fn is_of_one_broker(name: &str) -> bool {
    const OF_ALL_LISTENERS: [&str; 3] =
        ["max.connection.creation.rate", "max.connections", "num.network.threads"];
    match prefix::bare(name) {
        Some(bare) => !OF_ALL_LISTENERS.contains(&bare),
        None => kafka_key(name)
            .is_some_and(|known| matches!(known.key.dynamic, Dynamic::PerListener | Dynamic::PerBroker)),
    }
}

/// True if a dynamic layer may set `key` under this name.
pub(super) fn may_change(name: &str, key: &ConfigKey) -> bool {
    match key.dynamic {
        Dynamic::ReadOnly => false,
        Dynamic::PerListener => prefix::is_prefixed(name),
        Dynamic::PerBroker | Dynamic::ClusterWide => true,
    }
}
