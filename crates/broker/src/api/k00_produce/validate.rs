//! Demands of a topic's configuration on a batch: keys where it is compacted, timestamps near the
//! broker's clock, and its own compression. A topic with defaults costs a comparison with the times
//! that the check of the batch found in its records; the timestamps of the header are not used.

use bytes::BytesMut;
use levada_base::batch::{self, BatchError, BatchView, CheckedBatch, RecompressError, Record};
use levada_base::compress::Compression;
use levada_config::{TimestampType, TopicConfig};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::StrBytes;
use levada_wire::produce::RecordError;

use super::Rejected;
use crate::replica::log_config::topic_codec;

/// A record without a timestamp is never too old or too new.
const NO_TIMESTAMP: i64 = -1;

/// Number of records that are named one by one. Megabytes compressed may hold millions of them.
const RECORD_ERRORS_MAX: usize = 1000;

/// Number of errors the sentence for people names.
const NAMED_ERRORS: usize = 3;

/// Checks the records of a batch that is well formed; `partition` is its name for messages.
pub(super) fn judge(
    checked: &CheckedBatch<'_>,
    config: &TopicConfig,
    partition: impl Fn() -> String,
    now_ms: i64,
) -> Result<(), Rejected> {
    let CheckedBatch { batch, survey } = checked;
    let limit_bytes = config.max_decompressed_message_bytes as usize;
    if survey.largest > limit_bytes && batch.compression().map_err(Failure::from)? != Compression::None {
        let text = format!(
            "Invalid record size: {} exceeds the configured maximum record size of {limit_bytes}",
            survey.largest
        );
        return Err(Failure::new(ErrorCode::InvalidRecord, text).into());
    }
    let clock = Clock::new(config, now_ms);
    let compacted = config.cleanup_policy.compact;
    // The broker's to set: it would give every record the header's time.
    let stamped = batch.is_log_append_time();
    if !compacted && !stamped && !clock.refuses(survey.earliest) && !clock.refuses(survey.latest) {
        return Ok(());
    }
    let mut errors = Vec::new();
    let mut wrong = 0;
    let mut late = false;
    for (index, record) in (0..).zip(batch::records(batch.bytes()).map_err(Failure::from)?) {
        let record = record.map_err(Failure::from)?;
        let timestamp = batch.base_timestamp().wrapping_add(record.timestamp_delta);
        let keyless = compacted && record.key.is_none();
        let untimely = !keyless && (stamped || clock.refuses(timestamp));
        if !keyless && !untimely {
            continue;
        }
        late |= untimely;
        wrong += 1;
        if errors.len() < RECORD_ERRORS_MAX {
            let message = if keyless {
                format!(
                    "Compacted topic cannot accept message without key in topic partition {}",
                    partition()
                )
            } else if clock.refuses(timestamp) {
                clock.complain(timestamp, record.offset_delta)
            } else {
                complain_of_type(&record, batch.max_timestamp())
            };
            errors.push(RecordError { batch_index: index, message: Some(StrBytes::from(message)) });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(reject(errors, wrong, late)) }
}

/// Kafka's codes and messages. An error of a timestamp precedes other errors.
fn reject(errors: Vec<RecordError>, wrong: usize, late: bool) -> Rejected {
    let failure = if late {
        let text = "One or more records have been rejected due to invalid timestamp";
        Failure::new(ErrorCode::InvalidTimestamp, text)
    } else {
        let named = errors.iter().take(NAMED_ERRORS).map(|error| {
            let message = error.message.as_ref().map_or("", StrBytes::as_str);
            format!("RecordError(batchIndex={}, message='{message}')", error.batch_index)
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let text = format!(
            "One or more records have been rejected due to {wrong} record errors in total, and only showing the first \
             three errors at most: [{named}]"
        );
        Failure::new(ErrorCode::InvalidRecord, text)
    };
    Rejected { errors, ..Rejected::from(failure) }
}

/// Kafka's sentence about a record of a batch that claims to have the broker's time.
fn complain_of_type(record: &Record, stamp: i64) -> String {
    let size = |part: Option<usize>| part.map_or(-1, |len| i64::try_from(len).unwrap_or(i64::MAX));
    let key = size(record.key.as_ref().map(|key| key.len()));
    let value = size(record.value.as_ref().map(|value| value.len()));
    format!(
        "Invalid timestamp type in message DefaultRecord(offset={}, timestamp={stamp}, key={key} bytes, value={value} \
         bytes). Producer should not set timestamp type to LogAppendTime.",
        record.offset_delta
    )
}

/// The times that a record may carry.
struct Clock {
    /// Accepted range of timestamps; none if the broker writes its own time.
    limits: Option<(i64, i64)>,
}

impl Clock {
    fn new(config: &TopicConfig, now_ms: i64) -> Self {
        let limits = (
            now_ms.saturating_sub(config.timestamp_before_max_ms),
            now_ms.saturating_add(config.timestamp_after_max_ms),
        );
        Self { limits: (config.timestamp_type == TimestampType::CreateTime).then_some(limits) }
    }

    fn refuses(&self, timestamp: i64) -> bool {
        timestamp != NO_TIMESTAMP
            && self.limits.is_some_and(|(oldest, newest)| !(oldest..=newest).contains(&timestamp))
    }

    fn complain(&self, timestamp: i64, offset: i32) -> String {
        let (oldest, newest) = self.limits.unwrap_or_default();
        format!(
            "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be within \
             [{oldest}, {newest}]"
        )
    }
}

/// Codec and level for recompression of a batch, if its codec is not the topic's.
pub(super) fn wanted_codec(
    batch: &BatchView<'_>,
    config: &TopicConfig,
) -> Result<Option<(Compression, Option<i32>)>, BatchError> {
    let Some((codec, level)) = topic_codec(config) else { return Ok(None) };
    let has = batch.compression()?;
    Ok((has != codec).then_some((codec, level)))
}

/// The batch in the topic's own compression. Takes a thread's time and memory; see
/// [`wanted_codec`].
pub(super) fn compress(records: BytesMut, config: &TopicConfig) -> Result<BytesMut, Failure> {
    let Some((codec, level)) = wanted_codec(&BatchView::parse(&records)?, config)? else {
        return Ok(records);
    };
    batch::recompress(&records, codec, level).map_err(|error| match error {
        RecompressError::Batch(error) => error.into(),
        RecompressError::Codec(error) => Failure::new(ErrorCode::UnknownServerError, error.to_string()),
    })
}

#[cfg(test)]
mod tests;
