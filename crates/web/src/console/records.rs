//! Records of a topic, read by Fetch within limits, and decoded on a thread that may block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_base::batch::{self, BatchError, BatchView, Headers, Record};
use levada_schema::{Schemas, Side};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::FetchRequest;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use levada_wire::messages::fetch_response::{AbortedTransaction, PartitionData};

use super::Console;
use super::failure::{Failed, Needing as _, check};
use super::format;
use super::json_field::JsonField;
use super::part::{Part, ShownPart};
use super::visitor::Visitor;

/// Maximum number of bytes of one response, unless a single batch is larger.
const ANSWER_BYTES: i32 = 1 << 20;
/// Maximum number of bytes that one batch may expand to.
const EXPANDED_BYTES_MAX: usize = 16 << 20;
/// Expanded bytes that cost as much as one byte of a batch.
const EXPANDED_PER_BYTE: u64 = 32;
/// Cost at which a read stops, although its response has more batches.
const COST_MAX: u64 = 4 << 20;
/// Microseconds of decoding that cost as much as a byte. Decoding may wait for the schema registry:
/// a read ends after eight seconds of it.
const DECODING_US: u64 = 2;
/// Bytes of the key and of the value of a header that are shown.
const SHOWN_HEADER_BYTES: usize = 256;
/// Number of headers of a record that are shown.
const SHOWN_HEADERS: usize = 50;
/// Time to wait for the first record where several brokers have partitions, ms.
const SHARED_WAIT_MS: i32 = 500;
/// The newest version of Fetch that names topics by name.
const NEWEST_WITH_NAMES: i16 = 12;

/// Texts that a record must contain, and a field that its value must have.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) header: Vec<u8>,
    pub(super) field: Option<JsonField>,
}

/// Positions in partitions, and the filter for the records after them.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) topic: String,
    /// The next offset of each partition; advances with each read.
    pub(super) positions: BTreeMap<i32, i64>,
    pub(super) filter: Filter,
    /// Schemas that decode keys and values, if the broker names a registry.
    pub(super) schemas: Option<Arc<Schemas>>,
    /// True to omit records of open and aborted transactions.
    pub(super) committed_only: bool,
    /// Time to wait for the first record, ms.
    pub(super) wait_ms: i32,
    /// The partition with which the next read begins. Only the first partition of a response with
    /// records has a batch regardless of its size, so the partitions take turns.
    pub(super) first: i32,
}

/// A record with its topic, partition and offset, as a page shows it. It holds no reference to its
/// batch, which may have expanded to megabytes.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<ShownPart>,
    pub(super) value: Option<ShownPart>,
    /// The first headers.
    pub(super) headers: Vec<String>,
    /// Number of further headers.
    pub(super) headers_left_out: usize,
    pub(super) batch: Batch,
}

/// The batch of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// Bytes in the log.
    pub(super) bytes: usize,
    pub(super) records: i32,
    pub(super) codec: &'static str,
    pub(super) transactional: bool,
}

/// One read of the partitions.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) found: Vec<Found>,
    /// Number of records that were read.
    pub(super) records: u64,
    /// Bytes of their batches.
    pub(super) bytes: u64,
    /// Bytes of the batches plus their expanded size: a measure of the work of the read.
    pub(super) cost: u64,
    /// Batches that cannot be read, as text.
    pub(super) damaged: Vec<String>,
}

impl Filter {
    fn admits(&self, record: &Record, key: Option<&Part>, value: Option<&Part>) -> bool {
        let within = |text: &[u8], part: Option<&Part>| {
            text.is_empty() || part.is_some_and(|part| contains(part.searched(), text))
        };
        let in_headers = || {
            record.headers.iter().any(|one| {
                contains(one.key, &self.header)
                    || one.value.is_some_and(|value| contains(value, &self.header))
            })
        };
        let has_field = |field: &JsonField| value.is_some_and(|part| field.is_in(part.searched()));
        within(&self.key, key)
            && within(&self.value, value)
            && (self.header.is_empty() || in_headers())
            && self.field.as_ref().is_none_or(has_field)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_empty() && self.value.is_empty() && self.header.is_empty() && self.field.is_none()
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len().max(1)).any(|window| window == text)
}

