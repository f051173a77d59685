//! Configuration of single groups: Kafka's keys, their bounds, and the broker keys behind them.

use std::sync::LazyLock;

use regex::Regex;

use super::describe::{ConfigSource, Described, Synonym, layers};
use super::key::{ConfigKey, Valid, boolean, int, string};
use super::layers::Values;
use super::{BrokerConfig, Origin};

/// A key that a group may set. The value that holds without it, Kafka's default, has the name
/// `broker`.
struct GroupKey {
    key: ConfigKey,
    broker: &'static str,
    /// The minimum and the maximum value that a broker allows, each with its broker key.
    bounds: Option<[(&'static str, i64); 2]>,
}

const fn bounded(key: ConfigKey, broker: &'static str, bounds: [(&'static str, i64); 2]) -> GroupKey {
    GroupKey { key, broker, bounds: Some(bounds) }
}

const fn free(key: ConfigKey, broker: &'static str) -> GroupKey {
    GroupKey { key, broker, bounds: None }
}

/// Declares the three keys that every kind of group has.
macro_rules! member_keys {
    ($kind:literal) => {
        [
            bounded(
                int(
                    concat!($kind, ".session.timeout.ms"),
                    "Time without a heartbeat after which the coordinator removes a member.",
                )
                .default("45000")
                .at_least(1),
                concat!("group.", $kind, ".session.timeout.ms"),
                [
                    (concat!("group.", $kind, ".min.session.timeout.ms"), 45_000),
                    (concat!("group.", $kind, ".max.session.timeout.ms"), 60_000),
                ],
            ),
            bounded(
                int(concat!($kind, ".heartbeat.interval.ms"), "Heartbeat interval for members.")
                    .default("5000")
                    .at_least(1),
                concat!("group.", $kind, ".heartbeat.interval.ms"),
                [
                    (concat!("group.", $kind, ".min.heartbeat.interval.ms"), 5_000),
                    (concat!("group.", $kind, ".max.heartbeat.interval.ms"), 15_000),
                ],
            ),
            bounded(
                int(concat!($kind, ".assignment.interval.ms"), "Shortest time between two assignments.")
                    .default("1000")
                    .at_least(0),
                concat!("group.", $kind, ".assignment.interval.ms"),
                [
                    (concat!("group.", $kind, ".min.assignment.interval.ms"), 0),
                    (concat!("group.", $kind, ".max.assignment.interval.ms"), 15_000),
                ],
            ),
        ]
    };
}

const MEMBER_KEYS: [[GroupKey; 3]; 3] =
    [member_keys!("consumer"), member_keys!("share"), member_keys!("streams")];

const OFFSET_RESET: &str = "share.auto.offset.reset";

const OTHER_KEYS: [GroupKey; 8] = [
    bounded(
        int("share.record.lock.duration.ms", "Time for which a consumer holds an acquired record.")
            .default("30000")
            .at_least(1000),
        "group.share.record.lock.duration.ms",
        [
            ("group.share.min.record.lock.duration.ms", 15_000),
            ("group.share.max.record.lock.duration.ms", 60_000),
        ],
    ),
    bounded(
        int("share.delivery.count.limit", "Maximum number of delivery attempts of a record.")
            .default("5")
            .at_least(2),
        "group.share.delivery.count.limit",
        [("group.share.min.delivery.count.limit", 2), ("group.share.max.delivery.count.limit", 10)],
    ),
    bounded(
        int(
            "share.partition.max.record.locks",
            "Maximum number of records of a partition acquired at a time.",
        )
        .default("2000")
        .at_least(100),
        "group.share.partition.max.record.locks",
        [
            ("group.share.min.partition.max.record.locks", 100),
            ("group.share.max.partition.max.record.locks", 4_000),
        ],
    ),
    free(string(OFFSET_RESET, "Start of a share group without offsets.").default("latest"), OFFSET_RESET),
    free(
        string("share.isolation.level", "Isolation level of share groups.")
            .default("read_uncommitted")
            .valid(Valid::OneOf(&["read_committed", "read_uncommitted"])),
        "share.isolation.level",
    ),
    free(
        boolean("share.renew.acknowledge.enable", "Allow share consumers to renew their record locks.")
            .default("true"),
        "share.renew.acknowledge.enable",
    ),
    bounded(
        int("streams.num.standby.replicas", "Standby replicas of each task.").default("0").at_least(0),
        "group.streams.num.standby.replicas",
        [("group.streams.num.standby.replicas", 0), ("group.streams.max.standby.replicas", 2)],
    ),
    free(
        int("streams.initial.rebalance.delay.ms", "Time that the first rebalance waits for more members.")
            .default("3000")
            .at_least(0),
        "group.streams.initial.rebalance.delay.ms",
    ),
];

/// The keys that have an effect: those of consumer groups, which alone are served.
const SESSION_TIMEOUT_MS: &str = "consumer.session.timeout.ms";
const HEARTBEAT_INTERVAL_MS: &str = "consumer.heartbeat.interval.ms";

fn keys() -> impl Iterator<Item = &'static GroupKey> {
    MEMBER_KEYS.iter().flatten().chain(&OTHER_KEYS)
}

/// True if a group may set the key.
pub fn is_group_key(name: &str) -> bool {
    keys().any(|known| known.key.name == name)
}

