//! Configuration of single groups: Kafka's keys, their bounds, and the broker keys behind them.

use super::describe::{ConfigSource, Described, Synonym, layers};
use super::key::{ConfigKey, Valid, boolean, int, list, long, string};
use super::layers::Values;
use super::{BrokerConfig, Origin};

mod share;
mod streams;

pub use share::{ShareGroupSettings, ShareStart};
use share::{check_dead_letter_topic, check_offset_reset};
pub use streams::StreamsGroupSettings;
use streams::{check_assignor, check_tags};

/// A key that a group may set. The value that holds without it, Kafka's default, has the name
/// `broker`.
struct GroupKey {
    key: ConfigKey,
    broker: &'static str,
    /// The minimum and the maximum value that a broker allows, each with its broker key.
    bounds: [Option<Bound>; 2],
}

/// A broker key, and Kafka's default where the table lacks it.
type Bound = (&'static str, i64);

const fn bounded(key: ConfigKey, broker: &'static str, [least, most]: [Bound; 2]) -> GroupKey {
    GroupKey { key, broker, bounds: [Some(least), Some(most)] }
}

const fn at_most(key: ConfigKey, broker: &'static str, most: Bound) -> GroupKey {
    GroupKey { key, broker, bounds: [None, Some(most)] }
}

const fn not_below(key: ConfigKey, broker: &'static str, least: Bound) -> GroupKey {
    GroupKey { key, broker, bounds: [Some(least), None] }
}

const fn free(key: ConfigKey, broker: &'static str) -> GroupKey {
    GroupKey { key, broker, bounds: [None, None] }
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

const RECORD_LOCK_DURATION_MS: &str = "share.record.lock.duration.ms";
const DELIVERY_COUNT_LIMIT: &str = "share.delivery.count.limit";
const PARTITION_MAX_RECORD_LOCKS: &str = "share.partition.max.record.locks";
const OFFSET_RESET: &str = "share.auto.offset.reset";
const ISOLATION_LEVEL: &str = "share.isolation.level";
const RENEW_ENABLE: &str = "share.renew.acknowledge.enable";
const DEAD_LETTER_TOPIC: &str = "errors.deadletterqueue.topic.name";
const DEAD_LETTER_COPIES: &str = "errors.deadletterqueue.copy.record.enable";

const RACK_AWARE_TAGS: &str = "streams.rack.aware.assignment.tags";
const ASSIGNOR_NAME: &str = "streams.assignor.name";
const TASK_OFFSET_INTERVAL_MS: &str = "streams.task.offset.interval.ms";
const WARMUP_REPLICAS: &str = "streams.num.warmup.replicas";
const RECOVERY_LAG: &str = "streams.acceptable.recovery.lag";

/// Keys of Kafka 4.4. They are described only if they are set: tools and records of Kafka 4.3 do
/// not know them.
const OF_KAFKA_4_4: [&str; 7] = [
    DEAD_LETTER_TOPIC,
    DEAD_LETTER_COPIES,
    RACK_AWARE_TAGS,
    ASSIGNOR_NAME,
    TASK_OFFSET_INTERVAL_MS,
    WARMUP_REPLICAS,
    RECOVERY_LAG,
];

const OTHER_KEYS: [GroupKey; 15] = [
    free(
        list(RACK_AWARE_TAGS, "Keys of the client tags that members of a streams group must have.")
            .default(""),
        "group.streams.rack.aware.assignment.tags",
    ),
    free(string(ASSIGNOR_NAME, "Assignor of a streams group: sticky."), "group.streams.assignors"),
    not_below(
        int(TASK_OFFSET_INTERVAL_MS, "Time between two reports of the offsets of tasks.")
            .default("60000")
            .at_least(1),
        "group.streams.task.offset.interval.ms",
        ("group.streams.min.task.offset.interval.ms", 15_000),
    ),
    at_most(
        int(WARMUP_REPLICAS, "Warm-up tasks at a time; Kafka 4.4 assigns none yet.").default("2").at_least(0),
        "group.streams.num.warmup.replicas",
        ("group.streams.max.warmup.replicas", 20),
    ),
    free(
        long(RECOVERY_LAG, "Records that a task may lack to become active.").default("10000").at_least(0),
        "group.streams.acceptable.recovery.lag",
    ),
    free(
        string(DEAD_LETTER_TOPIC, "Topic for the dead letters of a share group; empty for none.").default(""),
        DEAD_LETTER_TOPIC,
    ),
    free(
        boolean(DEAD_LETTER_COPIES, "Dead letters have the key and the value of their record.")
            .default("false"),
        DEAD_LETTER_COPIES,
    ),
    bounded(
        int(RECORD_LOCK_DURATION_MS, "Time for which a consumer holds an acquired record.")
            .default("30000")
            .at_least(1000),
        "group.share.record.lock.duration.ms",
        [
            ("group.share.min.record.lock.duration.ms", 15_000),
            ("group.share.max.record.lock.duration.ms", 60_000),
        ],
    ),
    bounded(
        int(DELIVERY_COUNT_LIMIT, "Maximum number of delivery attempts of a record.")
            .default("5")
            .at_least(2),
        "group.share.delivery.count.limit",
        [("group.share.min.delivery.count.limit", 2), ("group.share.max.delivery.count.limit", 10)],
    ),
    bounded(
        int(PARTITION_MAX_RECORD_LOCKS, "Maximum number of records of a partition acquired at a time.")
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
        string(ISOLATION_LEVEL, "Isolation level of share groups.")
            .default("read_uncommitted")
            .valid(Valid::OneOf(&["read_committed", "read_uncommitted"])),
        ISOLATION_LEVEL,
    ),
    free(
        boolean(RENEW_ENABLE, "Allow share consumers to renew their record locks.").default("true"),
        RENEW_ENABLE,
    ),
    at_most(
        int("streams.num.standby.replicas", "Standby replicas of each task.").default("0").at_least(0),
        "group.streams.num.standby.replicas",
        ("group.streams.max.standby.replicas", 2),
    ),
    free(
        int("streams.initial.rebalance.delay.ms", "Time that the first rebalance waits for more members.")
            .default("3000")
            .at_least(0),
        "group.streams.initial.rebalance.delay.ms",
    ),
];

/// The session timeout and the heartbeat interval of each kind of group.
const SESSIONS: [[&str; 2]; 3] = [
    ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"],
    ["share.session.timeout.ms", "share.heartbeat.interval.ms"],
    ["streams.session.timeout.ms", "streams.heartbeat.interval.ms"],
];
const CONSUMER_ASSIGNMENT_INTERVAL_MS: &str = "consumer.assignment.interval.ms";
const SHARE_ASSIGNMENT_INTERVAL_MS: &str = "share.assignment.interval.ms";

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
        None if known.key.name == DEAD_LETTER_TOPIC => check_dead_letter_topic(value.trim()),
        None if known.key.name == RACK_AWARE_TAGS => check_tags(value),
        None if known.key.name == ASSIGNOR_NAME => check_assignor(value.trim()),
        None => check_bounds(broker, known, value),
    })?;
    let number = |name| broker.group_number(name, values);
    match SESSIONS.iter().find(|[session, heartbeat]| number(session) <= number(heartbeat)) {
        None => Ok(()),
        Some([session, heartbeat]) => Err(format!("{session} must be greater than {heartbeat}")),
    }
}

