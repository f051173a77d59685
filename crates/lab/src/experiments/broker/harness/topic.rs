//! Topics for measurements: to create, fill, drop from the page cache and check.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch;
use levada_client::{ConnectionError, ConnectionOptions};
use levada_io::Extent;
use levada_io::residency;
use levada_wire::Uuid;
use levada_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, ListOffsetsRequest, MetadataRequest, StrBytes,
};

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::node::Node;
use crate::harness::bench::chill;
use crate::record::Verdict;

/// Number of requests in flight, as in Kafka's producer by default.
pub(crate) const IN_FLIGHT: usize = 5;

/// Metadata version with topic ids.
const METADATA_VERSION: i16 = 13;

/// ListOffsets version with the offsets of remote storage.
const OFFSETS_VERSION: i16 = 9;

/// Limit for the time in which a new topic becomes ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Settings for records with old timestamps, so that every run writes the same bytes. The age of
/// the records must neither delete them during reads nor roll the only segment, which the bare
/// loops read.
const AGELESS: [(&str, &str); 2] = [("retention.ms", "-1"), ("segment.ms", "3153600000000")];

/// Creates a topic that keeps its records by default. Waits until its partitions accept requests.
pub(crate) fn create(
    node: &Node,
    name: &str,
    partitions: i32,
    config: &[(&str, &str)],
) -> Result<(), LabError> {
    let mut topic = CreatableTopic::default();
    topic.num_partitions = partitions;
    topic.replication_factor = 1;
    request(node, name, topic, config)?;
    let (mut client, start) = (client(node.address())?, Instant::now());
    while i32::try_from(served(&mut client, name, partitions)?) != Ok(partitions) {
        if start.elapsed() > LIMIT {
            return Err(node.failed("does not serve a topic that it has created"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the id of a topic.
pub(crate) fn id(connection: &mut Connection, name: &str) -> Result<Uuid, LabError> {
    let mut topic = MetadataRequestTopic::default();
    topic.name = Some(StrBytes::from(name));
    let mut request = MetadataRequest::default();
    request.topics = Some(vec![topic]);
    let response = connection.ask(METADATA_VERSION, &request)?;
    let found = response.topics.first().filter(|topic| topic.error_code == 0);
    found.map(|topic| topic.topic_id).ok_or_else(|| {
        LabError::step(format!("topic {name} has no id"))(io::Error::from(io::ErrorKind::NotFound))
    })
}

/// Sends a request to create a topic with this name and these settings.
pub(crate) fn request(
    node: &Node,
    name: &str,
    mut topic: CreatableTopic,
    config: &[(&str, &str)],
) -> Result<(), LabError> {
    topic.name = StrBytes::from(name);
    let setting = |(key, value): &(&str, &str)| {
        let mut setting = CreatableTopicConfig::default();
        setting.name = StrBytes::from(*key);
        setting.value = Some(StrBytes::from(*value));
        setting
    };
    let ageless = AGELESS.iter().filter(|(key, _)| config.iter().all(|(own, _)| own != key));
    topic.configs = config.iter().chain(ageless).map(setting).collect();
    let mut request = CreateTopicsRequest::default();
    request.topics = vec![topic];
    request.timeout_ms = 60_000;
    let mut client = client(node.address())?;
    let response = client.request(&request).map_err(failed("cannot create a topic"))?;
    if let Some(topic) = response.topics.iter().find(|topic| topic.error_code != 0) {
        let what = format!("the broker refused to create topic {name}");
        return Err(LabError::step(what)(io::Error::other(format!(
            "Kafka's error code {}",
            topic.error_code
        ))));
    }
    Ok(())
}

/// Waits until the leader of a partition serves it.
pub(crate) fn await_served(
    node: &Node,
    client: &mut levada_client::Connection,
    place: &TopicPartition,
) -> Result<(), LabError> {
    let start = Instant::now();
    while end_offset(client, place)?.is_none() {
        if start.elapsed() > LIMIT {
            return Err(node.failed("does not serve a topic that it has created"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Deletes a topic. The broker removes its files some time later.
pub(crate) fn delete(node: &Node, name: &str) -> Result<(), LabError> {
    let mut request = DeleteTopicsRequest::default();
    request.topic_names = vec![StrBytes::from(name)];
    request.timeout_ms = 60_000;
    let response =
        client(node.address())?.request_at(5, &request).map_err(failed("cannot delete a topic"))?;
    match response.responses.iter().find(|topic| topic.error_code != 0) {
        None => Ok(()),
        Some(_) => Err(node.failed("does not delete a topic")),
    }
}

pub(crate) fn client(address: SocketAddr) -> Result<levada_client::Connection, LabError> {
    let options =
        ConnectionOptions { timeout: LIMIT, max_frame_bytes: 128 << 20, ..ConnectionOptions::default() };
    levada_client::Connection::connect(&address.to_string(), &options).map_err(failed("cannot connect"))
}

pub(crate) fn failed(what: &'static str) -> impl FnOnce(ConnectionError) -> LabError {
    move |error| LabError::step(what)(io::Error::other(error))
}

/// Offset of a partition for a timestamp of ListOffsets; none while the partition is not served.
pub(crate) fn offset(
    client: &mut levada_client::Connection,
    place: &TopicPartition,
    timestamp: i64,
) -> Result<Option<i64>, LabError> {
    Ok(offsets(client, &place.topic, place.partition..=place.partition, timestamp)?.pop())
}

/// Log end offset; none while the partition is not served.
fn end_offset(
    client: &mut levada_client::Connection,
    place: &TopicPartition,
) -> Result<Option<i64>, LabError> {
    offset(client, place, levada_client::LATEST)
}

/// Number of partitions of a topic that brokers serve.
pub(crate) fn served(
    client: &mut levada_client::Connection,
    topic: &str,
    partitions: i32,
) -> Result<usize, LabError> {
    Ok(offsets(client, topic, 0..=partitions - 1, levada_client::LATEST)?.len())
}

/// Offset for a timestamp in each of these partitions that the broker serves.
fn offsets(
    client: &mut levada_client::Connection,
    topic: &str,
    partitions: RangeInclusive<i32>,
    timestamp: i64,
) -> Result<Vec<i64>, LabError> {
    let of = |index| {
        let mut partition = ListOffsetsPartition::default();
        (partition.partition_index, partition.timestamp) = (index, timestamp);
        partition.current_leader_epoch = -1;
        partition
    };
    let mut asked = ListOffsetsTopic::default();
    asked.name = StrBytes::from(topic);
    asked.partitions = partitions.map(of).collect();
    let mut request = ListOffsetsRequest::default();
    request.replica_id = -1;
    request.topics = vec![asked];
    let response = client.request_at(OFFSETS_VERSION, &request).map_err(failed("cannot request offsets"))?;
    let answers = response.topics.iter().flat_map(|topic| &topic.partitions);
    Ok(answers.filter(|partition| partition.error_code == 0).map(|partition| partition.offset).collect())
}

/// Log end offset of a partition.
///
/// # Errors
/// The broker does not serve the partition.
pub(crate) fn end(node: &Node, place: &TopicPartition) -> Result<i64, LabError> {
    end_offset(&mut client(node.address())?, place)?.ok_or_else(|| node.failed("does not serve a partition"))
}

/// Identical batches, and the partition that contains them.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    pub(crate) place: TopicPartition,
    pub(crate) batch_len: usize,
    pub(crate) records: usize,
    pub(crate) batches: usize,
}

impl Filled {
    /// Bytes of all batches together.
    pub(crate) fn bytes(&self) -> u64 {
        (self.batch_len * self.batches) as u64
    }

    /// Base offset of a batch, if the partition began empty.
    pub(crate) fn offset(&self, batch: usize) -> i64 {
        i64::try_from(self.records * batch).unwrap_or(i64::MAX)
    }
}

/// Sends the same batch to an empty partition until it contains at least `bytes`.
pub(crate) fn fill(
    node: &Node,
    place: TopicPartition,
    batch_len: usize,
    bytes: u64,
) -> Result<Filled, LabError> {
    fill_with(node, place, (batch_len, 1024), bytes)
}

/// Like [`fill`], with batches and records of these lengths.
pub(crate) fn fill_with(
    node: &Node,
    place: TopicPartition,
    (batch_len, record_len): (usize, usize),
    bytes: u64,
) -> Result<Filled, LabError> {
    let (batch, records) = frames::batch(batch_len, record_len, bytes)?;
    let batch_len = batch.len();
    let batches = usize::try_from(bytes.div_ceil(batch_len as u64)).unwrap_or(usize::MAX);
    let filled = Filled { place, batch_len, records, batches };
    let frame = frames::produce(&filled.place, batch.freeze(), 1)?;
    let mut connection = Connection::open(node.address())?;
    send(&mut connection, &frame, &filled, 0)?;
    Ok(filled)
}

/// Sends one frame once for each batch. Checks that each batch got its offset, from `base` on.
pub(crate) fn send(
    connection: &mut Connection,
    frame: &[u8],
    filled: &Filled,
    base: i64,
) -> Result<(), LabError> {
    let mut sent = 0;
    for received in 0..filled.batches {
        while sent < filled.batches.min(received + IN_FLIGHT) {
            connection.send(frame)?;
            sent += 1;
        }
        let response = connection.receive(4)?;
        let offset = frames::produced(response, &filled.place)?;
        if offset != base + filled.offset(received) {
            let what = format!("offset {offset} instead of {}", base + filled.offset(received));
            return Err(LabError::step("a batch has a wrong offset")(io::Error::other(what)));
        }
    }
    Ok(())
}

/// Reads everything in steps of `max_bytes`. Checks the checksum of every batch, and that no batch
/// is missing.
pub(crate) fn verify(
    address: SocketAddr,
    filled: &Filled,
    base: i64,
    max_bytes: i32,
) -> Result<Verdict, LabError> {
    let mut connection = Connection::open(address)?;
    verify_by(filled, base, max_bytes, |frame| {
        connection.send(frame)?;
        Ok(Bytes::from(connection.receive_whole()?))
    })
}

/// Like [`verify`], with a function `ask` that sends a request and returns the response.
pub(crate) fn verify_by(
    filled: &Filled,
    base: i64,
    max_bytes: i32,
    mut ask: impl FnMut(&[u8]) -> Result<Bytes, LabError>,
) -> Result<Verdict, LabError> {
    let end = base + filled.offset(filled.batches);
    let (mut offset, mut bytes, mut batches) = (base, 0, 0);
    while offset < end {
        let wanted = Wanted { offset, max_bytes, max_wait_ms: 0 };
        let body = ask(&frames::fetch(&filled.place, wanted)?)?;
        let (_, mut records) = frames::fetched(&body, &filled.place)?;
        let before = offset;
        while let Ok(view) = batch::check_stored(records) {
            if view.base_offset() != offset {
                let what = format!("offset {} instead of {offset}", view.base_offset());
                return Ok(Verdict { sound: false, what });
            }
            offset = view.last_offset() + 1;
            bytes += view.size_bytes();
            batches += 1;
            records = &records[view.size_bytes()..];
        }
        if offset == before {
            return Ok(Verdict { sound: false, what: format!("no sound batch at offset {offset}") });
        }
    }
    let sound = (bytes, batches, offset) == (filled.batch_len * filled.batches, filled.batches, end);
    Ok(Verdict {
        sound,
        what: format!("{batches} batches, {bytes} bytes, CRC-32C of each, offsets {base} to {end}"),
    })
}

/// Paths of the segments of a partition, oldest first.
pub(crate) fn segments(node: &Node, place: &TopicPartition) -> Result<Vec<PathBuf>, LabError> {
    let dir = node.data().join(format!("{}-{}", place.topic, place.partition));
    let entries = fs::read_dir(&dir).map_err(LabError::file("cannot list", &dir))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut logs: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    logs.sort();
    Ok(logs)
}

/// Writes a partition's segments to the device and drops them from the page cache. Returns the
/// share that is still in the page cache, from 0 to 1.
pub(crate) fn evict(node: &Node, place: &TopicPartition) -> Result<Option<f64>, LabError> {
    sync(node, place)?.iter().try_for_each(chill)?;
    resident(node, place)
}

/// Writes a partition's segments to the device, so that no writeback runs during a measurement.
pub(crate) fn sync(node: &Node, place: &TopicPartition) -> Result<Vec<File>, LabError> {
    let sync = |path: PathBuf| {
        let file = File::open(&path).map_err(LabError::file("cannot open", &path))?;
        file.sync_data().map_err(LabError::file("cannot sync", &path))?;
        Ok(file)
    };
    segments(node, place)?.into_iter().map(sync).collect()
}

/// Share of a partition in the page cache, from 0 to 1; none if the kernel does not report it.
pub(crate) fn resident(node: &Node, place: &TopicPartition) -> Result<Option<f64>, LabError> {
    let (mut there, mut all) = (0, 0);
    for path in segments(node, place)? {
        let file = File::open(&path).map_err(LabError::file("cannot open", &path))?;
        let len = file.metadata().map_err(LabError::file("cannot read the size of", &path))?.len();
        let extent = Extent { file: Arc::new(file), offset: 0, len };
        let Some(cached) = residency::cached_bytes(&extent) else { return Ok(None) };
        there += cached;
        all += len;
    }
    Ok(Some(if all == 0 { 1.0 } else { there as f64 / all as f64 }))
}
