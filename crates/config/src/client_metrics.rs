//! Configuration of client metrics subscriptions. Like a Kafka without a metrics plug-in, the
//! broker stores them and requests no metrics from clients.

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

/// False if the text is no regular expression in Java either. Java's syntax has more than the
/// parser knows, which counts as valid: no expression is ever used here.
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
