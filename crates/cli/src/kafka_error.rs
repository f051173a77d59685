//! Kafka's error codes for users. A refused setting of a topic gets the nearest known key.

use levada_config::TOPIC_KEYS;
use levada_terminal::failure::Failure;
pub(crate) use levada_terminal::kafka_error::{ask_as, is_refusal, name, needing, needing_all};
use levada_wire::error_code::ErrorCode;

use crate::hints;

/// `Err` for a code that is not 0; `doing` is the operation, `said` the broker's message, if any.
pub(crate) fn check(code: i16, doing: &str, said: Option<&str>) -> Result<(), Failure> {
    levada_terminal::kafka_error::check(code, doing, said).map_err(|failure| match next(code, said) {
        Some(next) => failure.try_next(next),
        None => failure,
    })
}

/// The next step for a setting that the topic cannot have.
fn next(code: i16, said: Option<&str>) -> Option<String> {
    let (_, unknown) = said
        .filter(|_| code == ErrorCode::InvalidConfig.code())?
        .split_once("Unknown topic config name: ")?;
    let unknown = unknown.split_whitespace().next().unwrap_or_default();
    Some(match nearest_topic_key(unknown) {
        Some(known) if known == unknown => format!(
            "set {unknown} in the configuration of the brokers: Kafka's controllers refuse it as a setting of a topic"
        ),
        Some(nearest) => format!("{nearest}; levada topic describe NAME --all lists every key"),
        None => "levada topic describe NAME --all lists every key".to_owned(),
    })
}

/// The topic key nearest to an unknown one.
fn nearest_topic_key(unknown: &str) -> Option<&'static str> {
    let keys = TOPIC_KEYS.iter().map(|topic| topic.key.name);
    hints::nearest(unknown, keys)
}

#[cfg(test)]
mod tests;
