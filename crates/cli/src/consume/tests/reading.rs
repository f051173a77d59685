//! Tests of reading, alone and in a group, from a broker whose partitions have faults.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use clap::Parser;
use levada_base::batch::Builder;
use levada_client::EARLIEST;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_terminal::failure::Failure;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use levada_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use levada_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use levada_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FetchRequest, FetchResponse,
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};
use levada_wire::{ApiKey, StrBytes, Uuid};

use super::super::sink::Sink;
use super::super::{Args, Wanted, read};
use crate::interrupt::fake::FakeSignal;

/// Called for each request before it is answered.
type OnRequest = Box<dyn FnMut(&mut Broker, ApiKey) + Send>;

/// A topic `t`, and a group that reads it.
struct Broker {
    id: u128,
    leaders: Vec<i32>,
    /// Values of the records of each partition, from offset 0 on.
    logs: Vec<Vec<String>>,
    /// Error codes of fetches of each partition.
    codes: Vec<i16>,
    committed: BTreeMap<i32, i64>,
    /// Partitions with an offset in an open transaction.
    unstable: Vec<i32>,
    /// Epochs of the heartbeats.
    beats: Vec<i32>,
    /// The id of the topic in the last assignment.
    assigned: u128,
    event: OnRequest,
    /// Error code of the next commit.
    commit_code: i16,
    /// Error code of heartbeats.
    beat_code: i16,
}

impl Broker {
    /// A broker with these counts of records; their values are `partition:offset`.
    fn new(counts: &[usize]) -> Self {
        let log = |(partition, count): (usize, &usize)| {
            (0..*count).map(|offset| format!("{partition}:{offset}")).collect()
        };
        Self {
            id: 1,
            leaders: vec![1; counts.len()],
            logs: counts.iter().enumerate().map(log).collect(),
            codes: vec![0; counts.len()],
            committed: BTreeMap::new(),
            unstable: Vec::new(),
            beats: Vec::new(),
            assigned: 0,
            event: Box::new(|_, _| ()),
            commit_code: 0,
            beat_code: 0,
        }
    }

    fn answer(&mut self, asked: &Asked) -> Option<Bytes> {
        let mut event = std::mem::replace(&mut self.event, Box::new(|_, _| ()));
        event(self, asked.header.api);
        self.event = event;
        match asked.header.api {
            ApiKey::Metadata => asked.metadata(&[("t", self.id, &self.leaders)]),
            ApiKey::ListOffsets => asked.answer(&self.offsets(&asked.decoded())),
            ApiKey::Fetch => asked.answer(&self.fetched(&asked.decoded())),
            ApiKey::FindCoordinator => asked.coordinator(),
            ApiKey::ConsumerGroupHeartbeat => asked.answer(&self.beat(&asked.decoded())),
            ApiKey::OffsetFetch => asked.answer(&self.fetched_offsets(&asked.decoded())),
            ApiKey::OffsetCommit => asked.answer(&self.commit(&asked.decoded())),
            other => panic!("{other:?}"),
        }
    }

    fn offsets(&self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let mut topic = ListOffsetsTopicResponse::default();
        topic.name = StrBytes::from("t");
        for asked in &request.topics[0].partitions {
            let mut one = ListOffsetsPartitionResponse::default();
            one.partition_index = asked.partition_index;
            let end = self.logs[asked.partition_index as usize].len() as i64;
            one.offset = if asked.timestamp == EARLIEST { 0 } else { end };
            topic.partitions.push(one);
        }
        let mut response = ListOffsetsResponse::default();
        response.topics = vec![topic];
        response
    }

