//! Kafka's error codes for users. A refused key of a topic or a quota gets the nearest known key.

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

/// Limits of users and client ids, and the limit of addresses.
const QUOTA_KEYS: [&str; 5] =
    ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", IP_KEY];
const IP_KEY: &str = "connection_creation_rate";

/// The next step for a key that the topic or the quota cannot have.
fn next(code: i16, said: Option<&str>) -> Option<String> {
    let is = |expected: ErrorCode| code == expected.code();
    let key_after = |text: &str| said?.split_once(text)?.1.split_whitespace().next();
    if is(ErrorCode::InvalidRequest) {
        return key_after("Invalid configuration key ").map(next_of_quota);
    }
    let unknown = key_after("Unknown topic config name: ").filter(|_| is(ErrorCode::InvalidConfig))?;
    Some(match nearest_topic_key(unknown) {
        Some(known) if known == unknown => format!(
            "set {unknown} in the configuration of the brokers: Kafka's controllers refuse it as a setting of a topic"
        ),
        Some(nearest) => format!("{nearest}; levada topic describe NAME --all lists every key"),
        None => "levada topic describe NAME --all lists every key".to_owned(),
    })
}

/// The next step for a key that the quota cannot have.
fn next_of_quota(unknown: &str) -> String {
    match hints::nearest(unknown, QUOTA_KEYS.into_iter()) {
        Some(known) if known == unknown => {
            format!("{IP_KEY} for ip=ADDRESS, other keys for users and client ids")
        }
        Some(nearest) => nearest.to_owned(),
        None => format!("one of {}", QUOTA_KEYS.join(", ")),
    }
}

/// The topic key nearest to an unknown one.
fn nearest_topic_key(unknown: &str) -> Option<&'static str> {
    let keys = TOPIC_KEYS.iter().map(|topic| topic.key.name);
    hints::nearest(unknown, keys)
}

#[cfg(test)]
mod tests;
