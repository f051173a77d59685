//! Consuming in a share group from a broker with one partition.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clap::Parser;
use levada_base::batch::Builder;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_terminal::failure::Failure;
use levada_wire::messages::share_fetch_response::{
    AcquiredRecords, PartitionData, ShareFetchableTopicResponse,
};
use levada_wire::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use levada_wire::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatResponse,
};
use levada_wire::{ApiKey, Uuid};

use super::super::shared::Ack;
use super::super::sink::Sink;
use super::super::{Args, Wanted, read};

const TOPIC: Uuid = Uuid::from_bytes(1_u128.to_be_bytes());

/// A topic `t` with these records. Each fetch acquires as many of them as it may.
struct Leader {
    values: &'static [&'static str],
    acquired: usize,
    /// Offset and type of each acknowledgement.
    acknowledged: Vec<(i64, i8)>,
    /// Error code of heartbeats.
    beat_code: i16,
}

impl Leader {
    fn answer(&mut self, asked: &Asked) -> Option<Bytes> {
        match asked.header.api {
            ApiKey::Metadata => asked.metadata(&[("t", 1, &[1])]),
            ApiKey::FindCoordinator => asked.coordinator(),
            ApiKey::ShareGroupHeartbeat => {
                let mut topic = TopicPartitions::default();
                (topic.topic_id, topic.partitions) = (TOPIC, vec![0]);
                let mut assignment = Assignment::default();
                assignment.topic_partitions = vec![topic];
                let mut response = ShareGroupHeartbeatResponse::default();
                (response.member_epoch, response.error_code) = (1, self.beat_code);
                response.assignment = Some(assignment);
                asked.answer(&response)
            }
            ApiKey::ShareFetch => {
                let request: ShareFetchRequest = asked.decoded();
                let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
                for one in partitions.flat_map(|one| &one.acknowledgement_batches) {
                    self.note((one.first_offset, one.last_offset), &one.acknowledge_types);
                }
                asked.answer(&self.acquire(request.max_records as usize))
            }
            ApiKey::ShareAcknowledge => {
                let request: ShareAcknowledgeRequest = asked.decoded();
                let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
                for one in partitions.flat_map(|one| &one.acknowledgement_batches) {
                    self.note((one.first_offset, one.last_offset), &one.acknowledge_types);
                }
                asked.answer(&ShareAcknowledgeResponse::default())
            }
            other => panic!("{other:?}"),
        }
    }

    fn note(&mut self, (first, last): (i64, i64), types: &[i8]) {
        let kinds = types.iter().chain(std::iter::repeat(&types[0]));
        self.acknowledged.extend((first..=last).zip(kinds.copied()));
    }

    fn acquire(&mut self, records_max: usize) -> ShareFetchResponse {
        let mut response = ShareFetchResponse::default();
        let first = self.acquired;
        self.acquired = (first + records_max).min(self.values.len());
        if first == self.acquired {
            return response;
        }
        let mut builder = Builder::new().base_offset(first as i64);
        for value in &self.values[first..self.acquired] {
            builder.push(0, None, Some(value.as_bytes()));
        }
        let mut range = AcquiredRecords::default();
        (range.first_offset, range.last_offset) = (first as i64, self.acquired as i64 - 1);
        range.delivery_count = 1;
        let mut data = PartitionData::default();
        (data.records, data.acquired_records) = (builder.build().unwrap().freeze(), vec![range]);
        let mut topic = ShareFetchableTopicResponse::default();
        (topic.topic_id, topic.partitions) = (TOPIC, vec![data]);
        response.responses = vec![topic];
        response
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The output, and the acknowledgements, of a command with these options.
fn consume(options: &str, beat_code: i16) -> (Result<(), Failure>, String, Vec<(i64, i8)>) {
    let values = &["a", "b", "c"];
    let leader = Leader { values, acquired: 0, acknowledged: Vec::new(), beat_code };
    let leader = Arc::new(Mutex::new(leader));
    let own = leader.clone();
    let broker = FakeBroker::start(move |asked| own.lock().unwrap().answer(asked));
    let words = format!("consume t --share g -b {} {options}", broker.address());
    let line = Line::try_parse_from(words.split_whitespace()).unwrap();
    let wanted = Wanted::new(&["t".to_owned()]).unwrap();
    let cluster = line.args.brokers.connect().unwrap();
    let mut out = Vec::new();
    let ended = read(&line.args, &wanted, cluster, &mut Sink::new(&line.args, None, &mut out));
    let acknowledged = leader.lock().unwrap().acknowledged.clone();
    (ended, String::from_utf8(out).unwrap(), acknowledged)
}

#[test]
fn printed_records_are_acknowledged() {
    let cases = [
        ("-e", "a\nb\nc\n", vec![(0, 1), (1, 1), (2, 1)]),
        ("-e --ack reject", "a\nb\nc\n", vec![(0, 3), (1, 3), (2, 3)]),
        ("-n 2 --ack release", "a\nb\n", vec![(0, 2), (1, 2)]),
        ("-n 1 -f %v:%d,", "a:1,", vec![(0, 1)]),
    ];
    for (options, printed, expected) in cases {
        let (ended, out, acknowledged) = consume(options, 0);
        assert!(ended.is_ok(), "{options}: {ended:?}");
        assert_eq!((out.as_str(), acknowledged), (printed, expected), "{options}");
    }
}

#[test]
fn a_cluster_without_share_groups_is_explained() {
    let code = levada_wire::error_code::ErrorCode::UnsupportedVersion.code();
    let (ended, ..) = consume("-e", code);
    let Err(Failure::Failed { what, next, .. }) = ended else { panic!("{ended:?}") };
    assert!(what.starts_with("consume in share group g: "), "{what}");
    assert!(next.is_some_and(|next| next.contains("--feature share.version=1")));
}

#[test]
fn share_consume_refuses_options_of_other_modes() {
    for options in ["-G other", "-o latest", "-p 0", "--until 5", "--grep x", "--isolation read_committed"] {
        let words = format!("consume t --share g {options}");
        assert!(Line::try_parse_from(words.split_whitespace()).is_err(), "{options}");
    }
    assert!(Line::try_parse_from(["consume", "t", "--ack", "accept"]).is_err(), "without --share");
}

#[test]
fn acknowledgement_keys_ignore_case() {
    let keys = *b"aArRxXq\n";
    let (accept, release, reject) = (Some(Ack::Accept), Some(Ack::Release), Some(Ack::Reject));
    let expected = [accept, accept, release, release, reject, reject, None, None];
    assert_eq!(keys.map(Ack::of_key), expected);
}
