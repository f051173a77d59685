//! Decisions, checked against what Kafka 4.3.1 decided and answered.

use levada_wire::primitives::Uuid;

use super::*;
use crate::image::tests::golden_image;
use crate::image::{ConfigResource, Image, Position, Replay};
use crate::records::*;

/// Knows four keys.
struct Rules;

const KNOWN: [&str; 4] = ["retention.ms", "cleanup.policy", "min.insync.replicas", "log.retention.ms"];

impl ConfigRules for Rules {
    fn check(
        &self,
        _: &ConfigResource,
        values: &BTreeMap<String, String>,
        _: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        match values.keys().find(|key| !KNOWN.contains(&&***key)) {
            Some(key) => {
                Err(Refusal::new(Reason::InvalidConfig, format!("Unknown topic config name: {key}")))
            }
            None => Ok(()),
        }
    }

    fn is_supported(&self, _: ResourceKind, key: &str) -> bool {
        KNOWN.contains(&key)
    }

    fn is_list(&self, _: ResourceKind, key: &str) -> Option<bool> {
        Some(key == "cleanup.policy")
    }

    fn default_value(&self, _: ResourceKind, key: &str) -> Option<String> {
        (key == "cleanup.policy").then(|| "delete".to_owned())
    }
}

fn rules() -> TopicRules<'static> {
    TopicRules {
        default_partitions: 2,
        default_replication_factor: 1,
        clamp_replication_factor: false,
        configs: &Rules,
        permit: &|_| true,
    }
}

fn apply(image: &Image, records: &[Record]) -> Image {
    let mut replay = Replay::new(image.clone());
    for (offset, record) in (image.offset() + 1..).zip(records) {
        replay.push(record.clone(), Position { offset, ..Position::default() }).unwrap();
    }
    replay.into_image()
}

/// Broker 1 registered, with the topics that the real Kafka had.
fn image() -> Image {
    golden_image(golden_between(is_leaving, 1).0)
}

fn is_leaving(record: &Record) -> bool {
    matches!(record, Record::BrokerRegistrationChange(change) if change.in_controlled_shutdown == 1)
}

fn topic(name: &str) -> NewTopic {
    NewTopic { name: name.to_owned(), partitions: 1, replication_factor: 1, ..NewTopic::default() }
}

