//! Answers to requests that are at fault, as Kafka gives them.

use std::net::Ipv4Addr;

use levada_base::batch::Builder;
use levada_config::{BrokerConfig, Protocol, Sources};
use levada_security::Session;
use levada_security::acl::ResourceType;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::FetchPartition;
use levada_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use levada_wire::messages::create_partitions_request::CreatePartitionsTopic;
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::elect_leaders_request::TopicPartitions;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest,
    DeleteTopicsRequest, DescribeLogDirsRequest, ElectLeadersRequest, ListOffsetsRequest, MetadataRequest,
    WriteTxnMarkersRequest,
};
use levada_wire::metadata::MetadataAnswer;
use levada_wire::{ApiKey, Uuid};

use super::rig::{Produced, Rig, TOPIC};
use super::{LONG_MS, OK, begun};
use crate::api::{
    Context, k02_list_offsets, k03_metadata, k19_create_topics, k20_delete_topics, k27_write_txn_markers,
    k31_delete_acls, k35_describe_log_dirs, k37_create_partitions, k43_elect_leaders,
    k45_alter_partition_reassignments,
};
use crate::fetch_session::REFUSED_MAX;

const ACKS: (i16, i32) = (1, 0);

fn context(rig: &Rig, api: ApiKey, version: i16) -> Context {
    let session = Session::anonymous(Ipv4Addr::LOCALHOST.into());
    rig.context_of((api, version), (Protocol::Plaintext, session))
}

#[test]
fn marker_without_valid_producer_is_not_appended() {
    let rig = Rig::start();
    let context = context(&rig, ApiKey::WriteTxnMarkers, 1);
    for (producer_id, producer_epoch) in [(-1, 0), (-1, -1), (5, -1), (-7, 3)] {
        let topic =
            |name: &str| message!(WritableTxnMarkerTopic { name: name.into(), partition_indexes: vec![0] });
        let marker = message!(WritableTxnMarker {
            producer_id: producer_id,
            producer_epoch: producer_epoch,
            topics: vec![topic("t"), topic("none")],
        });
        let request = message!(WriteTxnMarkersRequest { markers: vec![marker] });
        let answer = rig.run(k27_write_txn_markers::answer(&context, request));
        let errors = answer.markers[0].topics.iter().map(|topic| topic.partitions[0].error_code);
        let expected = [ErrorCode::UnknownServerError, ErrorCode::UnknownTopicOrPartition];
        assert_eq!(errors.collect::<Vec<_>>(), expected.map(ErrorCode::code), "{producer_id}");
    }
    assert_eq!(rig.partition().log().log_end(), 0);
}

/// A batch of one record of this time.
fn batch(builder: Builder, timestamp: i64) -> Vec<u8> {
    let mut builder = builder;
    builder.push(timestamp, None, Some(b"value"));
    builder.build().unwrap().to_vec()
}

#[test]
fn produce_refusal_by_log_includes_log_start() {
    let rig = Rig::start();
    rig.run(async {
        let good = batch(Builder::new(), 5);
        let mut corrupt = good.clone();
        corrupt[20] ^= 1;
        let mut elsewhere = good.clone();
        elsewhere[7] = 3;
        let huge = {
            let mut builder = Builder::new();
            builder.push(0, None, Some(&vec![0; 2 << 20]));
            builder.build().unwrap().to_vec()
        };
        let two = [good.clone(), good.clone()].concat();
        let mut old = good.clone();
        old[16] = 1;
        let cases = [
            (2, &good[..], ErrorCode::InvalidRequiredAcks, -1),
            (1, &[], ErrorCode::InvalidRecord, -1),
            (1, &two, ErrorCode::InvalidRecord, -1),
            (1, &old, ErrorCode::InvalidRecord, -1),
            (1, &corrupt, ErrorCode::CorruptMessage, -1),
            (1, &huge, ErrorCode::MessageTooLarge, -1),
            (1, &elsewhere, ErrorCode::InvalidRecord, 0),
        ];
        for (acks, records, error, log_start_offset) in cases {
            let produced = rig.produce_bytes((acks, 0), records).await;
            let expected = Produced {
                error_code: error.code(),
                base_offset: -1,
                log_append_time_ms: -1,
                log_start_offset,
            };
            assert_eq!(produced, expected);
        }
        let produced = rig.produce_bytes(ACKS, &[&good[..], b"stray"].concat()).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, 0));
        let stored = rig.partition().log().size_bytes();
        assert_eq!(stored, good.len() as u64, "stray bytes are not stored");
    });
}