impl Console {
    /// Reads once from the positions, up to the limit of one response, and advances the positions.
    /// At most `most` records are found; the positions are then after the last found record of each
    /// partition.
    pub(super) async fn look(
        &self,
        visitor: &Visitor,
        wanted: &mut Wanted,
        most: usize,
    ) -> Result<Looked, Failed> {
        let topic = wanted.topic.as_str();
        let needed = || format!("--topic {topic}");
        let leaders: BTreeMap<i32, i32> =
            wanted.positions.keys().filter_map(|index| Some((*index, self.leader(topic, *index)?))).collect();
        for leader in leaders.values() {
            let access = (Operation::Read, ResourceType::Topic, topic);
            self.permitted(visitor, *leader, access, || format!("read topic {topic}"))
                .needing("read", needed())?;
        }
        let requests = requests(wanted, &leaders);
        let wait = requests.values().next().map_or(0, |request| request.max_wait_ms);
        let wait = Duration::from_millis(wait.max(0).unsigned_abs().into());
        let answers = self.ask_brokers(visitor, (NEWEST_WITH_NAMES, wait), requests).await?;
        let mut partitions: Vec<PartitionData> = Vec::new();
        for answer in answers.into_values() {
            check(answer.error_code, None, || format!("read topic {topic}"))?;
            partitions.extend(answer.responses.into_iter().flat_map(|topic| topic.partitions));
        }
        // Another broker leads it by now, which the next read asks.
        partitions.retain(|one| one.error_code != ErrorCode::NotLeaderOrFollower.code());
        for one in &partitions {
            check(one.error_code, None, || {
                let at = wanted.positions.get(&one.partition_index).copied().unwrap_or_default();
                format!("read {topic}/{} at offset {at}", one.partition_index)
            })
            .needing("read", needed())?;
        }
        partitions.sort_by_key(|one| (one.partition_index < wanted.first, one.partition_index));
        let mut reader = wanted.clone();
        let read = move || (reader.take_all(partitions, most), reader);
        let (looked, reader) = self.reads.run(visitor.caller.session().requester(), read).await;
        *wanted = reader;
        Ok(looked)
    }
}

/// A request for each leader, with the partitions that it leads.
fn requests(wanted: &Wanted, leaders: &BTreeMap<i32, i32>) -> BTreeMap<i32, FetchRequest> {
    let nodes: BTreeSet<i32> = leaders.values().copied().collect();
    // The responses of several brokers come together: an idle one keeps the others for less time.
    let most = if nodes.len() > 1 { SHARED_WAIT_MS } else { i32::MAX };
    let of = |node: i32| {
        let mut own = wanted.clone();
        own.positions.retain(|index, _| leaders.get(index) == Some(&node));
        own.wait_ms = own.wait_ms.min(most);
        (node, request(&own))
    };
    nodes.into_iter().map(of).collect()
}

fn request(wanted: &Wanted) -> FetchRequest {
    let share = ANSWER_BYTES / i32::try_from(wanted.positions.len().max(1)).unwrap_or(i32::MAX);
    let partition = |(index, offset): (&i32, &i64)| {
        let mut partition = FetchPartition::default();
        (partition.partition, partition.fetch_offset) = (*index, *offset);
        partition.current_leader_epoch = -1;
        partition.partition_max_bytes = share.max(1);
        partition
    };
    let mut topic = FetchTopic::default();
    topic.topic = StrBytes::from(wanted.topic.as_str());
    let (before, from) = (wanted.positions.range(..wanted.first), wanted.positions.range(wanted.first..));
    topic.partitions = from.chain(before).map(partition).collect();
    let mut request = FetchRequest::default();
    request.replica_id = -1;
    request.max_wait_ms = wanted.wait_ms;
    request.min_bytes = 1;
    request.max_bytes = ANSWER_BYTES;
    request.isolation_level = i8::from(wanted.committed_only);
    // A fetch outside of any session.
    request.session_epoch = -1;
    request.topics = vec![topic];
    request
}

impl Wanted {
    /// Takes at most `most` records of a response: from each partition with records an equal part
    /// of those that the partitions before it have left.
    fn take_all(&mut self, mut partitions: Vec<PartitionData>, most: usize) -> Looked {
        let mut looked = Looked::default();
        partitions.retain(|data| data.records.as_ref().is_some_and(|records| !records.is_empty()));
        let (count, mut next) = (partitions.len(), None);
        for (at, data) in partitions.into_iter().enumerate() {
            let (index, before) = (data.partition_index, looked.bytes);
            let share = (most - looked.found.len()).div_ceil(count - at);
            self.take(data, (looked.found.len() + share, &mut looked));
            if looked.bytes > before {
                next.get_or_insert(index.saturating_add(1));
            }
        }
        self.first = next.unwrap_or(self.first);
        looked
    }