    fn fetched(&self, request: &FetchRequest) -> FetchResponse {
        let mut response = FetchResponse::default();
        for asked in &request.topics {
            let mut topic = FetchableTopicResponse::default();
            topic.topic_id = asked.topic_id;
            for one in &asked.partitions {
                let is_there = asked.topic_id == id(self.id);
                topic.partitions.push(self.records(is_there, one.partition, one.fetch_offset));
            }
            response.responses.push(topic);
        }
        let all = response.responses.iter().flat_map(|topic| &topic.partitions);
        if all.map(|one| one.records.as_ref().map_or(0, Bytes::len)).sum::<usize>() == 0 {
            // As a broker that waits for records.
            thread::sleep(Duration::from_millis(2));
        }
        response
    }

    fn records(&self, is_there: bool, partition: i32, from: i64) -> PartitionData {
        let (log, code) = (&self.logs[partition as usize], self.codes[partition as usize]);
        let end = log.len() as i64;
        let mut data = PartitionData::default();
        (data.partition_index, data.high_watermark) = (partition, end);
        data.error_code = match code {
            _ if !is_there => ErrorCode::UnknownTopicId.code(),
            0 if from > end => ErrorCode::OffsetOutOfRange.code(),
            code => code,
        };
        let mut batches = BytesMut::new();
        if data.error_code == 0 {
            for (offset, value) in (0..).zip(log).skip(from as usize) {
                let mut builder = Builder::new().base_offset(offset);
                let batch = builder.push(0, None, Some(value.as_bytes())).build().unwrap();
                batches.extend_from_slice(&batch);
            }
        }
        data.records = Some(batches.freeze());
        data
    }

    fn beat(&mut self, request: &ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        self.beats.push(request.member_epoch);
        let mut response = ConsumerGroupHeartbeatResponse::default();
        response.heartbeat_interval_ms = 100;
        response.error_code = self.beat_code;
        response.member_epoch = request.member_epoch.max(1);
        if request.member_epoch == 0 || self.assigned != self.id {
            self.assigned = self.id;
            let mut topic = TopicPartitions::default();
            topic.topic_id = id(self.id);
            topic.partitions = (0..self.logs.len() as i32).collect();
            let mut assignment = Assignment::default();
            assignment.topic_partitions = vec![topic];
            response.assignment = Some(assignment);
        }
        response
    }

    fn fetched_offsets(&self, request: &OffsetFetchRequest) -> OffsetFetchResponse {
        let mut topic = OffsetFetchResponseTopics::default();
        topic.name = StrBytes::from("t");
        for partition in 0..self.logs.len() as i32 {
            let mut one = OffsetFetchResponsePartitions::default();
            (one.partition_index, one.committed_offset) = (partition, -1);
            if request.require_stable && self.unstable.contains(&partition) {
                one.error_code = ErrorCode::UnstableOffsetCommit.code();
            } else if let Some(offset) = self.committed.get(&partition) {
                one.committed_offset = *offset;
            }
            topic.partitions.push(one);
        }
        let mut group = OffsetFetchResponseGroup::default();
        group.group_id = request.groups[0].group_id.clone();
        group.topics = vec![topic];
        let mut response = OffsetFetchResponse::default();
        response.groups = vec![group];
        response
    }

    fn commit(&mut self, request: &OffsetCommitRequest) -> OffsetCommitResponse {
        let code = std::mem::take(&mut self.commit_code);
        let mut topic = OffsetCommitResponseTopic::default();
        topic.name = StrBytes::from("t");
        for one in &request.topics[0].partitions {
            if code == 0 {
                self.committed.insert(one.partition_index, one.committed_offset);
            }
            let mut answer = OffsetCommitResponsePartition::default();
            (answer.partition_index, answer.error_code) = (one.partition_index, code);
            topic.partitions.push(answer);
        }
        let mut response = OffsetCommitResponse::default();
        response.topics = vec![topic];
        response
    }
}

fn id(id: u128) -> Uuid {
    Uuid::from_bytes(id.to_be_bytes())
}

