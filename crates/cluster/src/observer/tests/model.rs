//! A model of a quorum of three: logs with epochs, elections that truncate uncommitted tails,
//! snapshots that cut the log. It answers an observer's requests as Kafka's controllers do.

use bytes::{BufMut, Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{EpochEnd, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic, SnapshotId};
use levada_wire::messages::{FetchSnapshotRequest, FetchSnapshotResponse, fetch_snapshot_response};
use levada_wire::produce::LeaderEpoch;

use super::super::{METADATA_TOPIC, METADATA_TOPIC_ID};

/// One record of the model's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Value(u32),
    Begin,
    End,
    Abort,
    LeaderChange,
    /// The level of `kraft.version`.
    Level(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) base: i64,
    pub(crate) epoch: i32,
    pub(crate) entries: Vec<Entry>,
    pub(crate) bytes: Bytes,
}

impl Batch {
    fn new(base: i64, epoch: i32, entries: Vec<Entry>) -> Self {
        let mut builder = Builder::new().base_offset(base).leader_epoch(epoch);
        if matches!(entries[0], Entry::LeaderChange | Entry::Level(_)) {
            builder = builder.control();
        }
        for entry in &entries {
            match entry {
                Entry::LeaderChange => builder.push(0, Some(&[0, 0, 0, 2]), Some(&[0; 8])),
                Entry::Level(level) => builder.push(0, Some(&[0, 0, 0, 5]), Some(&[0, 0, 0, *level, 0])),
                Entry::Value(value) => builder.push(0, None, Some(&record(3, *value))),
                Entry::Begin => builder.push(0, None, Some(&record(23, 0))),
                Entry::End => builder.push(0, None, Some(&record(24, 0))),
                Entry::Abort => builder.push(0, None, Some(&record(25, 0))),
            };
        }
        let bytes = builder.build().unwrap().freeze();
        Self { base, epoch, entries, bytes }
    }

    pub(crate) fn end(&self) -> i64 {
        self.base + self.entries.len() as i64
    }
}

