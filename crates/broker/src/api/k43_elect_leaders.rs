//! ElectLeaders (key 43), versions 0–2.
//!
//! A single broker leads every partition that it has, so there is never anything to elect: each partition
//! asked for answers `ELECTION_NOT_NEEDED`. Asked about all, the answer has every topic and, as Kafka leaves
//! out what was not needed, no partition.

use levada_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use levada_wire::messages::{ElectLeadersRequest, ElectLeadersResponse};

use crate::api::access::forbidden;
use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::image::Image;
use crate::security::acl::Operation;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(crate) async fn answer(context: &Context, request: ElectLeadersRequest) -> ElectLeadersResponse {
    if !context.may_cluster(Operation::Alter) {
        let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
        return refuse_all(request, forbidden.code, forbidden.message.as_deref());
    }
    let unclean = match request.election_type {
        PREFERRED => false,
        UNCLEAN => true,
        other => {
            let why = format!("Unknown election type {other}");
            return refuse_all(request, ErrorCode::InvalidRequest, Some(&why));
        }
    };
    let image = context.broker().metadata().image();
    let results = match request.topic_partitions {
        None => {
            let all = image.topics().iter();
            all.map(|topic| message!(ReplicaElectionResult { topic: text(&**topic.name()) })).collect()
        }
        Some(asked) => {
            let asked = asked.into_iter().map(|one| {
                let name = one.topic.as_str();
                let results = one.partitions.iter().map(|index| {
                    let failure = refuse(&image, name, *index, unclean);
                    message!(PartitionResult {
                        partition_id: *index,
                        error_code: failure.code.code(),
                        error_message: failure.message.map(text),
                    })
                });
                message!(ReplicaElectionResult { partition_result: results.collect(), topic: one.topic.clone() })
            });
            asked.collect()
        }
    };
    message!(ElectLeadersResponse { replica_election_results: results })
}

fn refuse_all(request: ElectLeadersRequest, error: ErrorCode, why: Option<&str>) -> ElectLeadersResponse {
    let code = error.code();
    let results = request.topic_partitions.unwrap_or_default().into_iter().map(|asked| {
        let results = asked.partitions.iter().map(|index| {
            message!(PartitionResult {
                partition_id: *index,
                error_code: code,
                error_message: why.map(text),
            })
        });
        message!(ReplicaElectionResult { partition_result: results.collect(), topic: asked.topic.clone() })
    });
    message!(ElectLeadersResponse { error_code: code, replica_election_results: results.collect() })
}

fn refuse(image: &Image, name: &str, index: i32, unclean: bool) -> Failure {
    let unknown = |text| Failure::new(ErrorCode::UnknownTopicOrPartition, text);
    let Some(topic) = image.topic(name) else { return unknown(format!("No such topic as {name}")) };
    let Some(partition) = topic.partition(index) else {
        return unknown(format!("No such partition as {name}-{index}"));
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