fn ids() -> impl FnMut() -> Uuid {
    let mut next = 100;
    move || {
        next += 1;
        Uuid::from_bytes([next; 16])
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: &Result<T, Refusal>, reason: Reason, message: &str) {
    let refusal = outcome.as_ref().unwrap_err();
    assert_eq!((refusal.reason, refusal.message.as_deref().unwrap_or("")), (reason, message));
}

#[test]
fn create_topics_records_match_kafka() {
    let real: Vec<Record> = golden_records()
        .into_iter()
        .skip_while(|record| !matches!(record, Record::Topic(_)))
        .take(6)
        .collect();
    let Record::Topic(TopicRecord { topic_id, .. }) = real[0] else { panic!("{real:?}") };
    let registered = {
        let offset = golden_offset(&real[0]);
        golden_image(offset)
    };
    let alpha = NewTopic {
        partitions: 3,
        replication_factor: -1,
        configs: [("retention.ms", "1000"), ("cleanup.policy", "compact")]
            .map(|(key, value)| (key.to_owned(), Some(value.to_owned())))
            .to_vec(),
        ..topic("alpha")
    };
    let decision = create_topics(&registered, &[alpha], rules(), || topic_id);
    assert_eq!(decision.records, real);
    let created = decision.outcome[0].as_ref().unwrap();
    assert_eq!((created.topic_id, created.partitions, created.replication_factor), (topic_id, 3, 1));
}

fn golden_records() -> Vec<Record> {
    golden_log().into_iter().map(|(_, record)| record).collect()
}

fn golden_offset(record: &Record) -> i64 {
    golden_log().into_iter().find(|(_, other)| other == record).unwrap().0
}

/// All metadata records of the real log with their offsets.
fn golden_log() -> Vec<(i64, Record)> {
    let mut file =
        &include_bytes!("../../testdata/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log")[..];
    let mut all = Vec::new();
    while !file.is_empty() {
        let batch = levada_base::batch::BatchView::parse(file).unwrap();
        for record in levada_base::batch::records(batch.bytes()).unwrap().filter(|_| !batch.is_control()) {
            let record = record.unwrap();
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            all.push((offset, crate::records::decode(record.value.unwrap()).unwrap().0));
        }
        file = &file[batch.bytes().len()..];
    }
    all
}

#[test]
fn topic_name_errors_match_kafka() {
    let check = |name: &str, reason, message: &str| {
        let decision = create_topics(&image(), &[topic(name)], rules(), ids());
        refused(&decision.outcome[0], reason, message);
        assert_eq!(decision.records, []);
    };
    let invalid = Reason::InvalidTopic;
    check("", invalid, "Topic name is invalid: the empty string is not allowed");
    check(".", invalid, "Topic name is invalid: '.' is not allowed");
    check(
        "a b",
        invalid,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' \
         and '-'",
    );
    let long = "x".repeat(250);
    check(
        &long,
        invalid,
        &format!("Topic name is invalid: the length of '{long}' is longer than the max allowed length 249"),
    );
    check("al_pha", invalid, "Topic 'al_pha' collides with existing topic: al.pha");
    check("alpha", Reason::TopicExists, "Topic 'alpha' already exists.");
    check(
        "__cluster_metadata",
        Reason::InvalidRequest,
        "Creation of internal topic __cluster_metadata is prohibited.",
    );
    let longest = create_topics(&image(), &[topic(&"x".repeat(249))], rules(), ids());
    assert!(longest.outcome[0].is_ok());
}

#[test]
fn topic_layout_errors_match_kafka() {
    let check = |topic: NewTopic, reason, message: &str| {
        let decision = create_topics(&image(), &[topic], rules(), ids());
        refused(&decision.outcome[0], reason, message);
        assert_eq!(decision.records, []);
    };
    let assigned = |assignments: &[(i32, &[i32])]| NewTopic {
        partitions: -1,
        replication_factor: -1,
        assignments: assignments.iter().map(|(index, replicas)| (*index, replicas.to_vec())).collect(),
        ..topic("new")
    };
    check(
        NewTopic { replication_factor: 3, ..topic("new") },
        Reason::InvalidReplicationFactor,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because \
         only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
    );
    check(
        NewTopic { replication_factor: 0, ..topic("new") },
        Reason::InvalidReplicationFactor,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    );
    check(
        NewTopic { partitions: 0, ..topic("new") },
        Reason::InvalidPartitions,
        "Number of partitions was set to an invalid non-positive value.",
    );
    check(
        NewTopic { partitions: 20_000, ..topic("new") },
        Reason::PolicyViolation,
        "Excessively large number of partitions per request.",
    );
    check(
        NewTopic { configs: vec![("retention.ms".to_owned(), None)], ..topic("new") },
        Reason::InvalidConfig,
        "Null value not supported for topic configs: retention.ms",
    );
    check(
        NewTopic { configs: vec![("nope".to_owned(), Some("1".to_owned()))], ..topic("new") },
        Reason::InvalidConfig,
        "Unknown topic config name: nope",
    );
    check(
        NewTopic { partitions: 1, ..assigned(&[(0, &[1])]) },
        Reason::InvalidRequest,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    );
    check(
        assigned(&[(0, &[7])]),
        Reason::InvalidReplicaAssignment,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    );
    check(
        assigned(&[(0, &[1, 1])]),
        Reason::InvalidReplicaAssignment,
        "The manual partition assignment includes the broker 1 more than once.",
    );
    check(
        assigned(&[(0, &[1]), (2, &[1])]),
        Reason::InvalidReplicaAssignment,
        "partitions should be a consecutive 0-based integer sequence",
    );
    check(
        assigned(&[(0, &[])]),
        Reason::InvalidReplicaAssignment,
        "The manual partition assignment includes an empty replica list.",
    );
}

#[test]
fn create_topics_reports_an_outcome_per_topic() {
    let default = NewTopic { partitions: -1, replication_factor: -1, ..topic("fresh") };
    let clamped = TopicRules { clamp_replication_factor: true, ..rules() };
    let many = NewTopic { replication_factor: 3, ..topic("many") };
    let requested = [topic("twice"), default, topic("twice"), topic("alpha"), many];
    let decision = create_topics(&image(), &requested, clamped, ids());
    refused(&decision.outcome[0], Reason::InvalidRequest, "Duplicate topic name.");
    refused(&decision.outcome[2], Reason::InvalidRequest, "Duplicate topic name.");
    refused(&decision.outcome[3], Reason::TopicExists, "Topic 'alpha' already exists.");
    assert_eq!(decision.outcome[1].as_ref().unwrap().partitions, 2);
    assert_eq!(decision.outcome[4].as_ref().unwrap().replication_factor, 1);
    let after = apply(&image(), &decision.records);
    let fresh = after.topic("fresh").unwrap();
    assert_eq!((fresh.partition_count(), after.topic("many").unwrap().partition_count()), (2, 1));
    let partition = fresh.partition(1).unwrap();
    assert_eq!((partition.leader, &partition.isr[..], partition.leader_epoch), (1, &[1][..], 0));
    assert_eq!(partition.directories, after.brokers().broker(1).unwrap().log_dirs);
}

#[test]
fn partition_limit_ignores_topics_with_refused_names() {
    let large = |name: &str| NewTopic { partitions: 6_000, ..topic(name) };
    let requested = [large("twice"), large("twice"), large(METADATA_TOPIC), topic("fresh")];
    let outcome = create_topics(&image(), &requested, rules(), ids()).outcome;
    refused(&outcome[0], Reason::InvalidRequest, "Duplicate topic name.");
    refused(
        &outcome[2],
        Reason::InvalidRequest,
        "Creation of internal topic __cluster_metadata is prohibited.",
    );
    assert!(outcome[3].is_ok(), "{:?}", outcome[3]);
    let outcome = create_topics(&image(), &[large("a"), large("b")], rules(), ids()).outcome;
    let text = "Excessively large number of partitions per request.";
    outcome.iter().for_each(|refusal| refused(refusal, Reason::PolicyViolation, text));
}

#[test]
fn fenced_broker_gets_no_new_partitions() {
    let fenced = golden_image(i64::MAX);
    let decision = create_topics(&fenced, &[topic("new")], rules(), ids());
    refused(
        &decision.outcome[0],
        Reason::InvalidReplicationFactor,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log \
         directories cordoned.",
    );
}

const ALREADY_SUPPLIED: &str = "The provided topic name maps to an ID that was already supplied.";

#[test]
fn topics_are_deleted_by_name_or_id_once() {
    let image = image();
    let id = |name: &str| image.topic(name).unwrap().id();
    let (alpha, beta, dotted) = (id("alpha"), id("beta"), id("al.pha"));
    let key = |name: Option<&str>, topic_id| TopicKey { name: name.map(str::to_owned), topic_id };
    let unknown = Uuid::from_bytes([9; 16]);
    let keys = [
        key(Some("alpha"), Uuid::ZERO),
        key(None, beta),
        key(Some("nope"), Uuid::ZERO),
        key(None, unknown),
        key(None, Uuid::ZERO),
        key(Some("alpha"), alpha),
        key(Some("al.pha"), Uuid::ZERO),
        key(Some("al.pha"), Uuid::ZERO),
        key(Some("beta"), Uuid::ZERO),
        key(None, dotted),
    ];
    let decision = delete_topics(&image, &keys, &|_| true);
    let outcome: Vec<&Result<DeletedTopic, Refusal>> =
        decision.outcome.iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcome.len(), 8);
    assert_eq!(outcome[0].as_ref().unwrap().topic_id, alpha);
    refused(outcome[1], Reason::UnknownTopic, "");
    refused(outcome[2], Reason::UnknownTopicId, "");
    refused(outcome[3], Reason::InvalidRequest, "Neither topic name nor id were specified.");
    refused(outcome[4], Reason::InvalidRequest, "You may not specify both topic name and topic id.");
    refused(outcome[5], Reason::InvalidRequest, "Duplicate topic name.");
    assert_eq!(decision.outcome[6].0, key(Some("beta"), beta), "the name and the id have one entry");
    refused(outcome[6], Reason::InvalidRequest, ALREADY_SUPPLIED);
    assert_eq!(outcome[7].as_ref().unwrap().name, "al.pha");
    let after = apply(&image, &decision.records);
    assert_eq!(after.topics().iter().map(|topic| &**topic.name()).collect::<Vec<_>>(), ["beta"]);
    assert_eq!(after.configs(&ConfigResource::topic("alpha")), None);
}

