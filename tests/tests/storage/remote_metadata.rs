//! Metadata of tiered storage against Kafka's classes: bytes of records, partitions of the metadata
//! topic, the lineage of leader epochs, and the cache of a partition's remote segments, on random
//! input.
//!
//! Suite: short; 8 s; needs java; share tiers
//! Soak: scale 50, repeated

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use levada_testing::{scaled, seed};
use levada_tests::Tool;
use levada_tests::tool::Conversation;
use levada_tiered::record::{decode, encode};
use levada_tiered::segment::EpochStart;
use levada_tiered::{
    PartitionDelete, PartitionDeleteState, RemoteRecord, RemoteSegment, RemoteSegmentId, SegmentCache,
    SegmentState, SegmentUpdate, TopicIdPartition, lineage, metadata_partition,
};
use levada_wire::Uuid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const RECORDS: usize = 400;
const LINEAGES: usize = 4000;
const CACHES: usize = 60;
const EVENTS: usize = 25;
/// Leader epochs and offsets of random segments are below these.
const EPOCHS: i32 = 6;
const OFFSETS: i64 = 40;

struct Kafka {
    conversation: Conversation,
    random: StdRng,
}

impl Kafka {
    fn new() -> Self {
        let conversation = Tool::own_java("RemoteMetadata").spawn();
        Self { conversation, random: StdRng::seed_from_u64(seed()) }
    }

    fn ask(&mut self, question: &Value) -> Value {
        self.conversation.say(&question.to_string());
        serde_json::from_str(&self.conversation.line(LIMIT)).expect("JSON")
    }

    fn id(&mut self) -> Uuid {
        Uuid::from_bytes(self.random.random())
    }

    fn partition(&mut self) -> TopicIdPartition {
        let length = self.random.random_range(1..=249);
        let partition = self.random.random_range(0..1000);
        TopicIdPartition { topic_id: self.id(), topic: "t".repeat(length), partition }
    }

    /// Starts of some epochs from `start` on, in ascending order; some have no records.
    fn epochs(&mut self, start: i64) -> Vec<EpochStart> {
        let mut at = start;
        let mut epochs = Vec::new();
        for epoch in 0..EPOCHS {
            if self.random.random_bool(0.5) {
                epochs.push((epoch, at));
                at += self.random.random_range(0..8);
            }
        }
        if epochs.is_empty() { vec![(0, start)] } else { epochs }
    }

    fn segment(&mut self) -> RemoteSegment {
        let start_offset = self.random.random_range(0..OFFSETS);
        let epochs = self.epochs(start_offset);
        let last = epochs.last().expect("an epoch").1;
        RemoteSegment {
            id: RemoteSegmentId { partition: TopicIdPartition::default(), id: self.id() },
            start_offset,
            end_offset: last + self.random.random_range(0..10),
            max_timestamp_ms: self.random.random_range(-1..1 << 42),
            broker_id: self.random.random_range(0..1 << 20),
            event_timestamp_ms: self.random.random_range(0..1 << 42),
            size: self.random.random_range(0..i32::MAX),
            epochs,
            custom_metadata: self.custom(),
            state: SegmentState::CopyStarted,
            txn_index_empty: self.random.random_bool(0.5),
        }
    }

    fn custom(&mut self) -> Option<Bytes> {
        let length = self.random.random_range(0..150);
        let bytes: Vec<u8> = (0..length).map(|_| self.random.random()).collect();
        self.random.random_bool(0.5).then(|| Bytes::from(bytes))
    }

    fn state(&mut self) -> SegmentState {
        SegmentState::from_id(self.random.random_range(0..4)).expect("a state")
    }

    fn update(&mut self, id: RemoteSegmentId) -> SegmentUpdate {
        SegmentUpdate {
            id,
            broker_id: self.random.random_range(0..1 << 20),
            event_timestamp_ms: self.random.random_range(0..1 << 42),
            custom_metadata: self.custom(),
            state: self.state(),
        }
    }

