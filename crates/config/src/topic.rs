//! A topic's typed configuration: its own settings override the broker's defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::sources::nearest;
use super::table::{
    COPY_LAG_BYTES, COPY_LAG_MS, DEAD_LETTER_TOPIC, DECOMPRESSED_MAX, INTERNAL_SEGMENT_BYTES, TOPIC_KEYS,
    TopicConfigKey, topic_key,
};
use super::words::words;
use super::{ConfigError, Origin, Settings, ThrottledReplicas};

mod tiers;

pub use tiers::TopicTiers;

/// Settings of a topic's logs, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type`.
    pub compression_type: CompressionType,
    /// `compression.gzip.level`; -1 is the codec's default.
    pub gzip_level: i32,
    /// `compression.zstd.level`.
    pub zstd_level: i32,
    /// `errors.deadletterqueue.group.enable`.
    pub takes_dead_letters: bool,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `flush.messages`.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `follower.replication.throttled.replicas`.
    pub follower_throttled: ThrottledReplicas,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `leader.replication.throttled.replicas`.
    pub leader_throttled: ThrottledReplicas,
    /// `levada.ack.durability` is `fdatasync`: acknowledgements wait for the device.
    pub acks_durable: bool,
    /// `remote.storage.enable` and the other keys of tiered storage.
    pub tiers: TopicTiers,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `max.decompressed.message.bytes`.
    pub max_decompressed_message_bytes: u32,
    /// `max.message.bytes`.
    pub max_message_bytes: u32,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `preallocate`.
    pub preallocate: bool,
    /// `retention.bytes`; a negative value is no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; -1 is no limit.
    pub retention_ms: i64,
    /// `segment.bytes`, or `internal.segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election: bool,
}

/// Policies for old records: deletion, compaction or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// True if segments past their retention are deleted.
    pub delete: bool,
    /// True if only the last record of each key is kept.
    pub compact: bool,
}

/// `compression.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// The compression of the producer.
    Producer,
    /// Batches are stored uncompressed.
    Uncompressed,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// `message.timestamp.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// Timestamp of the producer.
    CreateTime,
    /// Time of the append, from the broker's clock.
    LogAppendTime,
}

/// Durability that an acknowledgement by every in-sync replica promises: none (`page-cache`),
/// records on the device (`fdatasync`), or all but a number of records on the device.
pub fn durability_label(every_ack: bool, flush_messages: i64) -> Cow<'static, str> {
    match flush_messages {
        _ if every_ack => "fdatasync".into(),
        ..=1 => "fdatasync".into(),
        i64::MAX => "page-cache".into(),
        records => format!("fdatasync-every-{records}-records").into(),
    }
}

