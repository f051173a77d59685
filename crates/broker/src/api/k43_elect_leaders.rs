//! ElectLeaders (key 43), versions 0–2.
//!
//! Version 1 has unclean elections (KIP-460), and 2 is flexible (KIP-482); the API is that of
//! KIP-183.
//!
//! A single broker leads all of its partitions, so no election is ever needed: each requested
//! partition gets `ELECTION_NOT_NEEDED`. A request for all partitions gets every topic without a
//! partition, because Kafka omits partitions that need no election.

use std::borrow::Cow;

use levada_metadata::image::{Image, Topic};
use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::elect_leaders_request::TopicPartitions;
use levada_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use levada_wire::messages::{ElectLeadersRequest, ElectLeadersResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::forwarding::Refusable;
use crate::api::{Context, Sentences, text};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(crate) async fn answer(context: &Context, request: ElectLeadersRequest) -> ElectLeadersResponse {
    if !context.may_cluster(Operation::Alter) {
        let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
        return refuse_all(request, forbidden.code, forbidden.message);
    }
    let asks = request.topic_partitions.as_ref().is_none_or(|topics| !topics.is_empty());
    if request.timeout_ms <= 0 && asks {
        return request.refuse_late(context.version());
    }
    let unclean = match request.election_type {
        PREFERRED => false,
        UNCLEAN => true,
        other => {
            let why = format!("Unknown election type {other}");
            return refuse_all(request, ErrorCode::InvalidRequest, Some(why.into()));
        }
    };
    let image = context.broker().metadata().image();
    let results = match request.topic_partitions {
        None => {
            let all = image.topics().iter();
            all.map(|topic| message!(ReplicaElectionResult { topic: StrBytes::from(&**topic.name()) }))
                .collect()
        }
        Some(asked) => {
            let mut sentences = Sentences::default();
            asked.into_iter().map(|one| elect(&image, one, unclean, &mut sentences)).collect()
        }
    };
    message!(ElectLeadersResponse { replica_election_results: results })
}

fn elect(
    image: &Image,
    asked: TopicPartitions,
    unclean: bool,
    sentences: &mut Sentences,
) -> ReplicaElectionResult {
    let name = asked.topic.as_str();
    // One sentence for all partitions of a topic that does not exist: the name may be long.
    let found = image.topic(name).ok_or_else(|| told(unknown(format!("No such topic as {name}"))));
    let results = asked.partitions.iter().map(|index| {
        let (code, sentence) = match &found {
            Ok(topic) => told(refuse(topic, *index, unclean)),
            Err(absent) => absent.clone(),
        };
        message!(PartitionResult {
            partition_id: *index,
            error_code: code,
            error_message: sentences.tell(sentence.as_ref()),
        })
    });
    let results = results.collect();
    message!(ReplicaElectionResult { partition_result: results, topic: asked.topic })
}

fn refuse_all(
    request: ElectLeadersRequest,
    error: ErrorCode,
    why: Option<Cow<'static, str>>,
) -> ElectLeadersResponse {
    let code = error.code();
    let (why, mut sentences) = (why.map(text), Sentences::default());
    let results = request.topic_partitions.unwrap_or_default().into_iter().map(|asked| {
        let results = asked.partitions.iter().map(|index| {
            message!(PartitionResult {
                partition_id: *index,
                error_code: code,
                error_message: sentences.tell(why.as_ref()),
            })
        });
        message!(ReplicaElectionResult { partition_result: results.collect(), topic: asked.topic.clone() })
    });
    message!(ElectLeadersResponse { error_code: code, replica_election_results: results.collect() })
}

fn refuse(topic: &Topic, index: i32, unclean: bool) -> Failure {
    let Some(partition) = topic.partition(index) else {
        return unknown(format!("No such partition as {}-{index}", topic.name()));
    };
    let led = partition.has_leader();
    match (unclean, partition.replicas.first() == Some(&partition.leader)) {
        (true, _) if led => {}
        (false, true) => {}
        (true, _) => return Failure::from(ErrorCode::EligibleLeadersNotAvailable),
        (false, false) => return Failure::from(ErrorCode::PreferredLeaderNotAvailable),
    }
    Failure::new(ErrorCode::ElectionNotNeeded, "Leader election not needed for topic partition.")
}

fn unknown(message: String) -> Failure {
    Failure::new(ErrorCode::UnknownTopicOrPartition, message)
}

fn told(failure: Failure) -> (i16, Option<StrBytes>) {
    (failure.code.code(), failure.message.map(text))
}
