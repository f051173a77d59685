//! Images made of records.

use levada_base::batch::{BatchView, records as batch_records};
use levada_wire::primitives::Bytes;

use super::*;
use crate::features::KRAFT_VERSION;
use crate::records::{self, *};

const LOG: &[u8] = include_bytes!("../../testdata/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log");

/// The image of the real log's records below `end_offset`.
pub(crate) fn golden_image(end_offset: i64) -> Image {
    let mut replay = Replay::new(Image::empty());
    let mut file = LOG;
    while !file.is_empty() {
        let batch = BatchView::parse(file).unwrap();
        for record in batch_records(batch.bytes()).unwrap() {
            let record = record.unwrap();
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            let position =
                Position { offset, epoch: batch.leader_epoch(), timestamp_ms: batch.max_timestamp() };
            if offset >= end_offset {
                return replay.into_image();
            } else if batch.is_control() {
                replay.skip(position);
            } else {
                replay.push(records::decode(record.value.unwrap()).unwrap().0, position).unwrap();
            }
        }
        file = &file[batch.bytes().len()..];
    }
    replay.into_image()
}

#[test]
fn golden_metadata_log_replays_to_kafka_state() {
    let image = golden_image(i64::MAX);
    let names: Vec<&str> = image.topics().iter().map(|topic| &**topic.name()).collect();
    assert_eq!(names, ["al.pha", "alpha", "beta"]);
    let beta = image.topic("beta").unwrap();
    assert_eq!(beta.partition_count(), 4);
    assert_eq!(image.topic_by_id(beta.id()).unwrap().name(), beta.name());
    // Led, given up, led, lost in a crash, led, given up: six changes of the leader.
    let partition = beta.partition(3).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch, &partition.isr[..]), (NO_LEADER, 5, &[][..]));
    assert_eq!(partition.eligible_leader_replicas, [1]);
    let configs = image.configs(&ConfigResource::topic("alpha")).unwrap();
    let configs: Vec<(&str, &str)> = configs.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(configs, [("cleanup.policy", "compact"), ("segment.bytes", "2000000")]);
    let brokers = image.configs(&ConfigResource::all_brokers()).unwrap();
    assert_eq!(brokers.get("min.insync.replicas").map(|value| &**value), Some("1"));
    assert_eq!(image.features().get("metadata.version"), Some(&30));
    assert_eq!(image.features().get("transaction.version"), Some(&2));
    assert_eq!(image.next_producer_id(), 1000);
    assert!(image.kept().next().is_none() && image.tokens().is_empty());
    let acls: Vec<String> = image.acls().iter().map(|(_, acl)| acl.to_string()).collect();
    assert_eq!(acls, ["ALLOW READ on TOPIC:LITERAL:alpha for User:bob from *"]);
    let users: Vec<&str> = image.credentials().iter().map(|(user, _, _)| user).collect();
    assert_eq!(users, ["bob"]);
    let broker = image.brokers().broker(1).unwrap();
    assert!(broker.fenced && broker.in_controlled_shutdown && !image.brokers().is_active(1));
    assert_eq!(image.brokers().controllers().count(), 1);
    assert_eq!(image.epoch(), 3);
}

#[test]
fn topic_deletion_removes_its_configuration() {
    let mut image = Image::empty();
    let topic_id = Uuid::from_bytes([7; 16]);
    let config = ConfigRecord {
        resource_type: ResourceKind::Topic.id(),
        resource_name: "t".to_owned(),
        name: "retention.ms".to_owned(),
        value: Some("1".to_owned()),
    };
    for record in [TopicRecord { name: "t".to_owned(), topic_id }.into(), Record::from(config)] {
        image.apply(&record, Position::default()).unwrap();
    }
    let before = image.clone();
    image.apply(&RemoveTopicRecord { topic_id }.into(), Position::default()).unwrap();
    assert!(image.topics().is_empty() && image.topic_by_id(topic_id).is_none());
    assert_eq!(image.configs(&ConfigResource::topic("t")), None);
    // A holder of the earlier image sees no change.
    assert!(before.topic("t").is_some() && before.configs(&ConfigResource::topic("t")).is_some());
}

