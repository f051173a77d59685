//! Settings of a share group for the leaders of its partitions.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::{
    DEAD_LETTER_COPIES, DEAD_LETTER_TOPIC, DELIVERY_COUNT_LIMIT, ISOLATION_LEVEL, OFFSET_RESET,
    PARTITION_MAX_RECORD_LOCKS, RECORD_LOCK_DURATION_MS, RENEW_ENABLE,
};
use crate::BrokerConfig;
use crate::layers::Values;

/// Settings of a share group for the leaders of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareGroupSettings {
    /// `share.record.lock.duration.ms`.
    pub record_lock_duration_ms: u32,
    /// `share.delivery.count.limit`.
    pub delivery_count_limit: u16,
    /// `share.partition.max.record.locks`.
    pub partition_max_record_locks: u32,
    /// `share.auto.offset.reset`.
    pub start: ShareStart,
    /// `share.isolation.level` is `read_committed`.
    pub committed_only: bool,
    /// `share.renew.acknowledge.enable`.
    pub renew_enabled: bool,
    /// `errors.deadletterqueue.topic.name`; none if the group has no dead letter queue.
    pub dead_letter_topic: Option<Arc<str>>,
    /// `errors.deadletterqueue.copy.record.enable`.
    pub dead_letter_copies: bool,
}

/// First record of a partition for a share group that has no start offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareStart {
    /// The log start offset.
    Earliest,
    /// At the high watermark.
    Latest,
    /// The first record that is younger than this number of milliseconds.
    Since(i64),
}

impl BrokerConfig {
    /// The settings in force for the leaders of the partitions of a share group with these values.
    pub fn share_group(&self, own: &Values) -> ShareGroupSettings {
        // Defaults are in their bounds, and values were checked when they were set.
        let number = |name| self.group_number(name, own).unwrap_or_default();
        let text = |name: &str| own.get(name).map(|value| value.trim());
        let is_true = |name, default| text(name).map_or(default, |text| text.eq_ignore_ascii_case("true"));
        ShareGroupSettings {
            record_lock_duration_ms: u32::try_from(number(RECORD_LOCK_DURATION_MS)).unwrap_or(u32::MAX),
            delivery_count_limit: u16::try_from(number(DELIVERY_COUNT_LIMIT)).unwrap_or(u16::MAX),
            partition_max_record_locks: u32::try_from(number(PARTITION_MAX_RECORD_LOCKS)).unwrap_or(u32::MAX),
            start: text(OFFSET_RESET).and_then(start).unwrap_or(ShareStart::Latest),
            committed_only: text(ISOLATION_LEVEL) == Some("read_committed"),
            renew_enabled: is_true(RENEW_ENABLE, true),
            dead_letter_topic: text(DEAD_LETTER_TOPIC).filter(|topic| !topic.is_empty()).map(Arc::from),
            dead_letter_copies: is_true(DEAD_LETTER_COPIES, false),
        }
    }
}

/// Checks the start of a share group; the error is Kafka's sentence.
pub(super) fn check_offset_reset(value: &str) -> Result<(), String> {
    if start(value).is_some() {
        return Ok(());
    }
    Err(format!(
        "Invalid value {value} for configuration {OFFSET_RESET}: Invalid value `{value}` for configuration \
         {OFFSET_RESET}. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    ))
}

/// Checks the name of a dead letter topic; the error is Kafka's sentence.
pub(super) fn check_dead_letter_topic(value: &str) -> Result<(), String> {
    if value.starts_with("__") {
        return Err(format!("{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'"));
    }
    Ok(())
}

fn start(value: &str) -> Option<ShareStart> {
    match value {
        "earliest" => Some(ShareStart::Earliest),
        "latest" => Some(ShareStart::Latest),
        _ => value.strip_prefix("by_duration:").and_then(duration_ms).map(ShareStart::Since),
    }
}

/// A duration as in `P1DT2H3M4.5S`, in whole milliseconds; none for another text and a duration
/// that is negative. Each part may have a sign, and so may the whole.
fn duration_ms(text: &str) -> Option<i64> {
    let found = DURATION.captures(text).filter(|_| !text.ends_with(['T', 't']))?;
    let parts = [("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let mut seconds: Option<i64> = None;
    for (part, unit) in parts {
        let Some(number) = found.name(part) else { continue };
        let number = number.as_str().parse::<i64>().ok()?;
        let sum = number.checked_mul(unit).and_then(|part| seconds.unwrap_or(0).checked_add(part))?;
        seconds = Some(sum);
    }
    let is_negative = |part| found.name(part).is_some_and(|part| part.as_str().starts_with('-'));
    let sign = |part| if is_negative(part) { -1 } else { 1 };
    let fraction = found.name("fraction").map_or("", |digits| digits.as_str());
    let nanos = format!("{fraction:0<9}").parse::<i128>().ok()?;
    let nanos = i128::from(seconds?) * 1_000_000_000 + nanos * sign("seconds");
    let nanos = nanos * sign("sign");
    (nanos >= 0).then(|| i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))
}

/// The parts of a duration.
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    let number = "[-+]?[0-9]+";
    let days = format!("(?:(?<days>{number})D)?");
    let hours = format!("(?:(?<hours>{number})H)?");
    let minutes = format!("(?:(?<minutes>{number})M)?");
    let seconds = format!("(?:(?<seconds>{number})(?:[.,](?<fraction>[0-9]{{0,9}}))?S)?");
    let expression = format!(r"(?i)\A(?<sign>[-+]?)P{days}(?:T{hours}{minutes}{seconds})?\z");
    Regex::new(&expression).expect("the expression is valid")
});
