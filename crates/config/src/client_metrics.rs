//! Configuration of client metrics subscriptions: their checks, and their values for client
//! telemetry.

use regex_syntax::ast::ErrorKind;
use regex_syntax::ast::parse::Parser;

use super::Origin;
use super::describe::{ConfigSource, Described, Synonym};
use super::key::{ConfigKey, int, list};
use super::layers::Values;
use super::words::words;

const KEYS: [ConfigKey; 3] = [
    int("interval.ms", "Interval at which clients send metrics.").default("300000"),
    list("match", "Clients that send metrics, as name=expression.").default(""),
    list("metrics", "Prefixes of the metrics to send.").default(""),
];

const INTERVAL_MS_DEFAULT: i32 = 300_000;
const INTERVAL_MS: std::ops::RangeInclusive<i64> = 100..=3_600_000;

/// Attributes by which a subscription matches clients.
const MATCHED: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// Error of a subscription, one of Kafka's two.
pub enum Wrong {
    /// `INVALID_REQUEST`
    Request(String),
    /// `INVALID_CONFIG`
    Config(String),
}

/// True if a subscription may set the key.
pub fn is_client_metrics_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name)
}

/// Checks that a subscription may have these values.
pub fn check_client_metrics(values: &Values) -> Result<(), Wrong> {
    if let Some(unknown) = values.keys().find(|name| !is_client_metrics_key(name)) {
        return Err(Wrong::Request(format!("Unknown client metrics configuration: {unknown}")));
    }
    for key in &KEYS {
        if let Some(refusal) = values.get(key.name).and_then(|value| key.refusal(value)) {
            return Err(Wrong::Config(refusal));
        }
    }
    let interval = values.get("interval.ms").and_then(|value| value.trim().parse().ok());
    if let Some(interval) = interval.filter(|interval| !INTERVAL_MS.contains(interval)) {
        return Err(Wrong::Request(format!(
            "Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )));
    }
    let patterns = values.get("match").map_or("", String::as_str);
    match words(patterns).find(|pattern| !is_pattern(pattern)) {
        Some(pattern) => Err(Wrong::Config(format!("Illegal client matching pattern: {pattern}"))),
        None => Ok(()),
    }
}

fn is_pattern(pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split('=').collect();
    matches!(
        &parts[..],
        [name, value] if MATCHED.contains(&name.trim()) && !value.is_empty() && is_expression(value.trim())
    )
}

/// False if the text is no regular expression in Java either. Syntax that only Java supports counts
/// as valid here: the module that compares clients refuses it.
fn is_expression(text: &str) -> bool {
    let Err(error) = Parser::new().parse(text) else { return true };
    !matches!(
        error.kind(),
        ErrorKind::ClassUnclosed
            | ErrorKind::ClassRangeInvalid
            | ErrorKind::EscapeUnexpectedEof
            | ErrorKind::GroupUnclosed
            | ErrorKind::GroupUnopened
            | ErrorKind::RepetitionCountDecimalEmpty
            | ErrorKind::RepetitionCountInvalid
            | ErrorKind::RepetitionCountUnclosed
            | ErrorKind::RepetitionMissing
    )
}

/// Values of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetrics {
    /// Prefixes of the names of its metrics.
    pub metrics: Vec<String>,
    /// Interval between two pushes, in milliseconds.
    pub interval_ms: i32,
    /// Attributes and the expressions that they have to match.
    pub patterns: Vec<(String, String)>,
}

impl ClientMetrics {
    /// The subscription with these settings, which [`check_client_metrics`] accepts.
    pub fn of(values: &Values) -> Self {
        let value = |at: usize| {
            let key: &ConfigKey = &KEYS[at];
            values.get(key.name).map(String::as_str).or(key.default).unwrap_or_default()
        };
        let patterns = words(value(1)).filter_map(|pattern| pattern.split_once('='));
        Self {
            metrics: words(value(2)).map(str::to_owned).collect(),
            interval_ms: value(0).trim().parse().unwrap_or(INTERVAL_MS_DEFAULT),
            patterns: patterns
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        }
    }
}

/// Every key of a subscription with these settings.
pub fn describe_client_metrics(own: &Values) -> Vec<Described> {
    let rows = KEYS.iter().map(|key| {
        let set = own.get(key.name).map(|value| value.trim().to_owned());
        let source = if set.is_some() { ConfigSource::ClientMetrics } else { ConfigSource::Default };
        let synonym = set.clone().map(|value| Synonym { name: key.name.into(), value: Some(value), source });
        Described {
            name: key.name.into(),
            value: set.clone().or_else(|| key.default.map(str::to_owned)),
            source,
            origin: if set.is_some() { Origin::ClientMetrics } else { Origin::Default },
            synonyms: synonym.into_iter().collect(),
            kind: key.kind,
            sensitive: false,
            read_only: false,
            doc: key.doc,
        }
    });
    rows.collect()
}