    fn record(&mut self) -> RemoteRecord {
        let mut segment = RemoteSegment { state: self.state(), ..self.segment() };
        match self.random.random_range(0..4) {
            0 => {
                segment.id.partition = self.partition();
                RemoteRecord::Segment(segment)
            }
            1 => {
                let id = RemoteSegmentId { partition: self.partition(), id: self.id() };
                RemoteRecord::Update(self.update(id))
            }
            2 => RemoteRecord::PartitionDelete(PartitionDelete {
                partition: self.partition(),
                broker_id: self.random.random_range(0..1 << 20),
                event_timestamp_ms: self.random.random_range(0..1 << 42),
                state: PartitionDeleteState::from_id(self.random.random_range(0..3)).expect("a state"),
            }),
            _ => RemoteRecord::Snapshot(segment),
        }
    }
}

/// An id as Kafka writes it.
fn text(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.to_bytes())
}

/// Command `ask` for the driver `RemoteMetadata` about a record, with its fields in the names that
/// the driver reads.
fn question(ask: &str, record: &RemoteRecord) -> Value {
    let hex = |bytes: &Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let partition = record.partition();
    let mut question = match record {
        RemoteRecord::Segment(segment) | RemoteRecord::Snapshot(segment) => json!({
            "id": text(segment.id.id), "start": segment.start_offset, "end_offset": segment.end_offset,
            "maxTime": segment.max_timestamp_ms, "broker": segment.broker_id,
            "time": segment.event_timestamp_ms, "size": segment.size, "epochs": segment.epochs,
            "custom": segment.custom_metadata.as_ref().map(hex), "state": segment.state.id(),
            "txnIndexEmpty": segment.txn_index_empty,
        }),
        RemoteRecord::Update(update) => json!({
            "id": text(update.id.id), "broker": update.broker_id, "time": update.event_timestamp_ms,
            "custom": update.custom_metadata.as_ref().map(hex), "state": update.state.id(),
        }),
        RemoteRecord::PartitionDelete(delete) => json!({
            "broker": delete.broker_id, "time": delete.event_timestamp_ms, "state": delete.state.id(),
        }),
    };
    question["do"] = json!(ask);
    question["kind"] = json!(match record {
        RemoteRecord::Segment(_) => "segment",
        RemoteRecord::Update(_) => "update",
        RemoteRecord::PartitionDelete(_) => "delete",
        RemoteRecord::Snapshot(_) => "snapshot",
    });
    question["topic"] = json!(partition.topic);
    question["topicId"] = json!(text(partition.topic_id));
    question["partition"] = json!(partition.partition);
    question
}

#[test]
fn records_have_the_bytes_of_kafka() {
    let mut kafka = Kafka::new();
    for _ in 0..scaled(RECORDS) {
        let record = kafka.record();
        let bytes = encode(&record).expect("a valid record");
        let expected = kafka.ask(&question("encode", &record));
        let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(json!(found), expected, "of {record:?}");
        assert_eq!(decode(bytes).expect("a valid record"), record);
        let count = kafka.random.random_range(1..100);
        let mut asked = question("partition", &record);
        asked["count"] = json!(count);
        assert_eq!(json!(metadata_partition(record.partition(), count)), kafka.ask(&asked), "of {asked}");
    }
    kafka.conversation.finish(LIMIT);
}

#[test]
fn epoch_lineage_decisions_match_kafka() {
    let mut kafka = Kafka::new();
    let mut within = 0;
    for _ in 0..scaled(LINEAGES) {
        let mut segment = kafka.segment();
        let start = kafka.random.random_range(0..OFFSETS);
        let mut own = kafka.epochs(start);
        if kafka.random.random_bool(0.7) {
            // A part of one history: the segment's own epochs, with changes.
            own = segment.epochs.clone();
            for _ in 0..kafka.random.random_range(0..3) {
                change(&mut kafka.random, &mut own);
                change(&mut kafka.random, &mut segment.epochs);
            }
        }
        // Kafka calls it only with a history that has records.
        let own = lineage::without_empty_epochs(&own);
        if own.is_empty() || segment.epochs.is_empty() {
            continue;
        }
        let end = segment.end_offset + kafka.random.random_range(-1..5);
        let mut asked = question("lineage", &RemoteRecord::Segment(segment.clone()));
        asked["lineage"] = json!(own);
        asked["end"] = json!(end);
        let expected = kafka.ask(&asked);
        let found = lineage::within_lineage(&segment, end, &own);
        assert_eq!(json!(found), expected, "of {asked}");
        within += usize::from(found);
    }
    assert!(within > scaled(LINEAGES) / 20, "too few segments of the history: {within}");
    kafka.conversation.finish(LIMIT);
}