#[test]
fn duplicate_batch_returns_newest_batch_timestamp() {
    let rig = Rig::start();
    rig.run(async {
        let records = batch(Builder::new().producer(7, 0, 0), 1_234);
        for log_append_time_ms in [-1, 1_234, 1_234] {
            let expected =
                Produced { error_code: 0, base_offset: 0, log_append_time_ms, log_start_offset: 0 };
            assert_eq!(rig.produce_bytes(ACKS, &records).await, expected);
        }
    });
}

#[test]
fn list_offsets_merges_repeated_topic() {
    let rig = Rig::start();
    let context = context(&rig, ApiKey::ListOffsets, 7);
    let topic = |name: &str, indexes: &[i32]| {
        let partitions = indexes.iter().map(|index| {
            message!(ListOffsetsPartition {
                partition_index: *index,
                current_leader_epoch: -1,
                timestamp: -2,
            })
        });
        message!(ListOffsetsTopic { name: name.into(), partitions: partitions.collect() })
    };
    let topics = vec![topic("t", &[0]), topic("none", &[0]), topic("t", &[1, 0]), topic("empty", &[])];
    let request = message!(ListOffsetsRequest { replica_id: -1, topics: topics });
    let answer = rig.run(k02_list_offsets::answer(&context, request));
    let found = answer.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|one| (one.partition_index, one.error_code));
        (topic.name.as_str(), partitions.collect::<Vec<_>>())
    });
    let (invalid, unknown) = (ErrorCode::InvalidRequest.code(), ErrorCode::UnknownTopicOrPartition.code());
    let expected = [("t", vec![(0, invalid), (1, unknown)]), ("none", vec![(0, unknown)])];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn negative_leader_epoch_in_fetch_is_ignored() {
    let rig = Rig::start();
    for current_leader_epoch in [-1, -5, i32::MIN] {
        let mut request = rig.fetch_of(-1, 0);
        request.topics[0].partitions[0].current_leader_epoch = current_leader_epoch;
        assert_eq!(rig.run(rig.fetch(request)).error_code, 0, "{current_leader_epoch}");
    }
}

/// A consumer that still fetches from a deleted topic was answered without a pause.
#[test]
fn fetch_with_unknown_partition_still_waits() {
    let rig = Rig::start();
    rig.run(async {
        let both = |first| {
            let mut request = rig.fetch_of(-1, 0);
            request.max_wait_ms = LONG_MS;
            let mut unknown = request.topics[0].clone();
            unknown.topic_id = Uuid::from_bytes([99; 16]);
            request.topics.insert(first, unknown);
            request
        };
        let mut alone = both(0);
        alone.topics.truncate(1);
        let refused = ErrorCode::UnknownTopicId.code();
        assert_eq!(rig.fetch(alone).await.error_code, refused, "there is nothing to wait for");
        let (mut one, mut other) = (Box::pin(rig.fetch(both(0))), Box::pin(rig.fetch(both(1))));
        assert!(begun(&mut one).await.is_none() && begun(&mut other).await.is_none());
        assert_eq!(rig.produce(1, LONG_MS).await, (OK, 0));
        assert_eq!(rig.follow(1).await.error_code, OK);
        assert_eq!(one.await.error_code, refused);
        assert!(other.await.records.is_some_and(|records| !records.is_empty()));
    });
}