fn check_bounds(broker: &BrokerConfig, known: &GroupKey, value: &str) -> Result<(), String> {
    let (Ok(value), [least, most]) = (value.trim().parse::<i64>(), known.bounds) else { return Ok(()) };
    let name = known.key.name;
    if let Some(least) = least.filter(|least| value < broker.bound(*least)) {
        return Err(format!("{name} must be greater than or equal to {}", broker.bound_name(least)));
    }
    if let Some(most) = most.filter(|most| value > broker.bound(*most)) {
        return Err(format!("{name} must be less than or equal to {}", broker.bound_name(most)));
    }
    Ok(())
}

impl BrokerConfig {
    /// Session timeout of members of a consumer group with these settings, if the group sets it.
    pub fn own_session_timeout_ms(&self, own: &Values) -> Option<i32> {
        self.own_number("consumer.session.timeout.ms", own)
    }

    /// Heartbeat interval of members of a consumer group with these settings, if the group sets
    /// one.
    pub fn own_heartbeat_interval_ms(&self, own: &Values) -> Option<i32> {
        self.own_number("consumer.heartbeat.interval.ms", own)
    }

    /// Assignment interval of a consumer group with these settings, if the group sets one.
    pub fn own_consumer_assignment_interval_ms(&self, own: &Values) -> Option<i32> {
        self.own_number(CONSUMER_ASSIGNMENT_INTERVAL_MS, own)
    }

    /// Session timeout of members of a share group with these settings, if the group sets it.
    pub fn own_share_session_timeout_ms(&self, own: &Values) -> Option<i32> {
        self.own_number("share.session.timeout.ms", own)
    }

    /// Heartbeat interval of members of a share group with these settings, if the group sets one.
    pub fn own_share_heartbeat_interval_ms(&self, own: &Values) -> Option<i32> {
        self.own_number("share.heartbeat.interval.ms", own)
    }

    /// Assignment interval of a share group with these settings, if the group sets one.
    pub fn own_share_assignment_interval_ms(&self, own: &Values) -> Option<i32> {
        self.own_number(SHARE_ASSIGNMENT_INTERVAL_MS, own)
    }

    /// The number in force for a group with these settings, if the group sets one.
    fn own_number(&self, name: &str, own: &Values) -> Option<i32> {
        own.get(name)?;
        i32::try_from(self.group_number(name, own)?).ok()
    }

    /// The number in force for a group with these settings. Bounds may have been drawn closer since
    /// one was set.
    fn group_number(&self, name: &str, own: &Values) -> Option<i64> {
        let known = keys().find(|known| known.key.name == name)?;
        let inherited = self.settings().text(known.broker).or(known.key.default);
        let number = |text: &str| text.trim().parse::<i64>().ok();
        let value = own.get(name).and_then(|own| number(own)).or_else(|| number(inherited?))?;
        let [least, most] = known.bounds.map(|bound| bound.map(|bound| self.bound(bound)));
        Some(value.min(most.unwrap_or(i64::MAX)).max(least.unwrap_or(i64::MIN)))
    }

    /// A bound: the broker's where its table has the key, otherwise Kafka's default.
    fn bound(&self, (name, default): Bound) -> i64 {
        self.settings().text(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// A bound in messages: its key, as in Kafka 4.3, or the value of a key that the table lacks,
    /// as in Kafka 4.4.
    fn bound_name(&self, (name, default): Bound) -> String {
        self.settings().text(name).map_or_else(|| default.to_string(), |_| name.to_owned())
    }

    /// Every group key, for a group with these settings, in order of name.
    pub fn describe_group(&self, own: &Values) -> Vec<Described> {
        let is_shown = |name: &str| !OF_KAFKA_4_4.contains(&name) || own.contains_key(name);
        let shown = keys().filter(|known| is_shown(known.key.name));
        let mut rows: Vec<Described> = shown.map(|known| self.describe_group_key(known, own)).collect();
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