/// The command alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Runs `levada consume` with these words.
fn consume(broker: &Arc<Mutex<Broker>>, words: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let shared = Arc::clone(broker);
    let fake = FakeBroker::start(move |asked| shared.lock().unwrap().answer(asked));
    let line = format!("consume {words} -b {}", fake.address());
    let args = Line::try_parse_from(line.split(' ')).unwrap().args;
    read(&args, &Wanted::new(&args.topics)?, args.brokers.connect()?, &mut Sink::new(&args, None, out))
}

/// The sorted records that `levada consume` prints before it succeeds.
fn consumed(broker: Broker, words: &str) -> (String, Arc<Mutex<Broker>>) {
    let (broker, mut out) = (Arc::new(Mutex::new(broker)), Vec::new());
    consume(&broker, words, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    (lines.join(" "), broker)
}

#[test]
fn consume_waits_for_partition_without_leader() {
    for topic in ["t", "^t.*"] {
        let mut broker = Broker::new(&[2, 2]);
        broker.leaders[1] = -1;
        let mut looks = 0;
        broker.event = Box::new(move |broker, api| {
            looks += usize::from(api == ApiKey::Metadata);
            if looks == 4 {
                broker.leaders[1] = 2;
            }
        });
        assert_eq!(consumed(broker, &format!("{topic} -e")).0, "0:0 0:1 1:0 1:1", "{topic}");
    }
}

#[test]
fn latest_start_applies_to_initially_leaderless_partition() {
    let mut broker = Broker::new(&[2, 2]);
    broker.leaders[1] = -1;
    let mut offsets = 0;
    broker.event = Box::new(move |broker, api| {
        offsets += usize::from(api == ApiKey::ListOffsets);
        match api {
            ApiKey::Fetch if offsets == 1 => broker.leaders[1] = 2,
            ApiKey::Fetch if offsets == 2 && broker.logs[1].len() == 2 => {
                broker.logs[1].push("new".to_owned());
            }
            _ => {}
        }
    });
    assert_eq!(consumed(broker, "^t.* -o latest -n 1").0, "new");
}

#[test]
fn refused_partition_does_not_stop_consuming_others() {
    let mut broker = Broker::new(&[2, 2, 2]);
    broker.codes[0] = ErrorCode::NotLeaderOrFollower.code();
    broker.event = Box::new(|broker, api| {
        if api == ApiKey::Fetch && broker.logs[2].len() < 5 {
            broker.logs[2].push("more".to_owned());
        }
    });
    assert_eq!(consumed(broker, "t -n 7").0, "1:0 1:1 2:0 2:1 more more more");
}

#[test]
fn consume_ends_if_log_shrinks_below_end() {
    for group in ["", " -G g"] {
        let mut broker = Broker::new(&[10]);
        broker.event = Box::new(|broker, api| {
            if api == ApiKey::Fetch {
                broker.logs[0].truncate(2);
            }
        });
        assert_eq!(consumed(broker, &format!("t -e{group}")).0, "0:0 0:1", "{group}");
    }
}

#[test]
fn group_reads_recreated_topic_from_start() {
    let mut broker = Broker::new(&[3]);
    broker.event = Box::new(|broker, _| {
        if broker.id == 1 && broker.committed.get(&0) == Some(&3) {
            (broker.id, broker.logs) = (2, vec![vec!["new".to_owned(); 2]]);
            broker.committed.clear();
        }
    });
    let (found, broker) = consumed(broker, "t -G g -n 5");
    assert_eq!(found, "0:0 0:1 0:2 new new");
    assert_eq!(broker.lock().unwrap().committed, BTreeMap::from([(0, 2)]));
}

#[test]
fn consume_repeats_no_record_after_lost_membership() {
    let mut broker = Broker::new(&[2, 2]);
    broker.codes[1] = ErrorCode::NotLeaderOrFollower.code();
    broker.commit_code = ErrorCode::UnknownMemberId.code();
    broker.event = Box::new(|broker, api| {
        if api == ApiKey::ConsumerGroupHeartbeat && broker.beats.len() > 1 {
            broker.codes[1] = 0;
        }
    });
    let (found, broker) = consumed(broker, "t -G g -n 4");
    assert_eq!(found, "0:0 0:1 1:0 1:1");
    let broker = broker.lock().unwrap();
    assert_eq!(broker.beats.iter().filter(|epoch| **epoch == 0).count(), 2, "{:?}", broker.beats);
    assert_eq!(broker.committed, BTreeMap::from([(0, 2), (1, 2)]));
}

/// Output that takes this number of bytes, and fails then.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failed_consume_leaves_group_and_commits_printed() {
    let full = || Full("0:0\n0:1\n".len());
    let (mut direct, mut buffered) = (full(), BufWriter::new(full()));
    let cases: [(&mut dyn Write, Option<i64>); 2] = [(&mut direct, Some(2)), (&mut buffered, None)];
    for (out, committed) in cases {
        let broker = Arc::new(Mutex::new(Broker::new(&[5])));
        let failure = consume(&broker, "t -G g -e", out).unwrap_err();
        assert!(matches!(failure, Failure::Output(_)), "{failure:?}");
        let broker = broker.lock().unwrap();
        assert_eq!(broker.beats.last(), Some(&-1), "{:?}", broker.beats);
        assert_eq!(broker.committed.get(&0).copied(), committed);
    }
}