/// Checks that a group may set these values; the error is Kafka's sentence.
pub fn check_group(broker: &BrokerConfig, values: &Values) -> Result<(), String> {
    if let Some(unknown) = values.keys().find(|name| !is_group_key(name)) {
        return Err(format!("Unknown group config name: {unknown}"));
    }
    let mut set = keys().filter_map(|known| Some((known, values.get(known.key.name)?)));
    set.try_for_each(|(known, value)| match known.key.refusal(value) {
        Some(refusal) => Err(refusal),
        None if known.key.name == OFFSET_RESET => check_offset_reset(value.trim()),
        None => check_bounds(broker, known, value),
    })?;
    let number = |name| broker.group_number(name, values);
    if number(SESSION_TIMEOUT_MS) > number(HEARTBEAT_INTERVAL_MS) {
        Ok(())
    } else {
        Err(format!("{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}"))
    }
}

/// Checks the start of a share group; the error is Kafka's sentence.
fn check_offset_reset(value: &str) -> Result<(), String> {
    if ["earliest", "latest"].contains(&value) || value.strip_prefix("by_duration:").is_some_and(is_duration)
    {
        return Ok(());
    }
    Err(format!(
        "Invalid value {value} for configuration {OFFSET_RESET}: Invalid value `{value}` for configuration \
         {OFFSET_RESET}. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    ))
}

/// True if the text is a duration as in `P1DT2H3M4.5S` that is not negative. Each part may have a
/// sign, and so may the whole.
fn is_duration(text: &str) -> bool {
    let Some(found) = DURATION.captures(text).filter(|_| !text.ends_with(['T', 't'])) else { return false };
    let parts = [("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let mut seconds: Option<i64> = None;
    for (part, unit) in parts {
        let Some(number) = found.name(part) else { continue };
        let Ok(number) = number.as_str().parse::<i64>() else { return false };
        let sum = number.checked_mul(unit).and_then(|part| seconds.unwrap_or(0).checked_add(part));
        let Some(sum) = sum else { return false };
        seconds = Some(sum);
    }
    let Some(seconds) = seconds else { return false };
    let starts_with_minus = |part| found.name(part).is_some_and(|part| part.as_str().starts_with('-'));
    let has_fraction =
        found.name("fraction").is_some_and(|digits| digits.as_str().contains(|one| one != '0'));
    // In halves of a second, which is enough for the sign.
    let fraction = i128::from(has_fraction) * if starts_with_minus("seconds") { -1 } else { 1 };
    let halves = 2 * i128::from(seconds) + fraction;
    if starts_with_minus("sign") { halves <= 0 } else { halves >= 0 }
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

fn check_bounds(broker: &BrokerConfig, known: &GroupKey, value: &str) -> Result<(), String> {
    let (Some([least, most]), Ok(value)) = (known.bounds, value.trim().parse::<i64>()) else { return Ok(()) };
    let name = known.key.name;
    if value < broker.bound(least) {
        return Err(format!("{name} must be greater than or equal to {}", least.0));
    }
    if value > broker.bound(most) {
        return Err(format!("{name} must be less than or equal to {}", most.0));
    }
    Ok(())
}

impl BrokerConfig {
    /// Session timeout of members of a consumer group with these settings, if the group sets it.
    pub fn own_session_timeout_ms(&self, own: &Values) -> Option<i32> {
        own.get(SESSION_TIMEOUT_MS)?;
        i32::try_from(self.group_number(SESSION_TIMEOUT_MS, own)?).ok()
    }

    /// Heartbeat interval of members of a consumer group with these settings, if the group sets
    /// one.
    pub fn own_heartbeat_interval_ms(&self, own: &Values) -> Option<i32> {
        own.get(HEARTBEAT_INTERVAL_MS)?;
        i32::try_from(self.group_number(HEARTBEAT_INTERVAL_MS, own)?).ok()
    }

    /// The number in force for a group with these settings. Bounds may have been drawn closer since
    /// one was set.
    fn group_number(&self, name: &str, own: &Values) -> Option<i64> {
        let known = keys().find(|known| known.key.name == name)?;
        let inherited = self.settings().text(known.broker).or(known.key.default);
        let number = |text: &str| text.trim().parse::<i64>().ok();
        let value = own.get(name).and_then(|own| number(own)).or_else(|| number(inherited?))?;
        let Some([least, most]) = known.bounds else { return Some(value) };
        Some(value.min(self.bound(most)).max(self.bound(least)))
    }

    /// A bound: the broker's where its table has the key, else Kafka's default.
    fn bound(&self, (name, default): (&str, i64)) -> i64 {
        self.settings().text(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Every group key, for a group with these settings, in order of name.
    pub fn describe_group(&self, own: &Values) -> Vec<Described> {
        let mut rows: Vec<Described> = keys().map(|known| self.describe_group_key(known, own)).collect();
        rows.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        rows
    }

    fn describe_group_key(&self, known: &GroupKey, own: &Values) -> Described {
        let ConfigKey { name, kind, default, doc, .. } = known.key;
        let mut synonyms = layers(self.settings(), std::iter::once(known.broker.into()));
        if synonyms.is_empty() {
            let value = default.map(str::to_owned);
            synonyms.push(Synonym { name: known.broker.into(), value, source: ConfigSource::Default });
        }
        if let Some(value) = own.get(name) {
            let value = Some(value.trim().to_owned());
            synonyms.insert(0, Synonym { name: name.into(), value, source: ConfigSource::Group });
        }
        let in_force = &synonyms[0];
        Described {
            name: name.into(),
            source: in_force.source,
            origin: match in_force.source {
                ConfigSource::Group => Origin::Group,
                _ => self.settings().origin(known.broker).clone(),
            },
            value: in_force.value.clone(),
            synonyms,
            kind,
            sensitive: false,
            read_only: false,
            doc,
        }
    }
}
