//! Batches of dead letters. A dead letter has the reasons as headers and, if the group enables
//! copies, the key and the value of its record.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use levada_base::batch::Builder;
use levada_coordination::share_partition::{DeadLetter, DeadLetterReason};
use levada_log::Partition as Log;

use super::originals::Originals;
use crate::share_partitions::ShareEntry;

/// Size from which on a batch takes no further dead letter, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes of a record at most besides its key, its value and its headers.
const RECORD_BYTES: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;

/// Bytes of the lengths of a header at most.
const HEADER_BYTES: usize = 5 + 5;

const HEADER_COUNT: usize = 6;

/// Origin of dead letters.
pub(super) struct Source {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) group: Arc<str>,
    /// The log of the records; none for dead letters without copies.
    pub(super) log: Option<Arc<Log>>,
}

impl Source {
    pub(super) fn of(entry: &ShareEntry, copies: bool) -> Self {
        let partition = entry.partition();
        Self {
            topic: partition.topic().to_owned(),
            partition: partition.index(),
            group: entry.group().clone(),
            log: copies.then(|| partition.shared_log()),
        }
    }
}

/// A position in a list of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the dead letter; the number of dead letters at the end.
    pub(super) letter: usize,
    /// Offset of the record.
    pub(super) offset: i64,
}

impl Place {
    pub(super) fn begin(letters: &[DeadLetter]) -> Self {
        Self { letter: 0, offset: letters.first().map_or(0, |letter| letter.first) }
    }

    fn advance(&mut self, letters: &[DeadLetter]) {
        if letters.get(self.letter).is_some_and(|letter| self.offset < letter.last) {
            self.offset += 1;
        } else {
            self.letter += 1;
            self.offset = letters.get(self.letter).map_or(self.offset, |letter| letter.first);
        }
    }
}

/// A batch of dead letters.
pub(super) struct Draft {
    pub(super) records: BytesMut,
    /// Number of dead letters.
    pub(super) count: u64,
    /// Position of the first dead letter that is not in the batch.
    pub(super) next: Place,
}

/// Makes a batch of at most `max_bytes` of the dead letters from a place on: at least one, even if
/// it is larger. A record that does not fit is not copied. Fewer dead letters, if their records are
/// in too many bytes of other records. Blocks for the disk.
///
/// # Errors
/// None in practice: the batch is not compressed.
pub(super) fn compose(
    source: &Source,
    (letters, mut place): (&[DeadLetter], Place),
    max_bytes: usize,
    now_ms: i64,
) -> io::Result<Draft> {
    let mut originals = source.log.clone().map(Originals::new);
    let [topic, partition] = [source.topic.clone(), source.partition.to_string()];
    let mut builder = Builder::new();
    while let Some(letter) = letters.get(place.letter) {
        if !builder.is_empty() && originals.as_ref().is_some_and(Originals::is_used_up) {
            break;
        }
        let [offset, deliveries] = [place.offset.to_string(), letter.delivery_count.to_string()];
        let headers: [(&str, &str); HEADER_COUNT] = [
            ("__dlq.errors.topic", &topic),
            ("__dlq.errors.partition", &partition),
            ("__dlq.errors.offset", &offset),
            ("__dlq.errors.group", &source.group),
            ("__dlq.errors.delivery.count", &deliveries),
            ("__dlq.errors.message", message(letter.reason)),
        ];
        let headers = headers.map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
        let bare = RECORD_BYTES + headers.map(header_bytes).iter().sum::<usize>();
        let original = originals.as_mut().and_then(|originals| originals.record(place.offset));
        let (key, value) = original.map_or((None, None), |record| (record.key, record.value));
        let whole = bare + [&key, &value].into_iter().flatten().map(|part| part.len()).sum::<usize>();
        let is_copied = Builder::new().size_bytes() + whole <= max_bytes;
        let (key, value) = if is_copied { (key, value) } else { (None, None) };
        let end = builder.size_bytes() + if is_copied { whole } else { bare };
        if !builder.is_empty() && end > max_bytes.min(BATCH_BYTES) {
            break;
        }
        builder.push_with_headers(now_ms, key.as_deref(), value.as_deref(), &headers);
        place.advance(letters);
    }
    Ok(Draft { records: builder.build()?, count: builder.len() as u64, next: place })
}

fn header_bytes((name, value): (&[u8], Option<&[u8]>)) -> usize {
    HEADER_BYTES + name.len() + value.map_or(0, <[u8]>::len)
}

/// Kafka's text for a reason.
fn message(reason: DeadLetterReason) -> &'static str {
    match reason {
        DeadLetterReason::Rejected => "Offset rejected by client.",
        DeadLetterReason::AttemptsExhausted => "Offset delivery count exceeded the threshold.",
    }
}

#[cfg(test)]
mod tests;