/// The value of a record: frame version 1, kind, version 0 and one number.
pub(crate) fn record(kind: u8, number: u32) -> Vec<u8> {
    [&[1, kind, 0], &number.to_be_bytes()[..]].concat()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Voter {
    pub(crate) log: Vec<Batch>,
    /// Records below are in a snapshot only.
    start: i64,
    snapshot: Option<(SnapshotId, Bytes)>,
    pub(crate) epoch: i32,
    pub(crate) leader: Option<usize>,
    pub(crate) high_watermark: i64,
}

impl Voter {
    pub(crate) fn end(&self) -> i64 {
        self.log.last().map_or(0, Batch::end)
    }

    fn last_epoch(&self) -> i32 {
        self.log.last().map_or(0, |batch| batch.epoch)
    }

    fn is_in_transaction(&self) -> bool {
        let marks = self.log.iter().flat_map(|batch| &batch.entries);
        let marks = marks.filter(|entry| matches!(entry, Entry::Begin | Entry::End | Entry::Abort));
        marks.last() == Some(&Entry::Begin)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) voters: Vec<Voter>,
    /// All batches that were ever committed.
    pub(crate) history: Vec<Batch>,
    next_value: u32,
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Self { voters: vec![Voter::default(); 3], history: Vec::new(), next_value: 0 };
        model.elect(0, 1);
        model
    }

    /// The leader of the highest epoch, if it has one.
    pub(crate) fn leader(&self) -> Option<usize> {
        let newest = (0..3).max_by_key(|voter| self.voters[*voter].epoch)?;
        let leader = self.voters[newest].leader?;
        (self.voters[leader].leader == Some(leader)).then_some(leader)
    }

    /// Lets `candidate` stand for election with the vote of one other node; nothing happens if its
    /// log is behind.
    pub(crate) fn elect(&mut self, candidate: usize, voter: usize) {
        let key = |voter: &Voter| (voter.last_epoch(), voter.end());
        if candidate == voter || key(&self.voters[candidate]) < key(&self.voters[voter]) {
            return;
        }
        let epoch = 1 + self.voters[candidate].epoch.max(self.voters[voter].epoch);
        self.voters[voter] = Voter { epoch, leader: Some(candidate), ..self.voters[voter].clone() };
        let leader = &mut self.voters[candidate];
        (leader.epoch, leader.leader) = (epoch, Some(candidate));
        leader.log.push(Batch::new(leader.end(), epoch, vec![Entry::LeaderChange]));
        if leader.is_in_transaction() {
            leader.log.push(Batch::new(leader.end(), epoch, vec![Entry::Abort]));
        }
    }

    /// Has a node that leads, in its own opinion, append a batch of `count` values, with marks as
    /// `kind` says.
    pub(crate) fn append(&mut self, leader: usize, count: usize, kind: usize) {
        let voter = &mut self.voters[leader];
        if voter.leader != Some(leader) {
            return;
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            self.next_value += 1;
            entries.push(Entry::Value(self.next_value));
        }
        match (kind, voter.is_in_transaction()) {
            (0, false) => entries.insert(count / 2, Entry::Begin),
            (1, true) => entries.insert(count / 2, Entry::End),
            (2, true) => entries.insert(count / 2, Entry::Abort),
            _ => {}
        }
        if entries.is_empty() {
            return;
        }
        voter.log.push(Batch::new(voter.end(), voter.epoch, entries));
    }

    /// Has the leader finalize a level of `kraft.version`.
    pub(crate) fn finalize(&mut self, leader: usize, level: u8) {
        let voter = &mut self.voters[leader];
        voter.log.push(Batch::new(voter.end(), voter.epoch, vec![Entry::Level(level)]));
    }

    /// Sends one batch from `leader` to `follower`, which first truncates what the leader does not
    /// have.
    pub(crate) fn replicate(&mut self, leader: usize, follower: usize) {
        let source = self.voters[leader].clone();
        let target = &mut self.voters[follower];
        if leader == follower || source.leader != Some(leader) || target.epoch > source.epoch {
            return;
        }
        (target.epoch, target.leader) = (source.epoch, Some(leader));
        let common = target.log.iter().zip(&source.log).take_while(|(ours, theirs)| ours == theirs).count();
        target.log.truncate(common);
        target.log.extend(source.log.get(common).cloned());
        if target.start < source.start && target.end() < source.start {
            *target = Voter { epoch: target.epoch, leader: Some(leader), ..source.clone() };
        }
        let end = target.end();
        target.high_watermark = target.high_watermark.max(source.high_watermark.min(end));
        // Two of three have it; earlier epochs are committed by a batch of this one only.
        let covers = source.log.iter().any(|batch| batch.epoch == source.epoch && batch.end() <= end);
        if covers && end > source.high_watermark {
            self.voters[leader].high_watermark = end;
            self.record(leader);
        }
    }

    fn record(&mut self, leader: usize) {
        let leader = &self.voters[leader];
        let committed: Vec<Batch> =
            leader.log.iter().filter(|batch| batch.end() <= leader.high_watermark).cloned().collect();
        let common = self.history.len().min(committed.len());
        assert_eq!(self.history[..common], committed[..common], "the model itself loses committed batches");
        if committed.len() > common {
            self.history = committed;
        }
    }

    /// Has a node make a snapshot of all that it knows as committed, and cut its log.
    pub(crate) fn snapshot(&mut self, voter: usize) {
        let high_watermark = self.voters[voter].high_watermark;
        let (values, through) = visible(&self.history, high_watermark);
        let covered = self.voters[voter].log.iter().rfind(|batch| batch.end() <= through);
        let Some(last) = covered.filter(|last| last.end() == through && through > self.voters[voter].start)
        else {
            return;
        };
        let id = SnapshotId { end_offset: through, epoch: last.epoch };
        let control = |base, kind: u8| {
            let mut batch = Builder::new().base_offset(base).leader_epoch(id.epoch).control();
            batch.push(0, Some(&[0, 0, 0, kind]), Some(&[0; 11]));
            batch.build().unwrap()
        };
        let mut bytes = BytesMut::from(&control(0, 3)[..]);
        let covered = self.history.iter().filter(|batch| batch.base < through);
        let levels = covered.filter(|batch| matches!(batch.entries[0], Entry::Level(_)));
        levels.last().into_iter().for_each(|batch| bytes.put_slice(&batch.bytes));
        let mut base = 1;
        for values in values.chunks(3) {
            let mut batch = Builder::new().base_offset(base).leader_epoch(id.epoch);
            for value in values {
                batch.push(0, None, Some(&record(3, *value)));
            }
            bytes.put_slice(&batch.build().unwrap());
            base += values.len() as i64;
        }
        bytes.put_slice(&control(base, 4));
        self.voters[voter].snapshot = Some((id, bytes.freeze()));
        self.voters[voter].start = through;
    }

    fn current_leader(&self, node: usize) -> LeaderEpoch {
        let leader_id = self.voters[node].leader.map_or(-1, |leader| leader as i32);
        LeaderEpoch { leader_id, leader_epoch: self.voters[node].epoch }
    }

    fn refusal(&self, node: usize, epoch: i32) -> i16 {
        let voter = &self.voters[node];
        match epoch.cmp(&voter.epoch) {
            std::cmp::Ordering::Less => ErrorCode::FencedLeaderEpoch.code(),
            std::cmp::Ordering::Greater => ErrorCode::UnknownLeaderEpoch.code(),
            _ if voter.leader != Some(node) => ErrorCode::NotLeaderOrFollower.code(),
            _ => ErrorCode::None.code(),
        }
    }

    /// Answers a Fetch with at most `max_batches`, and cuts `cut` bytes off their end.
    pub(crate) fn fetch(
        &self,
        node: usize,
        request: &FetchRequest,
        max_batches: usize,
        cut: usize,
    ) -> FetchResponse<Bytes> {
        let asked = &request.topics[0].partitions[0];
        let voter = &self.voters[node];
        let mut partition = FetchedPartition::new(0);
        partition.current_leader = Some(self.current_leader(node));
        partition.error_code = self.refusal(node, asked.current_leader_epoch);
        assert!(asked.last_fetched_epoch <= asked.current_leader_epoch, "INVALID_REQUEST");
        if partition.error_code == ErrorCode::None.code() {
            partition.high_watermark = voter.high_watermark;
            let (offset, epoch) = (asked.fetch_offset, asked.last_fetched_epoch);
            match &voter.snapshot {
                Some((id, _)) if offset < voter.start || epoch < id.epoch && offset != 0 => {
                    partition.snapshot_id = Some(*id);
                }
                _ => match diverging(&voter.log, offset, epoch) {
                    Some(end) => partition.diverging_epoch = Some(end),
                    None => {
                        let batches = voter.log.iter().skip_while(|batch| batch.base < offset);
                        let bytes: Vec<u8> =
                            batches.take(max_batches).flat_map(|batch| batch.bytes.to_vec()).collect();
                        let kept = bytes.len().saturating_sub(cut);
                        partition.records = Some(Bytes::from(bytes).slice(..kept));
                    }
                },
            }
        }
        let topic =
            FetchedTopic { name: "".into(), topic_id: METADATA_TOPIC_ID, partitions: vec![partition] };
        FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics: vec![topic],
            node_endpoints: Vec::new(),
        }
    }

    /// Answers a FetchSnapshot with at most `max_bytes`; any error has the form that Kafka 4.3.1
    /// gives it.
    pub(crate) fn fetch_snapshot(
        &self,
        node: usize,
        request: &FetchSnapshotRequest,
        max_bytes: usize,
    ) -> FetchSnapshotResponse {
        let asked = &request.topics[0].partitions[0];
        let mut response = FetchSnapshotResponse::default();
        let name = SnapshotId { end_offset: asked.snapshot_id.end_offset, epoch: asked.snapshot_id.epoch };
        let snapshot = self.voters[node].snapshot.as_ref().filter(|(id, _)| *id == name);
        let Some((id, bytes)) =
            snapshot.filter(|_| self.refusal(node, asked.current_leader_epoch) == ErrorCode::None.code())
        else {
            response.error_code = -1;
            return response;
        };
        let position = asked.position as usize;
        assert!(position < bytes.len(), "POSITION_OUT_OF_RANGE");
        let leader = self.current_leader(node);
        let mut partition = fetch_snapshot_response::PartitionSnapshot::default();
        partition.snapshot_id.end_offset = id.end_offset;
        partition.snapshot_id.epoch = id.epoch;
        partition.current_leader.leader_id = leader.leader_id;
        partition.current_leader.leader_epoch = leader.leader_epoch;
        partition.size = bytes.len() as i64;
        partition.position = asked.position;
        partition.unaligned_records = bytes.slice(position..bytes.len().min(position + max_bytes.max(1)));
        let mut topic = fetch_snapshot_response::TopicSnapshot::default();
        topic.name = METADATA_TOPIC.into();
        topic.partitions = vec![partition];
        response.topics = vec![topic];
        response
    }
}