    /// Takes the records of one partition's response.
    fn take(&mut self, data: PartitionData, (most, looked): (usize, &mut Looked)) {
        let partition = data.partition_index;
        let mut aborted = Aborted::new(data.aborted_transactions);
        let mut rest = data.records.unwrap_or_default();
        while !rest.is_empty() && looked.found.len() < most && looked.cost < COST_MAX {
            let batch = match batch::check_stored(&rest) {
                Ok(view) => rest.split_to(view.bytes().len()),
                // Cut off by the limit of the response.
                Err(BatchError::Truncated { .. }) => return,
                Err(error) => {
                    let at = self.positions.get(&partition).copied().unwrap_or_default();
                    looked.damaged.push(format!("partition {partition}, offset {at}: {error}"));
                    return;
                }
            };
            let Ok(view) = BatchView::parse(&batch) else { return };
            looked.bytes += batch.len() as u64;
            looked.cost += batch.len() as u64;
            let is_hidden = aborted.hides(&view) || view.is_control();
            if is_hidden || self.take_batch(partition, &view, (most, looked)) {
                let position = self.positions.entry(partition).or_default();
                *position = (*position).max(view.last_offset() + 1);
            }
        }
    }

    /// Takes the records of a batch. False if more are left in it.
    fn take_batch(
        &mut self,
        partition: i32,
        view: &BatchView<'_>,
        (most, looked): (usize, &mut Looked),
    ) -> bool {
        let position = self.positions.entry(partition).or_default();
        let batch = Batch {
            bytes: view.size_bytes(),
            records: view.record_count(),
            codec: view.compression().map_or("unknown", |codec| codec.name()),
            transactional: view.is_transactional(),
        };
        let records = match batch::records_within(view.bytes(), EXPANDED_BYTES_MAX) {
            Ok(records) => records,
            Err(error) => {
                looked.damaged.push(format!("partition {partition}, offset {}: {error}", view.base_offset()));
                return true;
            }
        };
        looked.cost += records.expanded_bytes() as u64 / EXPANDED_PER_BYTE;
        let mut decoding_us = 0;
        for record in records.map_while(Result::ok) {
            let offset = view.base_offset() + i64::from(record.offset_delta);
            if offset < *position {
                continue;
            }
            if looked.found.len() == most || decoding_us / DECODING_US >= COST_MAX {
                looked.cost += decoding_us / DECODING_US;
                return false;
            }
            *position = offset + 1;
            looked.records += 1;
            let started = Instant::now();
            let key = Part::of(self.schemas.as_deref(), Side::Key, &record);
            let value = Part::of(self.schemas.as_deref(), Side::Value, &record);
            decoding_us += started.elapsed().as_micros() as u64;
            if self.filter.admits(&record, key.as_ref(), value.as_ref()) {
                let (headers, headers_left_out) = shown_headers(&record.headers);
                looked.found.push(Found {
                    partition,
                    offset,
                    timestamp_ms: view.timestamp_of(&record),
                    key: key.map(Part::shown),
                    value: value.map(Part::shown),
                    headers,
                    headers_left_out,
                    batch,
                });
            }
        }
        looked.cost += decoding_us / DECODING_US;
        true
    }
}

/// The first headers as text, and the number of further ones.
fn shown_headers(headers: &Headers) -> (Vec<String>, usize) {
    let text = |bytes: &[u8]| format::shown(bytes, SHOWN_HEADER_BYTES).text;
    let shown = headers.iter().take(SHOWN_HEADERS).map(|header| match header.value {
        Some(value) => format!("{}: {}", text(header.key), text(value)),
        None => format!("{} (no value)", text(header.key)),
    });
    (shown.collect(), headers.len().saturating_sub(SHOWN_HEADERS))
}

/// The aborted transactions of a response, as a consumer with read_committed follows them.
struct Aborted {
    /// Transactions that begin at later offsets, the next one last.
    coming: Vec<AbortedTransaction>,
    producers: BTreeSet<i64>,
}

impl Aborted {
    fn new(listed: Option<Vec<AbortedTransaction>>) -> Self {
        let mut coming = listed.unwrap_or_default();
        coming.sort_by_key(|one| std::cmp::Reverse(one.first_offset));
        Self { coming, producers: BTreeSet::new() }
    }

    /// True if the batch belongs to an aborted transaction.
    fn hides(&mut self, view: &BatchView<'_>) -> bool {
        while let Some(next) = self.coming.pop_if(|next| next.first_offset <= view.last_offset()) {
            self.producers.insert(next.producer_id);
        }
        if view.is_control() {
            self.producers.remove(&view.producer_id());
            return false;
        }
        view.is_transactional() && self.producers.contains(&view.producer_id())
    }
}

#[cfg(test)]
mod tests;