#[test]
fn delete_topics_refuses_name_of_repeated_id() {
    let image = image();
    let beta = image.topic("beta").unwrap().id();
    let by_id = TopicKey { name: None, topic_id: beta };
    let by_name = TopicKey { name: Some("beta".to_owned()), topic_id: Uuid::ZERO };
    let decision = delete_topics(&image, &[by_id.clone(), by_name, by_id.clone()], &|_| true);
    assert_eq!(decision.outcome.len(), 2);
    assert_eq!(decision.outcome[0].0, by_id);
    refused(&decision.outcome[0].1, Reason::InvalidRequest, "Duplicate topic id.");
    refused(&decision.outcome[1].1, Reason::InvalidRequest, ALREADY_SUPPLIED);
    assert_eq!(decision.records, []);
}

#[test]
fn create_partitions_errors_match_kafka() {
    let more = |topic: &str, count, assignments: Option<&[i32]>| MorePartitions {
        topic: topic.to_owned(),
        count,
        assignments: assignments.map(|brokers| brokers.iter().map(|broker| vec![*broker]).collect()),
    };
    let image = image();
    let check = |request: MorePartitions, reason, message: &str| {
        let decision = create_partitions(&image, &[request], &|_| true);
        refused(&decision.outcome[0].1, reason, message);
        assert_eq!(decision.records, []);
    };
    check(more("nope", 4, None), Reason::UnknownTopic, "");
    check(more("beta", 4, None), Reason::InvalidPartitions, "Topic already has 4 partition(s).");
    check(
        more("beta", 2, None),
        Reason::InvalidPartitions,
        "The topic beta currently has 4 partition(s); 2 would not be an increase.",
    );
    check(
        more("beta", 6, Some(&[1])),
        Reason::InvalidReplicaAssignment,
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    );
    check(
        more("beta", i32::MAX, None),
        Reason::PolicyViolation,
        "Excessively large number of partitions per request.",
    );
    let requests = [
        more("alpha", 5, None),
        more("beta", 5, Some(&[1])),
        more("al.pha", 9, None),
        more("al.pha", 9, None),
    ];
    let decision = create_partitions(&image, &requests, &|_| true);
    refused(&decision.outcome[2].1, Reason::InvalidRequest, "Duplicate topic name.");
    assert_eq!(decision.outcome.len(), 3);
    let after = apply(&image, &decision.records);
    let counts = ["alpha", "beta", "al.pha"].map(|name| after.topic(name).unwrap().partition_count());
    assert_eq!(counts, [5, 5, 1]);
}