#[test]
fn fetch_session_bounds_unknown_partitions() {
    let rig = Rig::start();
    let opening = |unknown: i32| {
        let mut request = rig.fetch_of(-1, 0);
        request.session_epoch = 0;
        let known = request.topics[0].partitions[0].clone();
        let unknown = (1..=unknown).map(|index| FetchPartition { index, ..known.clone() });
        request.topics[0].partitions.extend(unknown);
        request
    };
    let most = i32::try_from(REFUSED_MAX).unwrap();
    assert_eq!(rig.run(rig.fetch_all(opening(most + 1))).session_id, 0);
    let opened = rig.run(rig.fetch_all(opening(most)));
    assert!(opened.session_id > 0);
    // A session ends that gets more of them.
    let continuing = |epoch: i32, unknown: i32| {
        let mut request = opening(most + unknown);
        (request.session_id, request.session_epoch) = (opened.session_id, epoch);
        request.topics[0].partitions.drain(..=REFUSED_MAX);
        request.topics.retain(|topic| !topic.partitions.is_empty());
        rig.run(rig.fetch_all(request))
    };
    assert_eq!(continuing(1, 0).error_code, 0);
    let told: usize = continuing(2, 1).topics.iter().map(|topic| topic.partitions.len()).sum();
    assert_eq!(told, REFUSED_MAX + 1, "their errors are told");
    assert_eq!(continuing(3, 0).error_code, ErrorCode::FetchSessionIdNotFound.code());
}

#[test]
fn describe_log_dirs_reports_cordoned_directories() {
    let rig = Rig::start();
    let describe = |version| {
        let request = message!(DescribeLogDirsRequest { topics: None });
        let context = context(&rig, ApiKey::DescribeLogDirs, version);
        rig.run(k35_describe_log_dirs::answer(&context, request)).results[0].is_cordoned
    };
    assert!(!describe(5));
    let dir = rig.broker.config().log_dirs[0].display().to_string();
    let member = [
        "process.roles=broker".to_owned(),
        format!("node.id={}", rig.node),
        "controller.quorum.bootstrap.servers=127.0.0.1:9093".to_owned(),
        "controller.listener.names=CONTROLLER".to_owned(),
        format!("log.dirs={dir}"),
        format!("cordoned.log.dirs={dir}"),
    ];
    rig.broker.live_config().replace(BrokerConfig::load(&Sources::flags(member)).unwrap());
    assert!(describe(5));
    assert!(!describe(4), "the version has no such field");
}

#[test]
fn the_topics_of_coordinators_are_internal() {
    let mut rig = Rig::start();
    let names = ["__consumer_offsets", "__share_group_state", "__transaction_state"];
    for (id, name) in (1..).zip(names) {
        rig.create_alone(Uuid::from_bytes([id; 16]), name);
    }
    let context = context(&rig, ApiKey::Metadata, 9);
    let request = message!(MetadataRequest { topics: None });
    let answer = rig.run(k03_metadata::answer(&context, request));
    let mut internal: Vec<_> = answer
        .response
        .topics
        .iter()
        .filter(|topic| topic.is_internal)
        .filter_map(|topic| topic.name.clone())
        .collect();
    internal.sort();
    assert_eq!(internal, names.map(Into::into));
    let share = rig.broker.replicas().partition(names[1], 0).unwrap();
    assert!(share.is_internal(), "clients may not produce to it");
}

#[test]
fn repeated_metadata_requests_get_the_same_bytes() {
    let mut rig = Rig::start();
    // In version 0, replicas on brokers that are not registered are an error.
    for version in 1..=13 {
        // The next image: nothing is kept from before.
        let name = format!("topic-{version}");
        rig.create_alone(Uuid::from_bytes([100 + version as u8; 16]), &name);
        let context = context(&rig, ApiKey::Metadata, version);
        let ask = || rig.run(k03_metadata::answer(&context, message!(MetadataRequest { topics: None })));
        let bytes = |mut answer: MetadataAnswer| {
            // Drawn among the brokers for each response.
            answer.response.controller_id = 1;
            levada_wire::encode_response(1, version, &answer).unwrap()
        };
        let (first, second, third) = (ask(), ask(), ask());
        assert_eq!((first.encoded.len(), first.response.topics.len()), (0, 1 + version as usize));
        assert_eq!((second.encoded.len(), second.response.topics.len()), (1 + version as usize, 0));
        let expected = bytes(first);
        assert_eq!(bytes(second), expected, "{version}");
        assert_eq!(bytes(third), expected, "{version}");
    }
}

