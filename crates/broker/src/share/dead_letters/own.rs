//! Dead letters in partitions that this broker leads: checked by the settings of the topic, as if a
//! client had sent them.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch;
use levada_base::compress::Compression;
use levada_config::TopicConfig;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_wire::error_code::{ErrorCode, Failure};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::replica::Partition;
use crate::replica::log_config::topic_codec;

/// Writes an uncompressed batch, and waits until the replicas in sync have it, but not longer than
/// `timeout`. The code is that of a Produce response.
pub(super) async fn append(
    broker: &Broker,
    partition: &Arc<Partition>,
    records: BytesMut,
    timeout: Duration,
) -> ErrorCode {
    match write(broker, partition, records, timeout).await {
        Ok(()) => ErrorCode::None,
        Err(failure) => {
            partition.traffic().produce_failed();
            failure.code
        }
    }
}

async fn write(
    broker: &Broker,
    partition: &Arc<Partition>,
    records: BytesMut,
    timeout: Duration,
) -> Result<(), Failure> {
    partition.check_leader(-1)?;
    let leader_epoch = partition.leadership().leader_epoch();
    if partition.shortage().is_some() {
        return Err(ErrorCode::NotEnoughReplicas.into());
    }
    let own = partition.clone();
    let records = off_shard(move || in_form(records, &own.config())).await?;
    let bytes = records.len() as u64;
    broker.stats().produced(bytes);
    // Before the append: a role that changes during the append ends this leadership.
    let led = partition.led();
    let batch = Append { leader_epoch, ..Append::client(records) };
    let submitted = partition.append(batch, now_ms()).committed(led, || Instant::now() + timeout);
    let appended = tokio::select! {
        biased;
        result = submitted.wait() => result?,
        () = partition.lane().waits_in_vain() => return Err(ErrorCode::NotLeaderOrFollower.into()),
    };
    let count = (appended.last_offset - appended.base_offset + 1).unsigned_abs();
    partition.traffic().produced(bytes, count);
    Ok(())
}

/// The batch in the form in which the topic stores it. Compression takes time of the calling
/// thread.
fn in_form(records: BytesMut, config: &TopicConfig) -> Result<BytesMut, Failure> {
    if records.len() as u64 > u64::from(config.max_message_bytes) {
        return Err(ErrorCode::MessageTooLarge.into());
    }
    if config.cleanup_policy.compact {
        for record in batch::records(&records)? {
            if record?.key.is_none() {
                return Err(ErrorCode::InvalidRecord.into());
            }
        }
    }
    let codec = topic_codec(config).filter(|(codec, _)| *codec != Compression::None);
    let Some((codec, level)) = codec else { return Ok(records) };
    let compressed = batch::recompress(&records, codec, level);
    compressed.map_err(|error| Failure::new(ErrorCode::UnknownServerError, error.to_string()))
}

#[cfg(test)]
mod tests {
    use levada_base::batch::{BatchView, Builder, records};

    use super::*;

    fn config(settings: &[(&str, &str)]) -> TopicConfig {
        let own = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TopicConfig::resolve(levada_config::BrokerConfig::default().settings(), &own).unwrap()
    }

    #[test]
    fn dead_letter_batches_use_the_topic_codec() {
        let mut batch = Builder::new();
        batch.push(5, Some(b"key"), Some(&[7; 4_000]));
        let plain = batch.build().unwrap();
        for (name, codec) in [
            ("producer", Compression::None),
            ("uncompressed", Compression::None),
            ("zstd", Compression::Zstd),
            ("gzip", Compression::Gzip),
        ] {
            let stored = in_form(plain.clone(), &config(&[("compression.type", name)])).unwrap();
            assert_eq!(BatchView::parse(&stored).unwrap().compression().unwrap(), codec, "{name}");
            assert_eq!(records(&stored).unwrap().count(), 1, "{name}");
        }
    }

    #[test]
    fn dead_letters_obey_topic_settings() {
        let mut keyless = Builder::new();
        keyless.push(5, Some(b"key"), None).push(5, None, Some(b"value"));
        let keyless = keyless.build().unwrap();
        let judge = |setting| in_form(keyless.clone(), &config(&[setting])).map_err(|failure| failure.code);
        assert!(judge(("cleanup.policy", "delete")).is_ok());
        assert_eq!(judge(("cleanup.policy", "compact")), Err(ErrorCode::InvalidRecord));
        assert_eq!(judge(("max.message.bytes", "60")), Err(ErrorCode::MessageTooLarge));
    }
}