#[test]
fn unchanged_topics_are_not_searched_for_changes() {
    let mut image = Image::empty();
    let topic_id = Uuid::from_bytes([7; 16]);
    image.apply(&TopicRecord { name: "t".to_owned(), topic_id }.into(), Position::default()).unwrap();
    let before = image.clone();
    let most = |image: &Image| image.topics().changed_since(before.topics()).size_hint().1;
    assert_eq!(most(&image), Some(0));
    image.apply(&RemoveTopicRecord { topic_id }.into(), Position::default()).unwrap();
    assert_ne!(most(&image), Some(0));
    let other = TopicRecord { name: "u".to_owned(), topic_id: Uuid::from_bytes([8; 16]) };
    image.apply(&other.into(), Position::default()).unwrap();
    assert_eq!(image.topics().changed_since(before.topics()).count(), 1);
}

#[test]
fn contradictions_are_errors_and_change_nothing() {
    let topic_id = Uuid::from_bytes([7; 16]);
    let mut image = Image::empty();
    image.apply(&TopicRecord { name: "t".to_owned(), topic_id }.into(), Position::default()).unwrap();
    let other = Uuid::from_bytes([8; 16]);
    let check = |record: Record, expected: ApplyError| {
        let mut changed = image.clone();
        let position = Position { offset: 9, ..Position::default() };
        assert_eq!(changed.apply(&record, position), Err(expected));
        assert_eq!((changed.offset(), changed.topics().len()), (0, 1));
    };
    let exists = || ApplyError::TopicExists { name: "t".to_owned() };
    check(TopicRecord { name: "t".to_owned(), topic_id: other }.into(), exists());
    check(RemoveTopicRecord { topic_id: other }.into(), ApplyError::NoTopic { topic_id: other });
    check(
        PartitionRecord { topic_id: other, ..Default::default() }.into(),
        ApplyError::NoTopic { topic_id: other },
    );
    check(
        PartitionRecord { topic_id, partition_id: -1, ..Default::default() }.into(),
        ApplyError::NegativePartition { topic: "t".to_owned(), partition: -1 },
    );
    check(
        PartitionChangeRecord { topic_id, partition_id: 0, ..Default::default() }.into(),
        ApplyError::NoPartition { topic: "t".to_owned(), partition: 0 },
    );
    check(
        BrokerRegistrationChangeRecord { broker_id: 1, ..Default::default() }.into(),
        ApplyError::NoBroker { broker_id: 1, broker_epoch: 0 },
    );
    check(
        ProducerIdsRecord { next_producer_id: -1, ..Default::default() }.into(),
        ApplyError::ProducerIdsBackwards { from: 0, to: -1 },
    );
}

/// Before, a start failed with such a record in the log.
#[test]
fn configs_of_unknown_resource_kind_are_kept() {
    let config = |resource_type, name: &str, value: Option<&str>| {
        let (resource_name, name) = ("r".to_owned(), name.to_owned());
        let value = value.map(str::to_owned);
        Record::from(ConfigRecord { resource_type, resource_name, name, value })
    };
    let mut image = Image::empty();
    let mut apply = |records: &[Record]| {
        let before = image.clone();
        records.iter().for_each(|record| image.apply(record, Position::default()).unwrap());
        assert!(image.configs_changed_since(&before).is_empty(), "no part of the broker uses it");
        assert_eq!(image.config_resources().count(), 0);
        image.to_records()
    };
    let (a, b) = (config(3, "a", Some("1")), config(64, "a", Some("2")));
    let changed = config(3, "a", Some("3"));
    assert_eq!(apply(&[b.clone(), a.clone(), config(3, "b", Some("4"))]).len(), 3);
    let left = apply(&[changed.clone(), config(3, "b", None), config(3, "none", None)]);
    assert_eq!(left, [changed, b]);
    assert_eq!(apply(&[config(3, "a", None), config(64, "a", None)]), []);
}