#[test]
fn consume_ends_on_wrong_group_type() {
    let mut broker = Broker::new(&[1]);
    broker.beat_code = ErrorCode::GroupIdNotFound.code();
    // Another refusal, which ends a command that repeats the first one.
    broker.event = Box::new(|broker, _| {
        if broker.beats.len() >= 20 {
            broker.beat_code = ErrorCode::InvalidGroupId.code();
        }
    });
    let broker = Arc::new(Mutex::new(broker));
    let failure = consume(&broker, "t -G g", &mut io::sink()).unwrap_err();
    assert!(failure.line().contains("GROUP_ID_NOT_FOUND"), "{failure:?}");
    assert_eq!(broker.lock().unwrap().beats, [0]);
}

#[test]
fn group_waits_for_pending_offsets_and_reads_others() {
    let mut broker = Broker::new(&[2, 3]);
    (broker.committed, broker.unstable) = (BTreeMap::from([(1, 1)]), vec![1]);
    broker.event = Box::new(|broker, _| {
        // The end of the transaction replaces the offset of partition 1.
        if !broker.unstable.is_empty() && broker.committed.get(&0) == Some(&2) {
            broker.unstable.clear();
            broker.committed.insert(1, 2);
        }
    });
    let (found, broker) = consumed(broker, "t -G g -e");
    assert_eq!(found, "0:0 0:1 1:2");
    assert_eq!(broker.lock().unwrap().committed, BTreeMap::from([(0, 2), (1, 3)]));
}

/// Output whose first record comes with a signal.
#[derive(Default)]
struct Interrupting(Vec<u8>, Option<FakeSignal>);

impl Write for Interrupting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.get_or_insert_with(FakeSignal::now);
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn interrupted_group_consume_fails_before_its_end() {
    for (end, is_complete) in
        [("-n 9", false), ("-e", false), ("--until 4", false), ("-n 1", true), ("", true)]
    {
        let broker = Arc::new(Mutex::new(Broker::new(&[5])));
        let mut out = Interrupting::default();
        let ended = consume(&broker, format!("t -G g {end}").trim_end(), &mut out);
        drop(out.1);
        if is_complete {
            assert!(ended.is_ok(), "{end}: {ended:?}");
        } else {
            assert!(matches!(ended, Err(Failure::Interrupted)), "{end}: {ended:?}");
        }
        let printed = out.0.iter().filter(|byte| **byte == b'\n').count() as i64;
        let broker = broker.lock().unwrap();
        assert_eq!(broker.committed.get(&0), Some(&printed), "{end}");
        assert_eq!(broker.beats.last(), Some(&-1), "{end}: it has left");
    }
}