#[test]
fn operations_on_missing_topic_need_describe_permission() {
    const NOT_TOLD: i32 = i32::MIN;
    let topic = |name: &str| message!(MetadataRequestTopic { name: Some(name.into()) });
    let request = message!(MetadataRequest {
        topics: Some(["t", "none", "no topic!"].map(topic).into()),
        include_topic_authorized_operations: true,
        allow_auto_topic_creation: false,
    });
    let told = |rig: &Rig| {
        let context = context(rig, ApiKey::Metadata, 12);
        let answer = rig.run(k03_metadata::answer(&context, request.clone()));
        let topics = answer.response.topics.iter();
        let told = topics.map(|topic| (topic.error_code, topic.topic_authorized_operations));
        told.collect::<Vec<_>>()
    };
    let all = ResourceType::Topic.operations().iter().fold(0, |bits, one| bits | 1 << one.code());
    let errors = [ErrorCode::None, ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidTopic];
    assert_eq!(told(&Rig::start()), errors.map(|error| (error.code(), all)));
    let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let forbidden = (ErrorCode::TopicAuthorizationFailed.code(), NOT_TOLD);
    assert_eq!(told(&Rig::start_with(&[authorizer])), [forbidden; 3]);
}

#[test]
fn request_with_expired_timeout_changes_nothing() {
    let rig = Rig::start();
    let late = ErrorCode::RequestTimedOut.code();
    let (partitions, replicas) = (vec![0], vec![rig.node]);
    for timeout_ms in [0, -1] {
        let creation = |name: &str| message!(CreatableTopic { name: name.into(), num_partitions: 1 });
        let create = |topics| {
            let request = message!(CreateTopicsRequest { topics: topics, timeout_ms: timeout_ms });
            let answer = rig.run(k19_create_topics::answer(&context(&rig, ApiKey::CreateTopics, 7), request));
            let topics = answer.topics;
            topics.into_iter().map(|topic| topic.error_code).collect::<Vec<_>>()
        };
        assert_eq!(create(vec![creation("a"), creation("b"), creation("b")]), [late; 3]);

        let by_name = |name: &str| message!(DeleteTopicState { name: Some(name.into()) });
        let request = message!(DeleteTopicsRequest { topics: vec![by_name("t")], timeout_ms: timeout_ms });
        let answer = rig.run(k20_delete_topics::answer(&context(&rig, ApiKey::DeleteTopics, 6), request));
        assert_eq!(answer.responses[0].error_code, late);

        let more = message!(CreatePartitionsTopic { name: "t".into(), count: 2, assignments: None });
        let request = message!(CreatePartitionsRequest { topics: vec![more], timeout_ms: timeout_ms });
        let answer =
            rig.run(k37_create_partitions::answer(&context(&rig, ApiKey::CreatePartitions, 3), request));
        assert_eq!(answer.results[0].error_code, late);

        let topic = message!(TopicPartitions { topic: "t".into(), partitions: partitions.clone() });
        let request =
            message!(ElectLeadersRequest { topic_partitions: Some(vec![topic]), timeout_ms: timeout_ms });
        let answer = rig.run(k43_elect_leaders::answer(&context(&rig, ApiKey::ElectLeaders, 2), request));
        assert_eq!(answer.replica_election_results[0].partition_result[0].error_code, late);
        assert_eq!(answer.error_code, late);

        let partition =
            message!(ReassignablePartition { partition_index: 0, replicas: Some(replicas.clone()) });
        let topic = message!(ReassignableTopic { name: "t".into(), partitions: vec![partition] });
        let request =
            message!(AlterPartitionReassignmentsRequest { topics: vec![topic], timeout_ms: timeout_ms });
        let api = ApiKey::AlterPartitionReassignments;
        let answer = rig.run(k45_alter_partition_reassignments::answer(&context(&rig, api, 1), request));
        assert_eq!(answer.error_code, late);
    }
    assert_eq!(rig.broker.metadata().image().topics().iter().count(), 1);
}