#[test]
fn metadata_transaction_applies_at_end_or_never() {
    let topic = |name: &str, byte| {
        Record::from(TopicRecord { name: name.to_owned(), topic_id: Uuid::from_bytes([byte; 16]) })
    };
    let begin = || Record::from(BeginTransactionRecord::default());
    let check = |records: Vec<Record>, names: &[&str], offset: i64, open: bool| {
        let mut replay = Replay::new(Image::empty());
        for (offset, record) in (0..).zip(records) {
            replay.push(record, Position { offset, ..Position::default() }).unwrap();
        }
        let found: Vec<&str> = replay.image().topics().iter().map(|topic| &**topic.name()).collect();
        assert_eq!((&found[..], replay.image().offset(), replay.in_transaction()), (names, offset, open));
    };
    check(vec![topic("a", 1), begin(), topic("b", 2)], &["a"], 0, true);
    check(vec![begin(), topic("b", 2), EndTransactionRecord.into()], &["b"], 2, false);
    check(
        vec![begin(), topic("b", 2), AbortTransactionRecord::default().into(), topic("b", 3)],
        &["b"],
        3,
        false,
    );
    let mut replay = Replay::new(Image::empty());
    let at = |offset| Position { offset, ..Position::default() };
    for (end, record) in [
        (EndTransactionRecord.into(), "EndTransactionRecord"),
        (AbortTransactionRecord::default().into(), "AbortTransactionRecord"),
    ] {
        assert_eq!(replay.push(end, at(6)), Err(ApplyError::NoTransaction { record }));
    }
    replay.push(begin(), at(7)).unwrap();
    assert_eq!(replay.push(begin(), at(8)), Err(ApplyError::NestedTransaction { open: 7 }));
}

#[test]
fn a_zero_level_removes_a_feature() {
    let mut image = Image::empty();
    for level in [2, 0] {
        let record = FeatureLevelRecord { name: "f".to_owned(), feature_level: level };
        image.apply(&record.into(), Position::default()).unwrap();
        assert_eq!(image.features().get("f"), (level > 0).then_some(&level));
    }
}

#[test]
fn level_record_of_the_quorum_has_no_effect() {
    let mut replay = Replay::new(Image::empty());
    assert!(replay.set_kraft_version(1));
    let record = FeatureLevelRecord { name: KRAFT_VERSION.to_owned(), feature_level: 2 };
    replay.push(record.into(), Position::default()).unwrap();
    assert!(!replay.set_kraft_version(1), "the control record has the level");
    assert_eq!(replay.image().features().get(KRAFT_VERSION), None);
}

#[test]
fn last_quota_entity_of_a_type_counts() {
    let part = |kind: &str, name: &str| (kind.to_owned(), Some(name.to_owned()));
    let entity = QuotaEntity::from([part("user", "ann"), part("client-id", "app"), part("user", "bob")]);
    let other = QuotaEntity::from([part("client-id", "app"), part("user", "bob")]);
    assert_eq!(entity, other);
    assert_eq!((entity.len(), entity.get("user")), (2, Some(&Some("bob".to_owned()))));
    assert_eq!(entity.get("ip"), None);
}

/// The latest record of a token is enough: a client that renews its token every minute must not
/// add a record to the image each time.
#[test]
fn delegation_token_renewals_keep_one_record() {
    let token = |id: &str, expiration_timestamp| DelegationTokenRecord {
        owner: "User:a".to_owned(),
        requester: "User:a".to_owned(),
        renewers: vec!["User:b".to_owned()],
        expiration_timestamp,
        token_id: id.to_owned(),
        ..DelegationTokenRecord::default()
    };
    let mut image = Image::empty();
    let mut apply = |record: Record| {
        let record = records::decode(records::encode(&record).unwrap()).unwrap().0;
        image.apply(&record, Position::default()).unwrap();
    };
    apply(token("other", 7).into());
    (0..1_000).for_each(|time| apply(token("renewed", time).into()));
    apply(token("removed", 9).into());
    (0..2).for_each(|_| apply(RemoveDelegationTokenRecord { token_id: "removed".to_owned() }.into()));
    (0..3).for_each(|_| {
        apply(Record::Opaque(Opaque { api_key: 21, version: 0, body: Bytes::from_static(&[2, 0]) }))
    });
    let times: Vec<(&str, i64)> =
        image.tokens().values().map(|token| (&*token.token_id, token.expiration_timestamp)).collect();
    assert_eq!(times, [("other", 7), ("renewed", 999)]);
    assert_eq!(image.to_records().len(), 3);
}