impl TopicConfig {
    /// The topic's durability label.
    pub fn durability(&self) -> Cow<'static, str> {
        durability_label(self.acks_durable, self.flush_messages)
    }

    /// The configuration of a topic with the settings `own`, on a broker with the settings
    /// `broker`.
    pub fn resolve(broker: &Settings, own: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let checked = own.iter().map(|(name, value)| checked(name, value));
        let checked: BTreeMap<_, _> = checked.collect::<Result<_, _>>()?;
        let config = Self::read(&Reader { settings: broker, own: &checked });
        config.check(
            |name| {
                if checked.contains_key(name) { Origin::Topic } else { broker.topic_origin(name) }
            },
        )?;
        Ok(config)
    }

    /// The configuration of a topic with the settings that the metadata has. Settings that are not
    /// allowed here, left by other software or by another version, count as not set, and `report`
    /// gets them. As in Kafka, the others hold, even if two of them contradict each other.
    pub fn of_stored(
        broker: &Settings,
        own: &BTreeMap<String, String>,
        mut report: impl FnMut(ConfigError),
    ) -> Self {
        let usable = own.iter().filter_map(|(name, value)| checked(name, value).map_err(&mut report).ok());
        let usable: BTreeMap<_, _> = usable.collect();
        Self::read(&Reader { settings: broker, own: &usable })
    }

    /// The configuration of a topic without settings.
    pub(super) fn defaults(settings: &Settings) -> Self {
        Self::read(&Reader { settings, own: &BTreeMap::new() })
    }

    /// Checks between keys; `origin` returns the origin of a topic key's value.
    pub(super) fn check(&self, origin: impl Fn(&str) -> Origin) -> Result<(), ConfigError> {
        let key = "min.compaction.lag.ms";
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(ConfigError::Invalid {
                key: key.to_owned(),
                value: self.min_compaction_lag_ms.to_string(),
                origin: origin(key),
                allowed: format!("no more than max.compaction.lag.ms ({})", self.max_compaction_lag_ms),
            });
        }
        Ok(())
    }

    fn read(read: &Reader<'_>) -> Self {
        let cleanup = read.text("cleanup.policy");
        Self {
            cleanup_policy: CleanupPolicy {
                delete: words(&cleanup).any(|word| word == "delete"),
                compact: words(&cleanup).any(|word| word == "compact"),
            },
            compression_type: read.compression(),
            gzip_level: read.int("compression.gzip.level"),
            zstd_level: read.int("compression.zstd.level"),
            takes_dead_letters: read.is_true(DEAD_LETTER_TOPIC),
            delete_retention_ms: read.long("delete.retention.ms"),
            file_delete_delay_ms: read.long("file.delete.delay.ms"),
            flush_messages: read.long("flush.messages"),
            flush_ms: read.long("flush.ms"),
            follower_throttled: read.throttled("follower.replication.throttled.replicas"),
            index_interval_bytes: read.size("index.interval.bytes"),
            leader_throttled: read.throttled("leader.replication.throttled.replicas"),
            acks_durable: read.text("levada.ack.durability") == "fdatasync",
            tiers: TopicTiers {
                is_enabled: read.is_true("remote.storage.enable"),
                copies: !read.is_true("remote.log.copy.disable"),
                deletes_on_disable: read.is_true("remote.log.delete.on.disable"),
                local_retention_bytes: read.long("local.retention.bytes"),
                local_retention_ms: read.long("local.retention.ms"),
                copy_lag_bytes: read.long(COPY_LAG_BYTES),
                copy_lag_ms: read.long(COPY_LAG_MS),
            },
            max_compaction_lag_ms: read.long("max.compaction.lag.ms"),
            max_decompressed_message_bytes: read.size(DECOMPRESSED_MAX),
            max_message_bytes: read.size("max.message.bytes"),
            timestamp_after_max_ms: read.long("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: read.long("message.timestamp.before.max.ms"),
            timestamp_type: match read.text("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_cleanable_dirty_ratio: read.ratio("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: read.long("min.compaction.lag.ms"),
            min_insync_replicas: read.int("min.insync.replicas"),
            preallocate: read.is_true("preallocate"),
            retention_bytes: read.long("retention.bytes"),
            retention_ms: read.long("retention.ms"),
            segment_bytes: match read.own.get(INTERNAL_SEGMENT_BYTES) {
                Some(_) => read.size(INTERNAL_SEGMENT_BYTES),
                None => read.size("segment.bytes"),
            },
            segment_index_bytes: read.size("segment.index.bytes"),
            segment_jitter_ms: read.long("segment.jitter.ms"),
            segment_ms: read.long("segment.ms"),
            unclean_leader_election: read.is_true("unclean.leader.election.enable"),
        }
    }
}

impl Settings {
    /// A topic key's value if the topic does not set it: from the first broker key with a value, in
    /// the topic's unit.
    pub fn topic_default(&self, topic: &TopicConfigKey) -> String {
        let from_broker = topic.broker.iter().find_map(|name| Some(in_topic_unit(name, self.text(name)?)));
        from_broker.or_else(|| topic.key.default.map(str::to_owned)).unwrap_or_default()
    }

    /// The origin of a topic key's default.
    pub(super) fn topic_origin(&self, name: &str) -> Origin {
        let broker = topic_key(name).map_or(&[][..], |topic| topic.broker);
        let source = broker.iter().find(|name| self.text(name).is_some());
        source.map_or(Origin::Default, |name| self.origin(name).clone())
    }
}

/// Broker keys in hours and minutes, as milliseconds; -1 stays "no limit".
fn in_topic_unit(name: &str, value: &str) -> String {
    let unit_ms = match name.rsplit('.').next() {
        Some("hours") => 3_600_000,
        Some("minutes") => 60_000,
        _ => return value.to_owned(),
    };
    match value.parse::<i64>() {
        Ok(count) if count >= 0 => (count * unit_ms).to_string(),
        _ => value.to_owned(),
    }
}

/// A setting of a topic in the form that [`Reader`] reads.
fn checked(name: &str, value: &str) -> Result<(&'static str, String), ConfigError> {
    let topic = topic_key(name).ok_or_else(|| unknown(name))?;
    let invalid = |allowed| ConfigError::Invalid {
        key: name.to_owned(),
        value: value.to_owned(),
        origin: Origin::Topic,
        allowed,
    };
    let value = topic.key.normalise(value).ok_or_else(|| invalid(topic.key.allowed()))?;
    Ok((topic.key.name, value))
}

fn unknown(name: &str) -> ConfigError {
    ConfigError::Unknown {
        key: name.to_owned(),
        origin: Origin::Topic,
        nearest: nearest(name, TOPIC_KEYS.iter().map(|topic| topic.key.name)),
    }
}

/// Typed reads of checked values.
struct Reader<'a> {
    settings: &'a Settings,
    own: &'a BTreeMap<&'static str, String>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> String {
        match self.own.get(name) {
            Some(value) => value.clone(),
            None => {
                self.settings.topic_default(topic_key(name).expect("the table has every key that is read"))
            }
        }
    }

    fn long(&self, name: &str) -> i64 {
        self.text(name).parse().expect("the table has an integer default and settings are checked")
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.long(name)).expect("the table keeps INT keys to 32 bits")
    }

    fn size(&self, name: &str) -> u32 {
        u32::try_from(self.long(name)).expect("the table keeps sizes from 0 to 2^31-1")
    }

    fn ratio(&self, name: &str) -> f64 {
        self.text(name).parse().expect("the table has a number as default and settings are checked")
    }

    fn is_true(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    fn throttled(&self, name: &str) -> ThrottledReplicas {
        ThrottledReplicas::parse(&self.text(name)).expect("the table has a list of replicas")
    }

    fn compression(&self) -> CompressionType {
        match self.text("compression.type").as_str() {
            "uncompressed" => CompressionType::Uncompressed,
            "gzip" => CompressionType::Gzip,
            "snappy" => CompressionType::Snappy,
            "lz4" => CompressionType::Lz4,
            "zstd" => CompressionType::Zstd,
            _ => CompressionType::Producer,
        }
    }
}