#[test]
fn disabled_topic_deletion_error_depends_on_version() {
    let rig = Rig::start_with(&["delete.topic.enable=false"]);
    let versions = [
        (1, ErrorCode::InvalidRequest),
        (2, ErrorCode::InvalidRequest),
        (3, ErrorCode::TopicDeletionDisabled),
    ];
    for (version, error) in versions {
        let request = message!(DeleteTopicsRequest { topic_names: vec!["t".into()], timeout_ms: 1000 });
        let context = context(&rig, ApiKey::DeleteTopics, version);
        let answer = rig.run(k20_delete_topics::answer(&context, request));
        assert_eq!(answer.responses[0].error_code, error.code(), "version {version}");
    }
}

#[test]
fn metadata_request_by_topic_id_ignores_names() {
    let rig = Rig::start();
    let unknown_id = Uuid::from_bytes([99; 16]);
    let topic =
        |topic_id, name: &str| message!(MetadataRequestTopic { topic_id: topic_id, name: Some(name.into()) });
    let topics = vec![
        topic(unknown_id, "fresh"),
        topic(unknown_id, "fresh again"),
        topic(TOPIC, "other"),
        topic(Uuid::ZERO, "only.a.name"),
    ];
    let request = message!(MetadataRequest { topics: Some(topics), allow_auto_topic_creation: true });
    let answer = rig.run(k03_metadata::answer(&context(&rig, ApiKey::Metadata, 12), request));
    let found = answer
        .response
        .topics
        .iter()
        .map(|topic| (topic.error_code, topic.topic_id, topic.name.as_ref().map(|name| name.as_str())));
    let expected = [(ErrorCode::UnknownTopicId.code(), unknown_id, None), (OK, TOPIC, Some("t"))];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(rig.broker.metadata().image().topics().len(), 1);
}

#[test]
fn delete_acls_errors_distinguish_pattern_from_entry() {
    let rig = Rig::start_with(&[
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    ]);
    let delete = |filters: &[[i8; 4]]| {
        let filters = filters.iter().map(|[resource_type, pattern, operation, permission]| {
            message!(DeleteAclsFilter {
                resource_type_filter: *resource_type,
                pattern_type_filter: *pattern,
                operation: *operation,
                permission_type: *permission,
            })
        });
        let request = message!(DeleteAclsRequest { filters: filters.collect() });
        let answer = rig.run(k31_delete_acls::answer(&context(&rig, ApiKey::DeleteAcls, 3), request));
        let invalid = ErrorCode::InvalidRequest.code();
        let results = answer.filter_results.into_iter();
        let results = results.inspect(|result| assert_eq!(result.error_code, invalid));
        results.map(|result| result.error_message.unwrap().as_str().to_owned()).collect::<Vec<_>>()
    };
    let (pattern, entry) = ("Unknown patternFilter.", "Unknown entryFilter.");
    assert_eq!(
        delete(&[[100, 1, 1, 1], [1, 100, 1, 1], [1, -1, 99, 1], [1, 1, 100, 1], [1, 1, 1, 100]]),
        [pattern, pattern, pattern, entry, entry]
    );
    let unset = "Filters contain UNKNOWN elements.";
    for filter in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] {
        assert_eq!(delete(&[[1, 1, 1, 1], filter]), [unset, unset], "{filter:?}");
    }
}
