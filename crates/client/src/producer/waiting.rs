//! Batches whose partitions cannot take them now: no broker leads, or the leader refuses for a
//! reason that passes. They wait in the order of their partition.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch::Builder;

use super::sequence::Sequences;
use crate::error::ClientError;
use crate::notice::{BatchLabel, Notice, Watch};

/// Pauses between two attempts: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a refusal is reported: most pass within a moment, as leaders move.
const QUIET: Duration = Duration::from_secs(5);

/// A batch that is complete.
pub(super) struct Ready {
    /// The records until the first attempt to send them.
    builder: Option<Builder>,
    /// The batch from then on, with the numbers of its producer.
    encoded: Bytes,
    pub(super) label: BatchLabel,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    size_bytes: usize,
    since: Instant,
    /// The broker may have stored the batch.
    is_in_doubt: bool,
    /// The wait is reported.
    is_told: bool,
}

impl Ready {
    pub(super) fn new(label: BatchLabel, builder: Builder, bytes: u64) -> Self {
        Self {
            label,
            size_bytes: builder.size_bytes(),
            builder: Some(builder),
            encoded: Bytes::new(),
            bytes,
            since: Instant::now(),
            is_in_doubt: false,
            is_told: false,
        }
    }

    /// The batch, which gets the producer's next numbers the first time.
    pub(super) fn encoded(&mut self, sequences: Option<&mut Sequences>) -> Result<Bytes, ClientError> {
        if let Some(builder) = self.builder.take() {
            let builder = match sequences {
                Some(sequences) => sequences.number(self.label.partition, builder),
                None => builder,
            };
            self.encoded = builder.build().map_err(ClientError::Encode)?.freeze();
        }
        Ok(self.encoded.clone())
    }

    /// True if the producer has numbered it.
    pub(super) fn is_numbered(&self) -> bool {
        self.builder.is_none()
    }

    /// Time since the batch was complete.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Notes an attempt, after which the broker may have stored the batch or not.
    pub(super) fn note(&mut self, is_in_doubt: bool) {
        self.is_in_doubt |= is_in_doubt;
    }

    /// Reports why the batch waits, once.
    pub(super) fn report_waiting(&mut self, error: &ClientError, watch: &dyn Watch<ClientError>) {
        if !self.is_told && self.age() >= QUIET {
            self.is_told = true;
            watch.notice(Notice::Waits { batch: &self.label, error });
        }
    }
}

/// Sums of abandoned batches by partition, each true if the broker may have stored a batch of it.
#[derive(Default)]
pub(super) struct Abandoned(BTreeMap<i32, (BatchLabel, bool)>);

impl Abandoned {
    pub(super) fn add(&mut self, batch: &Ready) {
        let label = &batch.label;
        let none = || (BatchLabel { records: 0, ..label.clone() }, false);
        let (sum, is_in_doubt) = self.0.entry(label.partition).or_insert_with(none);
        sum.records += label.records;
        sum.first = sum.first.min(label.first);
        sum.last = sum.last.max(label.last);
        *is_in_doubt |= batch.is_in_doubt;
    }

    /// Reports the sums, once: a failure of a disk can refuse many batches.
    pub(super) fn report(&mut self, watch: &dyn Watch<ClientError>) {
        for (batch, is_in_doubt) in std::mem::take(&mut self.0).into_values() {
            watch.notice(Notice::NotAcknowledged { batch: &batch, is_in_doubt });
        }
    }
}

/// Batches that wait, by partition.
#[derive(Default)]
pub(super) struct Waiting {
    /// Batches that wait, by broker; no queue is empty.
    queues: BTreeMap<i32, VecDeque<Ready>>,
    size_bytes: usize,
    /// Time and pause of the next attempt.
    next: Option<(Instant, Duration)>,
    /// A batch was acknowledged since the last attempt.
    pub(super) has_progress: bool,
    /// The failure of the last attempt.
    pub(super) last_failure: Option<ClientError>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// True if later batches of the partition have to wait as well.
    pub(super) fn has(&self, partition: i32) -> bool {
        self.queues.contains_key(&partition)
    }

    /// The partitions with batches that wait.
    pub(super) fn partitions(&self) -> Vec<i32> {
        self.queues.keys().copied().collect()
    }

    /// Bytes of all batches, before compression.
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Adds a batch after those of its partition.
    pub(super) fn push(&mut self, batch: Ready) {
        self.size_bytes += batch.size_bytes;
        self.queues.entry(batch.label.partition).or_default().push_back(batch);
        self.next.get_or_insert_with(|| (Instant::now() + FIRST_PAUSE, FIRST_PAUSE));
    }

    /// Removes and returns the first batch of a partition.
    pub(super) fn pop(&mut self, partition: i32) -> Option<Ready> {
        let queue = self.queues.get_mut(&partition)?;
        let batch = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&partition);
        }
        self.size_bytes -= batch.size_bytes;
        Some(batch)
    }

    /// Returns a batch to the front of its partition.
    pub(super) fn put_back(&mut self, batch: Ready) {
        self.size_bytes += batch.size_bytes;
        self.queues.entry(batch.label.partition).or_default().push_front(batch);
    }

    /// Time until the next attempt.
    pub(super) fn until_due(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// True if batches wait, and it is time for the next attempt.
    pub(super) fn is_due(&self) -> bool {
        !self.is_empty() && self.until_due().is_zero()
    }

    /// Sets the time of the next attempt, after one.
    pub(super) fn pause(&mut self) {
        let before = self.next.map_or(FIRST_PAUSE, |(_, pause)| pause);
        let has_progress = std::mem::take(&mut self.has_progress);
        let pause = if has_progress { FIRST_PAUSE } else { (before * 2).min(LONGEST_PAUSE) };
        self.next = (!self.is_empty()).then(|| (Instant::now() + pause, pause));
        self.last_failure.take_if(|_| self.queues.is_empty());
    }

    /// The batches that wait, as if they were abandoned.
    pub(super) fn abandoned(&self) -> Abandoned {
        let mut abandoned = Abandoned::default();
        self.queues.values().flatten().for_each(|batch| abandoned.add(batch));
        abandoned
    }
}