#[test]
fn configuration_changes_by_key() {
    let change = |key: &str, change| AlterConfig { key: key.to_owned(), change };
    let image = image();
    let alpha = ConfigResource::topic("alpha");
    let check = |resource: &ConfigResource,
                 changes: &[AlterConfig],
                 expected: Result<&[(&str, Option<&str>)], &str>| {
        let decision = alter_configs(&image, &[(resource.clone(), changes.to_vec())], &Anything);
        let records: Vec<(&str, Option<&str>)> = decision.records.iter().map(config).collect();
        match (&decision.outcome[0], expected) {
            (Ok(()), Ok(expected)) => assert_eq!(records, expected),
            (Err(refusal), Err(message)) => assert_eq!(refusal.message.as_deref(), Some(message)),
            (outcome, _) => panic!("{outcome:?}"),
        }
    };
    let set = |value: &str| ConfigChange::Set(value.to_owned());
    let append = |value: &str| ConfigChange::Append(value.to_owned());
    let subtract = |value: &str| ConfigChange::Subtract(value.to_owned());
    check(&alpha, &[change("retention.ms", set("5"))], Ok(&[("retention.ms", Some("5"))]));
    check(&alpha, &[change("cleanup.policy", set("compact"))], Ok(&[]));
    check(&alpha, &[change("cleanup.policy", ConfigChange::Delete)], Ok(&[("cleanup.policy", None)]));
    check(
        &alpha,
        &[change("cleanup.policy", append("delete,compact"))],
        Ok(&[("cleanup.policy", Some("compact,delete"))]),
    );
    check(&alpha, &[change("cleanup.policy", subtract("compact"))], Ok(&[("cleanup.policy", Some(""))]));
    check(
        &ConfigResource::topic("beta"),
        &[change("cleanup.policy", append("compact"))],
        Ok(&[("cleanup.policy", Some("delete,compact"))]),
    );
    check(
        &alpha,
        &[change("retention.ms", append("1"))],
        Err("Can't APPEND to key retention.ms because its type is not LIST."),
    );
    check(
        &ConfigResource::topic("nope"),
        &[change("retention.ms", set("5"))],
        Err("The topic 'nope' does not exist."),
    );
    // A broker's value is written again even if it is the same.
    let brokers = ConfigResource::all_brokers();
    check(&brokers, &[change("log.retention.ms", set("12345"))], Ok(&[("log.retention.ms", Some("12345"))]));
    check(
        &brokers,
        &[change("min.insync.replicas", ConfigChange::Delete)],
        Err("Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
    );
    check(
        &ConfigResource::broker(1),
        &[change("min.insync.replicas", set("2"))],
        Err("Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
    );
    let long = "x".repeat(32_768);
    check(
        &alpha,
        &[change("retention.ms", set(&long))],
        Err(
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
    );
}

/// Allows every key.
struct Anything;

impl ConfigRules for Anything {
    fn check(
        &self,
        _: &ConfigResource,
        _: &BTreeMap<String, String>,
        _: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn is_supported(&self, _: ResourceKind, _: &str) -> bool {
        true
    }

    fn is_list(&self, resource: ResourceKind, key: &str) -> Option<bool> {
        Rules.is_list(resource, key)
    }

    fn default_value(&self, resource: ResourceKind, key: &str) -> Option<String> {
        Rules.default_value(resource, key)
    }
}

#[test]
fn unknown_stored_config_key_blocks_no_change() {
    let alpha = ConfigResource::topic("alpha");
    let stored = Record::from(ConfigRecord {
        resource_type: ResourceKind::Topic.id(),
        resource_name: "alpha".to_owned(),
        name: "message.format.version".to_owned(),
        value: Some("3.0-IV1".to_owned()),
    });
    let image = apply(&image(), &[stored]);
    let alter = |key: &str, change| {
        let changes = vec![AlterConfig { key: key.to_owned(), change }];
        alter_configs(&image, &[(alpha.clone(), changes)], &Rules)
    };
    let set = |value: &str| ConfigChange::Set(value.to_owned());
    let altered = alter("retention.ms", set("5"));
    assert_eq!(altered.outcome, [Ok(())]);
    assert_eq!(altered.records.iter().map(config).collect::<Vec<_>>(), [("retention.ms", Some("5"))]);
    let deleted = alter("message.format.version", ConfigChange::Delete);
    assert_eq!(deleted.records.iter().map(config).collect::<Vec<_>>(), [("message.format.version", None)]);
    let refusal = alter("message.format.version", set("3.1")).outcome.remove(0);
    refused(&refusal, Reason::InvalidConfig, "Unknown topic config name: message.format.version");
}

fn config(record: &Record) -> (&str, Option<&str>) {
    match record {
        Record::Config(config) => (&config.name, config.value.as_deref()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn alter_configs_replaces_the_whole_configuration() {
    let image = image();
    let configs = vec![("retention.ms".to_owned(), Some("7".to_owned()))];
    let decision = replace_configs(&image, &[(ConfigResource::topic("alpha"), configs.clone())], &Anything);
    let records: Vec<(&str, Option<&str>)> = decision.records.iter().map(config).collect();
    assert_eq!(records, [("cleanup.policy", None), ("retention.ms", Some("7")), ("segment.bytes", None)]);
    let twice =
        [(ConfigResource::topic("alpha"), configs.clone()), (ConfigResource::topic("alpha"), configs)];
    let decision = replace_configs(&image, &twice, &Anything);
    refused(&decision.outcome[0], Reason::InvalidRequest, "Duplicate resource.");
    assert_eq!((decision.outcome.len(), decision.records), (2, vec![]));
}

#[test]
fn more_than_10000_broker_config_changes_are_refused() {
    let (image, broker) = (image(), ConfigResource { kind: ResourceKind::Broker, name: "1".to_owned() });
    for (count, is_taken) in [(10_000, true), (10_001, false)] {
        let keys = || (0..count).map(|number| format!("own.{number}"));
        let set = |key| AlterConfig { key, change: ConfigChange::Set("1".to_owned()) };
        let single = alter_configs(&image, &[(broker.clone(), keys().map(set).collect())], &Anything);
        let value = |key| (key, Some("1".to_owned()));
        let whole = replace_configs(&image, &[(broker.clone(), keys().map(value).collect())], &Anything);
        for decision in [single, whole] {
            assert_eq!(decision.records.len(), if is_taken { count } else { 0 });
            if !is_taken {
                let text = "Unable to perform excessively large batch operation.";
                refused(&decision.outcome[0], Reason::PolicyViolation, text);
            }
        }
    }
}

#[test]
fn producer_ids_come_in_blocks_that_never_overlap() {
    let mut image = image();
    assert_eq!(image.next_producer_id(), 1000);
    for first in [1000, 2000, 3000] {
        let decision = allocate_producer_ids(&image, 1).unwrap();
        assert_eq!(decision.outcome, first..first + 1000);
        image = apply(&image, &decision.records);
    }
    let record = ProducerIdsRecord { broker_id: 1, broker_epoch: 0, next_producer_id: i64::MAX - 10 };
    let refusal = allocate_producer_ids(&apply(&image, &[record.into()]), 1).unwrap_err();
    assert_eq!(refusal.reason, Reason::ServerError);
}

/// The records between two places in the real log, without the idle ones.
fn golden_between(first: impl Fn(&Record) -> bool, count: usize) -> (i64, Vec<Record>) {
    let log = golden_log();
    let start = log.iter().position(|(_, record)| first(record)).unwrap();
    let taken = log[start..]
        .iter()
        .map(|(_, record)| record.clone())
        .filter(|record| !matches!(record, Record::NoOp(_)));
    (log[start].0, taken.take(count).collect())
}

fn sorted(records: &[Record]) -> Vec<String> {
    let mut texts: Vec<String> = records.iter().map(|record| format!("{record:?}")).collect();
    texts.sort();
    texts
}

#[test]
fn orderly_stop_writes_same_records_as_kafka() {
    let (offset, real) = golden_between(is_leaving, 10);
    let ours = stop_node(&golden_image(offset), 1);
    assert_eq!(sorted(&ours), sorted(&real));
    assert_eq!((&ours[0], ours.last()), (&real[0], real.last()));
    // Nothing is left to do the second time.
    assert_eq!(stop_node(&apply(&golden_image(offset), &ours), 1), []);
}

#[test]
fn leadership_records_at_start_match_kafka() {
    let log = golden_log();
    let registrations: Vec<(i64, &RegisterBrokerRecord)> = log
        .iter()
        .filter_map(|(offset, record)| match record {
            Record::RegisterBroker(broker) => Some((*offset, broker)),
            _ => None,
        })
        .collect();
    let (offset, second) = registrations[1];
    let node = Node {
        node_id: 1,
        incarnation_id: second.incarnation_id,
        log_dirs: second.log_dirs.clone(),
        has_offline_dirs: false,
        rack: None,
        end_points: second.end_points.clone(),
        controller_end_points: Vec::new(),
    };
    let image = golden_image(offset);
    let ours = start_node(&image, &node, offset);
    let takes_lead =
        |record: &&Record| matches!(record, Record::PartitionChange(change) if change.leader == 1);
    let real: Vec<Record> = log
        .iter()
        .filter(|(at, _)| *at > offset)
        .map(|(_, record)| record)
        .filter(takes_lead)
        .take(8)
        .cloned()
        .collect();
    assert_eq!(sorted(&ours.iter().filter(takes_lead).cloned().collect::<Vec<_>>()), sorted(&real));
    let after = apply(&image, &ours);
    assert!(after.brokers().is_active(1));
    assert!(
        after
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions())
            .all(|(_, partition)| partition.leader == 1)
    );
    let broker = after.brokers().broker(1).unwrap();
    assert_eq!((broker.broker_epoch, &broker.cordoned_log_dirs), (offset, &Some(Vec::new())));
    assert_eq!(broker.end_points, second.end_points);
}

#[test]
fn start_after_crash_bumps_every_leader_epoch() {
    let node = Node { node_id: 1, ..Node::default() };
    let image = apply(&image(), &start_node(&image(), &node, 200));
    let epochs = |image: &Image| -> Vec<(i32, i32)> {
        let partitions = image.topics().iter().flat_map(|topic| topic.partitions());
        partitions.map(|(_, partition)| (partition.leader, partition.leader_epoch)).collect()
    };
    let before = epochs(&image);
    assert!(before.len() > 5 && before.iter().all(|(leader, _)| *leader == 1));
    // The node never stopped in order.
    let after = epochs(&apply(&image, &start_node(&image, &node, 300)));
    assert_eq!(after, before.into_iter().map(|(leader, epoch)| (leader, epoch + 1)).collect::<Vec<_>>());
}

#[test]
fn starting_node_is_sole_isr_of_led_partitions() {
    let node = Node { node_id: 1, ..Node::default() };
    let topic_id = Uuid::from_bytes([7; 16]);
    let partition = |partition_id, leader, isr: &[i32]| PartitionRecord {
        partition_id,
        topic_id,
        replicas: vec![1, 2],
        isr: isr.to_vec(),
        leader,
        ..PartitionRecord::default()
    };
    let records = [
        TopicRecord { name: "shared".to_owned(), topic_id }.into(),
        partition(0, 1, &[1, 2]).into(),
        partition(1, NO_LEADER, &[2, 1]).into(),
        partition(2, 2, &[2, 1]).into(),
        partition(3, 1, &[1]).into(),
    ];
    let left = apply(&Image::empty(), &records);
    let image = apply(&left, &start_node(&left, &node, 300));
    let partitions = image.topic("shared").unwrap().partitions();
    let led: Vec<(i32, &[i32])> = partitions.map(|(_, one)| (one.leader, &one.isr[..])).collect();
    assert_eq!(led, [(1, &[1][..]), (1, &[1]), (2, &[2, 1]), (1, &[1])]);
}

#[test]
fn offline_directory_loses_replicas_in_unknown_directories() {
    let (topic_id, gone) = (Uuid::from_bytes([7; 16]), Uuid::from_bytes([8; 16]));
    let healthy = Uuid::from_bytes([9; 16]);
    let partition = PartitionRecord {
        topic_id,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        directories: vec![gone],
        ..PartitionRecord::default()
    };
    let records = [TopicRecord { name: "moved".to_owned(), topic_id }.into(), partition.into()];
    let before = apply(&Image::empty(), &records);
    let leader = |image: &Image| image.topic("moved").unwrap().partition(0).unwrap().leader;
    let node = Node { node_id: 1, log_dirs: vec![healthy], ..Node::default() };
    assert_eq!(leader(&apply(&before, &start_node(&before, &node, 300))), 1);

    let node = Node { has_offline_dirs: true, ..node };
    let lost = apply(&before, &start_node(&before, &node, 300));
    assert_eq!(leader(&lost), NO_LEADER);
    // An operator had moved its files into the directory that works.
    let found = apply(&lost, &assign_directories(&lost, 1, &[(("moved".to_owned(), 0), healthy)]));
    assert_eq!(leader(&found), 1);
    assert_eq!(found.topic("moved").unwrap().partition(0).unwrap().directories, [healthy]);
}

#[test]
fn partition_quota_is_checked_after_other_rules() {
    let asked = std::cell::RefCell::new(Vec::new());
    let permit = |partitions: usize| {
        asked.borrow_mut().push(partitions);
        partitions < 4
    };
    let rules = TopicRules { permit: &permit, ..rules() };
    let new = |name: &str, partitions| NewTopic { partitions, ..topic(name) };
    let wanted = [new("a", 3), new("b", 4), new("c", 0), new("d", 2)];
    let created = create_topics(&image(), &wanted, rules, ids());
    let reasons =
        |outcome: &Result<CreatedTopic, Refusal>| outcome.as_ref().err().map(|refusal| refusal.reason);
    let outcomes: Vec<_> = created.outcome.iter().map(reasons).collect();
    assert_eq!(outcomes, [None, Some(Reason::QuotaExceeded), Some(Reason::InvalidPartitions), None]);
    assert_eq!(*asked.borrow(), [3, 4, 2], "an invalid topic takes nothing");
    let image = apply(&image(), &created.records);
    assert!(image.topic("b").is_none());

    asked.borrow_mut().clear();
    let more = |name: &str, count| MorePartitions { topic: name.to_owned(), count, assignments: None };
    let wanted = [more("a", 7), more("d", 4), more("none", 9), more("a2", 1)];
    let grown = create_partitions(&image, &wanted, &permit);
    let refused =
        |outcome: &(String, Result<(), Refusal>)| outcome.1.as_ref().err().map(|refusal| refusal.reason);
    let outcomes: Vec<_> = grown.outcome.iter().map(refused).collect();
    let unknown = Some(Reason::UnknownTopic);
    assert_eq!(outcomes, [Some(Reason::QuotaExceeded), None, unknown, unknown]);
    assert_eq!(*asked.borrow(), [4, 2]);

    asked.borrow_mut().clear();
    let image = apply(&image, &grown.records);
    let key = |name: &str| TopicKey { name: Some(name.to_owned()), topic_id: Uuid::ZERO };
    let deleted = delete_topics(&image, &[key("a"), key("d"), key("b")], &permit);
    let reasons: Vec<_> = deleted
        .outcome
        .iter()
        .map(|(_, outcome)| outcome.as_ref().err().map(|refusal| refusal.reason))
        .collect();
    assert_eq!(reasons, [None, Some(Reason::QuotaExceeded), Some(Reason::UnknownTopic)]);
    assert_eq!((deleted.records.len(), asked.into_inner()), (1, vec![3, 4]));
}