/// Removes an epoch, moves the start of one, or adds one at the end.
fn change(random: &mut StdRng, epochs: &mut Vec<EpochStart>) {
    let (Some(first), Some(last)) = (epochs.first().copied(), epochs.last().copied()) else { return };
    match random.random_range(0..4) {
        0 => drop(epochs.remove(0)),
        1 => drop(epochs.pop()),
        2 => epochs[0] = (first.0, first.1 + random.random_range(0..3)),
        _ => epochs.push((last.0 + 1, last.1 + random.random_range(0..6))),
    }
}

#[test]
fn remote_metadata_cache_matches_kafka() {
    let mut kafka = Kafka::new();
    for _ in 0..scaled(CACHES) {
        kafka.ask(&json!({"do": "new"}));
        let mut cache = SegmentCache::default();
        let mut known: Vec<RemoteSegment> = Vec::new();
        for _ in 0..EVENTS {
            let record = event(&mut kafka, &mut known);
            // Kafka logs an invalid transition, and throws for an unknown segment or a second
            // begin.
            let refused = cache.apply(&record).is_err();
            let thrown = kafka.ask(&question("apply", &record));
            assert!(refused || thrown.is_null(), "{record:?}: {thrown}");
            let expected = kafka.ask(&json!({"do": "state", "epochs": EPOCHS, "offsets": OFFSETS * 3}));
            assert_eq!(answers(&cache), expected, "after {record:?}");
        }
    }
    kafka.conversation.finish(LIMIT);
}

/// A new segment, a repeated one, or any state of a known one; now and then of an unknown one.
fn event(kafka: &mut Kafka, known: &mut Vec<RemoteSegment>) -> RemoteRecord {
    let chance = kafka.random.random_range(0..10);
    if known.is_empty() || chance < 3 {
        known.push(kafka.segment());
        return RemoteRecord::Segment(known[known.len() - 1].clone());
    }
    let at = kafka.random.random_range(0..known.len());
    if chance == 3 {
        return RemoteRecord::Segment(known[at].clone());
    }
    let mut id = known[at].id.clone();
    if kafka.random.random_bool(0.05) {
        id.id = kafka.id();
    }
    let mut update = kafka.update(id);
    if kafka.random.random_bool(0.6) {
        update.state = SegmentState::CopyFinished;
    }
    RemoteRecord::Update(update)
}

/// The answers of a cache, as `RemoteMetadata` writes those of Kafka's.
fn answers(cache: &SegmentCache) -> Value {
    fn ids<'a>(segments: impl Iterator<Item = &'a Arc<RemoteSegment>>) -> BTreeSet<String> {
        segments.map(|segment| format!("{} {}", text(segment.id.id), segment.state.id())).collect()
    }
    let id = |found: Option<&Arc<RemoteSegment>>| found.map(|segment| text(segment.id.id));
    let epoch = |epoch: i32| {
        let offsets = 0..OFFSETS * 3;
        let found: Vec<_> = offsets.clone().map(|offset| id(cache.segment_for(epoch, offset))).collect();
        let next = offsets.map(|offset| id(cache.next_segment_with_txn_index(epoch, offset)));
        json!({
            "ids": ids(cache.list_epoch(epoch).into_iter()), "highest": cache.highest_offset(epoch),
            "found": found, "transactions": next.collect::<Vec<_>>(),
        })
    };
    json!({"all": ids(cache.list()), "epochs": (0..EPOCHS).map(epoch).collect::<Vec<_>>()})
}
