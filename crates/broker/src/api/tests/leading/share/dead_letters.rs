//! Dead letters of records that members reject, or do not accept often enough.

use std::sync::Arc;

use bytes::Bytes;
use levada_base::batch::records;
use levada_coordination::share_state::StateBatch;
use levada_coordination::share_state::request::WritePart;
use levada_metadata::features::SHARE_VERSION;
use tokio::sync::Notify;

use super::*;
use crate::source::DeadLetterCounts;

const LETTERS: Uuid = Uuid::from_bytes([8; 16]);
const TOPIC: &str = "dlq.shared";
const TOPIC_KEY: (&str, &str) = ("errors.deadletterqueue.topic.name", TOPIC);
const COPIES: (&str, &str) = ("errors.deadletterqueue.copy.record.enable", "true");

const ALLOWED: &str = "errors.deadletterqueue.group.enable";

/// Number of topics as resources of configurations.
const TOPICS: i8 = 2;

/// A broker with a topic for dead letters that the group `g` uses.
fn start_with_letters(settings: &[(&str, &str)], flags: &[&str]) -> Rig {
    let mut rig = start(settings, flags);
    let level = FeatureLevelRecord { name: SHARE_VERSION.to_owned(), feature_level: 2 };
    rig.publish(&[level.into()]);
    rig.create_alone(LETTERS, TOPIC);
    set(&mut rig, ALLOWED, "true");
    rig
}

/// Changes a setting of the topic.
fn set(rig: &mut Rig, name: &str, value: &str) {
    let config = ConfigRecord {
        resource_type: TOPICS,
        resource_name: TOPIC.to_owned(),
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    rig.publish(&[config.into()]);
}

/// Key, offset, delivery count and message of a dead letter.
type Letter = (Option<Bytes>, String, String, String);

impl Rig {
    async fn produce_named(&self, names: &[&str]) {
        let mut batch = Builder::new();
        for name in names {
            batch.push_with_headers(5, Some(name.as_bytes()), Some(b"value"), &[(b"own", None)]);
        }
        let bytes = batch.build().unwrap();
        assert_eq!(self.produce_in(("shared", None), (1, 1_000), &bytes).await.error_code, OK);
    }

    /// Waits for this number of dead letters.
    async fn letters(&self, count: i64) -> Vec<Letter> {
        let partition = self.broker.replicas().partition(TOPIC, 0).unwrap();
        let sleeper = Arc::new(Notify::new());
        let _registered = partition.waiters().register(&sleeper);
        while partition.log().high_watermark() < count {
            tokio::time::timeout(LONG, sleeper.notified()).await.expect("dead letters");
        }
        let (mut letters, mut at) = (Vec::new(), 0);
        while at < partition.log().log_end() {
            let bytes = partition.log().read_batches(at, 1).unwrap();
            at = BatchView::parse(&bytes).unwrap().last_offset() + 1;
            for record in records(&bytes).unwrap().map(Result::unwrap) {
                let header = |name: &str| {
                    let found = record.headers.iter().find(|one| one.key == name.as_bytes());
                    String::from_utf8(found.unwrap().value.unwrap().to_vec()).unwrap()
                };
                letters.push((
                    record.key.clone(),
                    header("__dlq.errors.offset"),
                    header("__dlq.errors.delivery.count"),
                    header("__dlq.errors.message"),
                ));
            }
        }
        letters
    }

    /// Waits until all records below an offset are complete in the stored state.
    async fn completed(&self, offset: i64) {
        let complete = async {
            loop {
                let read = ReadPart { topic_id: SHARED, partition: 0, leader_epoch: -1 };
                let stored = share::states::request(&self.broker, "g", vec![read]).await.remove(0).unwrap();
                let is_complete = |batch: &StateBatch| matches!(batch.delivery_state, 2 | 4);
                let covered: i64 = stored.batches.iter().filter(|batch| is_complete(batch)).fold(
                    stored.start_offset.max(0),
                    |end, batch| {
                        if batch.first_offset <= end { end.max(batch.last_offset + 1) } else { end }
                    },
                );
                if covered >= offset {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, complete).await.expect("a complete state");
    }

    /// Counts of the dead letters of the only group.
    fn counted(&self) -> DeadLetterCounts {
        let groups = self.broker.share_partitions().shown(0).dead_letters;
        assert!(groups.iter().all(|(group, _)| matches!(&**group, "" | "g")), "{groups:?}");
        groups.last().map(|(_, counts)| *counts).expect("the count of other groups")
    }
}

const REJECTED: &str = "Offset rejected by client.";
const EXCEEDED: &str = "Offset delivery count exceeded the threshold.";

#[test]
fn rejected_records_get_dead_letters() {
    let rig = start_with_letters(&[TOPIC_KEY, COPIES], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_named(&["a", "b", "c", "d"]).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 3, 1)]);
        assert_eq!(one.acknowledge(1, &[(0, 0, ACCEPT), (1, 2, REJECT)]).await, (OK, OK));
        let letter = |key: &'static str, offset: &str| -> Letter {
            (Some(Bytes::from(key)), offset.to_owned(), "1".to_owned(), REJECTED.to_owned())
        };
        assert_eq!(rig.letters(2).await, [letter("b", "1"), letter("c", "2")]);
        rig.completed(3).await;
        assert_eq!(one.acknowledge(2, &[(3, 3, ACCEPT)]).await, (OK, OK));
        let counts = DeadLetterCounts { written: 2, given_up: 0, requests: 1, failed_requests: 0 };
        assert_eq!(rig.counted(), counts);
    });
}

