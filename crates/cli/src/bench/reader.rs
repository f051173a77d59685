//! Fetches of one leader's partitions on a separate connection.

use std::collections::BTreeMap;

use bytes::Bytes;
use levada_base::batch::{BatchError, BatchView};
use levada_client::fetcher::{asked_partition, asked_topic, split_batch};
use levada_client::{Cluster, Connection, Topic};
use levada_terminal::failure::Failure;
use levada_wire::messages::FetchRequest;

use crate::kafka_error;

/// Epoch of a fetch outside a session.
const NO_SESSION: i32 = -1;
const MAX_BYTES: i32 = 32 << 20;

/// A reader of the partitions of one leader.
pub(super) struct Reader<'a> {
    client: Connection,
    version: i16,
    topic: &'a Topic,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
    /// Longest wait of the broker for new records.
    wait_ms: i32,
    /// Number of requests so far: each begins with another partition, because a response may be
    /// full before its last partition.
    turn: usize,
}

/// A whole batch, which matches its checksum.
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    pub(super) records: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn open(
        cluster: &mut Cluster,
        topic: &'a Topic,
        leader: i32,
        positions: BTreeMap<i32, i64>,
        wait_ms: i32,
    ) -> Result<Self, Failure> {
        let (client, _) = cluster.separate(leader)?;
        let version = client.best_version::<FetchRequest>()?;
        Ok(Self { client, version, topic, positions, wait_ms, turn: 0 })
    }

    /// Sets the position in a partition.
    pub(super) fn seek(&mut self, partition: i32, offset: i64) {
        self.positions.insert(partition, offset);
    }

    /// The position in a partition.
    pub(super) fn position(&self, partition: i32) -> i64 {
        self.positions.get(&partition).copied().unwrap_or(0)
    }

    /// Sends one fetch, moves the position after its batches, and returns them.
    pub(super) fn fetch(&mut self) -> Result<Vec<Fetched>, Failure> {
        let mut topic = asked_topic(self.topic, self.version);
        topic.partitions = self.positions.iter().map(|(one, at)| asked_partition(*one, *at)).collect();
        self.turn = (self.turn + 1) % topic.partitions.len().max(1);
        topic.partitions.rotate_left(self.turn);
        let mut request = FetchRequest::default();
        request.max_wait_ms = self.wait_ms;
        request.min_bytes = 1;
        request.max_bytes = MAX_BYTES;
        request.session_epoch = NO_SESSION;
        request.topics = vec![topic];
        let response = self.client.request_at(self.version, &request)?;
        let name = &self.topic.name;
        kafka_error::check(response.error_code, &format!("fetch {name}"), None)?;
        let mut found = Vec::new();
        for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            let partition = data.partition_index;
            let position = self.position(partition);
            let doing = format!("fetch {name}/{partition} at offset {position}");
            kafka_error::check(data.error_code, &doing, None)?;
            let damaged = |error: BatchError| Failure::new(format!("{doing}: {error}"));
            let mut rest = data.records.unwrap_or_default();
            while let Some(bytes) = split_batch(&mut rest).map_err(damaged)? {
                let view = BatchView::parse(&bytes).map_err(damaged)?;
                self.positions.insert(partition, view.last_offset() + 1);
                let records = u64::try_from(view.record_count()).unwrap_or(0);
                found.push(Fetched { bytes, records });
            }
        }
        Ok(found)
    }
}

/// Fails with the permission that is missing, if that is the reason.
pub(super) fn allowed<T, E: Into<Failure>>(done: Result<T, E>, topic: &str) -> Result<T, Failure> {
    kafka_error::needing(done, "read", &format!("--topic {topic}"))
}