/// The end of the largest epoch of `log` that is not above `epoch`, unless a log that ends at
/// `offset` of `epoch` is a prefix of it.
fn diverging(log: &[Batch], offset: i64, epoch: i32) -> Option<EpochEnd> {
    let last = log.iter().rev().find(|batch| batch.epoch <= epoch);
    let end = last.map_or(EpochEnd { epoch: 0, end_offset: 0 }, |batch| EpochEnd {
        epoch: batch.epoch,
        end_offset: batch.end(),
    });
    (end.epoch != epoch || end.end_offset < offset).then_some(end)
}

/// The values that have taken effect before `offset`, and the offset that is reached: before
/// an open transaction the rest waits.
pub(crate) fn visible(history: &[Batch], offset: i64) -> (Vec<u32>, i64) {
    let (mut values, mut through, mut held) = (Vec::new(), 0, None);
    for batch in history.iter().filter(|batch| batch.base < offset) {
        for (at, entry) in (batch.base..offset).zip(&batch.entries) {
            match (entry, &mut held) {
                (Entry::Value(value), Some(held)) => Vec::push(held, *value),
                (Entry::Value(value), None) => values.push(*value),
                (Entry::Begin, _) => held = Some(Vec::new()),
                (Entry::End, _) => values.extend(held.take().unwrap()),
                (Entry::Abort, _) => held = None,
                (Entry::LeaderChange | Entry::Level(_), _) => {}
            }
            if held.is_none() {
                through = at + 1;
            }
        }
    }
    (values, through)
}
