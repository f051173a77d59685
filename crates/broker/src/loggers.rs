//! Levels of the log by logger, as Kafka's resource BROKER_LOGGER shows and changes them. A logger
//! is a part of the program; its name is the path of a module with dots, for Kafka's tools take no
//! colons. `root` has the level of all that is not named.
//!
//! A process has one log. The program that starts it installs the way to change it ([`install`]);
//! changes last until the process ends.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use levada_wire::error_code::{ErrorCode, Failure};

/// The logger of everything that no other names.
pub const ROOT: &str = "root";

/// Names of the loggers except [`ROOT`].
const NAMES: &[&str] = &[
    "levada_broker",
    "levada_broker.access",
    "levada_broker.api",
    "levada_broker.broker",
    "levada_broker.cluster",
    "levada_broker.controller",
    "levada_broker.coordinator",
    "levada_broker.error_map",
    "levada_broker.fetchers",
    "levada_broker.peers",
    "levada_broker.publishing",
    "levada_broker.remote_reads",
    "levada_broker.replica",
    "levada_broker.server",
    "levada_broker.share",
    "levada_broker.share_partitions",
    "levada_broker.telemetry",
    "levada_broker.tiered",
    "levada_broker.tls",
    "levada_broker.transaction",
    "levada_broker.transfers",
    "levada_config",
    "levada_config.dynamic",
    "levada_coordination",
    "levada_coordination.group",
    "levada_coordination.share_state",
    "levada_coordination.txn",
    "levada_log",
    "levada_log.compact",
    "levada_log.partition",
    "levada_log.recover",
    "levada_log.segment",
    "levada_log.writer",
    "levada_metadata",
    "levada_metadata.store",
    "levada_process",
    "levada_process.descriptors",
    "levada_process.tasks",
    "levada_web",
    "levada_web.console",
];

/// A level of Kafka's, and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// The logger writes no lines.
    Off,
    /// Like `OFF`: no line has this level here.
    Fatal,
    /// Lines about errors.
    Error,
    /// Lines about warnings and errors.
    Warn,
    /// Also lines about usual events.
    Info,
    /// Also lines about details.
    Debug,
    /// All lines.
    Trace,
}

/// The levels that clients may set, in the order of Kafka's message.
const SETTABLE: [LogLevel; 6] =
    [LogLevel::Debug, LogLevel::Error, LogLevel::Fatal, LogLevel::Info, LogLevel::Trace, LogLevel::Warn];

impl LogLevel {
    /// Name as in Kafka.
    fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }

    /// Name in a filter of the log.
    fn filter(self) -> &'static str {
        match self {
            Self::Off | Self::Fatal => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Levels by the path of a module, such as `levada_broker::server`, and by [`ROOT`].
pub type LogLevels = BTreeMap<String, LogLevel>;

/// Lays directives such as `info,levada_broker::server=debug` over the filter of the start.
pub type ApplyFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The levels in force.
pub(crate) struct Loggers {
    /// Levels at the start, by the name of a logger.
    base: LogLevels,
    /// Levels set since, which hold instead, by the name of a logger.
    changed: Mutex<LogLevels>,
    apply: ApplyFilter,
}

static INSTALLED: OnceLock<Loggers> = OnceLock::new();

/// Registers the log levels of this process at its start, and the function that changes them. Only
/// the first call has an effect.
pub fn install(base: LogLevels, apply: ApplyFilter) {
    let _ = INSTALLED.set(Loggers::new(base, apply));
}

/// The levels of this process's log; none if its program has installed no way to change them.
pub(crate) fn installed() -> Option<&'static Loggers> {
    INSTALLED.get()
}

/// A change of one logger's level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LevelChange {
    /// Sets this level.
    Set(String),
    /// Restores the level that the logger had at the start.
    Delete,
    /// An operation that Kafka refuses for loggers, by name.
    Refused(&'static str),
    /// An unknown operation.
    Unknown(i8),
}

impl Loggers {
    fn new(base: LogLevels, apply: ApplyFilter) -> Self {
        let base = base.into_iter().map(|(path, level)| (path.replace("::", "."), level)).collect();
        Self { base, changed: Mutex::default(), apply }
    }

    /// Each logger and its level, by name.
    pub(crate) fn levels(&self) -> Vec<(&'static str, &'static str)> {
        let changed = self.changed.lock();
        let mut levels: Vec<_> =
            NAMES.iter().map(|name| (*name, self.level(&changed, name).name())).collect();
        levels.push((ROOT, self.level(&changed, ROOT).name()));
        levels
    }

    /// The effective level of a logger: its own, or that of its closest parent.
    fn level(&self, changed: &LogLevels, name: &str) -> LogLevel {
        let own = |name: &str| changed.get(name).or_else(|| self.base.get(name)).copied();
        let mut above = Some(name);
        while let Some(name) = above {
            if let Some(level) = own(name) {
                return level;
            }
            above = name.rsplit_once('.').map(|(above, _)| above);
        }
        own(ROOT).unwrap_or(LogLevel::Off)
    }

    /// Changes the levels of these loggers, all or none; with `validate_only` nothing changes.
    pub(crate) fn alter(&self, changes: &[(&str, LevelChange)], validate_only: bool) -> Result<(), Failure> {
        let mut held = self.changed.lock();
        let mut next = held.clone();
        for (name, change) in changes {
            match check(name, change)? {
                Some(level) => next.insert((*name).to_owned(), level),
                None => next.remove(*name),
            };
        }
        if validate_only {
            return Ok(());
        }
        let directive = |(name, level): (&String, &LogLevel)| match name.as_str() {
            ROOT => level.filter().to_owned(),
            name => format!("{}={}", name.replace('.', "::"), level.filter()),
        };
        let directives: Vec<String> = next.iter().map(directive).collect();
        let failed =
            |error| Failure::new(ErrorCode::UnknownServerError, format!("cannot change the log: {error}"));
        (self.apply)(&directives.join(",")).map_err(failed)?;
        *held = next;
        Ok(())
    }
}

/// The new level, or none for that of the start; the errors are Kafka's.
fn check(name: &str, change: &LevelChange) -> Result<Option<LogLevel>, Failure> {
    let invalid = |message: String| Failure::new(ErrorCode::InvalidRequest, message);
    let wrong = |message: String| Failure::new(ErrorCode::InvalidConfig, message);
    let exists = || {
        if name == ROOT || NAMES.contains(&name) {
            Ok(())
        } else {
            Err(wrong(format!("Logger {name} does not exist!")))
        }
    };
    match change {
        LevelChange::Set(level) => {
            exists()?;
            let known = SETTABLE.into_iter().find(|known| known.name() == level);
            known.map(Some).ok_or_else(|| {
                let names = SETTABLE.map(LogLevel::name).join(", ");
                wrong(format!(
                    "Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are {names}"
                ))
            })
        }
        LevelChange::Delete => {
            exists()?;
            match name {
                ROOT => Err(invalid("Removing the log level of the root logger is not allowed".to_owned())),
                _ => Ok(None),
            }
        }
        LevelChange::Refused(operation) => {
            Err(invalid(format!("{operation} operation is not allowed for the BROKER_LOGGER resource")))
        }
        LevelChange::Unknown(operation) => Err(invalid(format!(
            "Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        ))),
    }
}

#[cfg(test)]
mod tests;