#[test]
fn records_delivered_too_often_get_dead_letters() {
    let rig = start_with_letters(&[TOPIC_KEY, ("share.delivery.count.limit", "2")], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_named(&["a"]).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
        assert_eq!(one.fetch(&[(0, 0, RELEASE)], LONG_MS).await, (vec![(0, 0, 2)], OK));
        assert_eq!(one.acknowledge(2, &[(0, 0, RELEASE)]).await, (OK, OK));
        let expected: Letter = (None, "0".to_owned(), "2".to_owned(), EXCEEDED.to_owned());
        assert_eq!(rig.letters(1).await, [expected]);
        rig.completed(1).await;
    });
}

#[test]
fn a_new_leader_writes_the_missing_dead_letters() {
    let rig = start_with_letters(&[TOPIC_KEY], &[]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_named(&["a", "b", "c"]).await;
        let archiving = |first_offset, last_offset, delivery_count| StateBatch {
            first_offset,
            last_offset,
            delivery_state: 3,
            delivery_count,
        };
        let part = WritePart {
            topic_id: SHARED,
            partition: 0,
            state_epoch: 1,
            leader_epoch: 0,
            start_offset: 0,
            delivery_complete_count: 0,
            batches: vec![archiving(0, 0, 1), archiving(1, 1, 5)],
        };
        assert_eq!(share::states::request(&rig.broker, "g", vec![part]).await, [Ok(())]);
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(2, 2, 1)]);
        let letter = |offset: &str, count: &str, message: &str| -> Letter {
            (None, offset.to_owned(), count.to_owned(), message.to_owned())
        };
        assert_eq!(rig.letters(2).await, [letter("0", "1", REJECTED), letter("1", "5", EXCEEDED)]);
        rig.completed(2).await;
    });
}

/// Takes the leader of the topic away.
fn leave(rig: &mut Rig) {
    rig.publish(&[PartitionChangeRecord { leader: -1, ..change(LETTERS) }.into()]);
}

#[test]
fn dead_letters_without_a_topic_are_dropped() {
    type Settings = &'static [(&'static str, &'static str)];
    type Case = (&'static str, Settings, &'static [&'static str], fn(&mut Rig), u64);
    let cases: [Case; 6] = [
        ("not allowed", &[TOPIC_KEY], &[], |rig| set(rig, ALLOWED, "false"), 0),
        ("missing", &[("errors.deadletterqueue.topic.name", "dlq.other")], &[], |_| {}, 0),
        ("prefix", &[TOPIC_KEY], &["errors.deadletterqueue.topic.name.prefix=dead."], |_| {}, 0),
        (
            "loop",
            &[("errors.deadletterqueue.topic.name", "shared")],
            &["errors.deadletterqueue.topic.name.prefix=shared"],
            |_| {},
            0,
        ),
        ("leaderless", &[TOPIC_KEY], &[], leave, 0),
        ("too large", &[TOPIC_KEY], &[], |rig| set(rig, "max.message.bytes", "200"), 1),
    ];
    for (name, settings, flags, spoil, requests) in cases {
        let mut rig = start_with_letters(settings, flags);
        spoil(&mut rig);
        rig.run(async {
            rig.initialize().await;
            rig.produce_named(&["a", "b"]).await;
            let mut one = Member::new(&rig, "one");
            assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 1, 1)], "{name}");
            assert_eq!(one.acknowledge(1, &[(0, 1, REJECT)]).await, (OK, OK), "{name}");
            rig.completed(2).await;
            let expected = DeadLetterCounts { written: 0, given_up: 2, requests, failed_requests: 1 };
            assert_eq!(rig.counted(), expected, "{name}");
        });
    }
}

#[test]
fn dead_letters_need_the_feature_level() {
    let mut rig = start_with_letters(&[TOPIC_KEY], &[]);
    let level = FeatureLevelRecord { name: SHARE_VERSION.to_owned(), feature_level: 1 };
    rig.publish(&[level.into()]);
    rig.run(async {
        rig.initialize().await;
        rig.produce_named(&["a"]).await;
        let mut one = Member::new(&rig, "one");
        assert_eq!(one.fetch(&[], LONG_MS).await.0, [(0, 0, 1)]);
        assert_eq!(one.acknowledge(1, &[(0, 0, REJECT)]).await, (OK, OK));
        rig.completed(1).await;
        assert_eq!(rig.counted(), DeadLetterCounts::default());
    });
}
