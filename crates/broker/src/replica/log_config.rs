//! Configuration of a log: the values of its topic override those of the broker.

use levada_base::compress::Compression;
use levada_config::{BrokerConfig, CompressionType, TimestampType, TopicConfig, Values};
use levada_log::{AppendBy, LogConfig, Tiering};
use levada_metadata::controller::is_internal;
use levada_tiered::record::METADATA_TOPIC;

/// The configuration of a topic with these values.
pub(crate) fn topic_config(broker: &BrokerConfig, topic: &str, own: Option<&Values>) -> TopicConfig {
    let mut config = TopicConfig::of_stored(broker.settings(), own.unwrap_or(&Values::new()), |error| {
        tracing::error!(topic, %error, "ignored a stored setting of a topic; alter or delete it");
    });
    // As in Kafka, the key has no effect in the topics that the brokers themselves need.
    config.tiers.is_enabled &= !is_internal(topic) && topic != METADATA_TOPIC;
    config
}

/// The configuration of the log of a topic's partition.
pub(crate) fn log_config(broker: &BrokerConfig, topic: &TopicConfig) -> LogConfig {
    // A topic that is only compacted loses nothing because of age or size.
    let limit = |value: i64| if topic.cleanup_policy.delete { value } else { -1 };
    LogConfig {
        segment_bytes: topic.segment_bytes,
        segment_ms: if topic.cleanup_policy.compact {
            topic.segment_ms.min(topic.max_compaction_lag_ms)
        } else {
            topic.segment_ms
        },
        segment_jitter_ms: topic.segment_jitter_ms,
        index_interval_bytes: topic.index_interval_bytes,
        segment_index_bytes: topic.segment_index_bytes,
        max_message_bytes: topic.max_message_bytes,
        timestamp_type: match topic.timestamp_type {
            TimestampType::CreateTime => levada_log::TimestampType::CreateTime,
            TimestampType::LogAppendTime => levada_log::TimestampType::LogAppendTime,
        },
        retention_bytes: limit(topic.retention_bytes),
        retention_ms: limit(topic.retention_ms),
        tiering: tiering(broker, topic),
        local_retention_bytes: topic.local_retention_bytes(),
        local_retention_ms: topic.local_retention_ms(),
        delete_retention_ms: topic.delete_retention_ms,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        producer_id_expiration_ms: broker.producer_id_expiration_ms,
        append_by: if broker.mapped_append { AppendBy::Mapped } else { AppendBy::Pwrite },
    }
}

/// The part of a topic's logs that remote storage has. The broker's `log.cleanup.policy` may demand
/// compaction of a topic that has it: the copies stay, and no others are made.
pub(crate) fn tiering(broker: &BrokerConfig, topic: &TopicConfig) -> Tiering {
    match (broker.remote_log.is_enabled && topic.tiers.is_enabled, topic.tiers.copies) {
        (false, _) => Tiering::Local,
        (true, true) if !topic.cleanup_policy.compact => Tiering::Copied,
        (true, _) => Tiering::ReadOnly,
    }
}

/// Codec and level of the batches of a topic; none if producers choose them.
pub(crate) fn topic_codec(config: &TopicConfig) -> Option<(Compression, Option<i32>)> {
    Some(match config.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => (Compression::None, None),
        CompressionType::Gzip => (Compression::Gzip, Some(config.gzip_level).filter(|level| *level > 0)),
        CompressionType::Snappy => (Compression::Snappy, None),
        CompressionType::Lz4 => (Compression::Lz4, None),
        CompressionType::Zstd => (Compression::Zstd, Some(config.zstd_level)),
    })
}

#[cfg(test)]
mod tests;
