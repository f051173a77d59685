//! DescribeShareGroupOffsets (key 90), versions 0–1.
//!
//! Version 1 returns the lag (KIP-1226); the API is that of KIP-932.
//!
//! Start offset and leader epoch of share partitions, from the share coordinators, for named
//! partitions or for all that are initialized. Version 1 also has the lag: the end offset that the
//! leader has, less the start offset, less the number of later records whose delivery is complete.
//! The lag is -1 if that number is not known, because the leader of the partition has not written
//! its state yet.
//!
//! As in Kafka, the start offset is -1, without an error, for a partition without state, for a
//! topic that does not exist, and for a partition whose coordinator does not respond. If the end
//! offset is not known, the partition has an error.
//!
//! Checks Describe on each group and each topic. With the feature `share.version` at level 0, each
//! group is `UNSUPPORTED_VERSION`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use levada_coordination::group::GroupError;
use levada_coordination::group::records::Partitions;
use levada_coordination::share_state::ShareStateError;
use levada_coordination::share_state::request::{StateSummary, SummaryPart};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, sentence};
use levada_wire::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use levada_wire::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use levada_wire::messages::{DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::k76_share_group_heartbeat::are_served;
use crate::api::{Context, Sentences, text};
use crate::end_offsets::TopicPartitions;
use crate::peers::Subject;
use crate::share::states;

const LAG_VERSION_MIN: i16 = 1;

/// Start offset and lag of a partition without state.
const NONE: i64 = -1;

type ShownGroup = DescribeShareGroupOffsetsResponseGroup;
type ShownTopic = DescribeShareGroupOffsetsResponseTopic;
type ShownPartition = DescribeShareGroupOffsetsResponsePartition;

/// Existing topics and their partitions, each once, in the order of the request.
type AskedTopics = Vec<(Uuid, String, Vec<i32>)>;

pub(crate) async fn answer(
    context: &Context,
    request: DescribeShareGroupOffsetsRequest,
) -> DescribeShareGroupOffsetsResponse {
    context.give_turn_back();
    let mut open = request.groups;
    let (mut groups, mut sentences) = (Vec::with_capacity(open.len()), Sentences::default());
    // A group of the response takes more memory than one of the request: their memory goes while
    // that of the response comes.
    open.reverse();
    while let Some(group) = open.pop() {
        groups.push(describe(context, group, &mut sentences).await);
        if open.len() < open.capacity() / 8 * 7 {
            open.shrink_to_fit();
        }
    }
    message!(DescribeShareGroupOffsetsResponse { groups: groups })
}

async fn describe(
    context: &Context,
    group: DescribeShareGroupOffsetsRequestGroup,
    sentences: &mut Sentences,
) -> ShownGroup {
    let group_id = group.group_id;
    let refusal =
        |code: ErrorCode| message!(ShownGroup { group_id: group_id.clone(), error_code: code.code() });
    if !are_served(context) {
        return refusal(ErrorCode::UnsupportedVersion);
    }
    if !context.may(Operation::Describe, ResourceType::Group, group_id.as_str()) {
        return refusal(ErrorCode::GroupAuthorizationFailed);
    }
    let named = match group.topics {
        Some(topics) => named(context, topics, sentences),
        None => match initialized(context, group_id.as_str()) {
            Ok(asked) => Named { asked, unknown: Vec::new(), forbidden: Vec::new() },
            Err(error) => {
                let mut refused = refusal(error.into());
                refused.error_message = sentences.tell(Some(&text(sentence(error.to_string()))));
                return refused;
            }
        },
    };
    let mut topics = Vec::new();
    if !named.asked.is_empty() {
        topics = look_up(context, group_id.as_str(), named.asked, sentences).await;
    }
    topics.extend(named.unknown);
    topics.extend(named.forbidden);
    // There may be 150 000 groups of one topic, and a list grows to four at first.
    topics.shrink_to_fit();
    message!(ShownGroup { group_id: group_id, topics: topics })
}

/// The topics of a request.
struct Named {
    asked: AskedTopics,
    unknown: Vec<ShownTopic>,
    forbidden: Vec<ShownTopic>,
}

fn named(
    context: &Context,
    topics: Vec<DescribeShareGroupOffsetsRequestTopic>,
    sentences: &mut Sentences,
) -> Named {
    let image = context.broker().metadata().image();
    let mut named = Named { asked: Vec::new(), unknown: Vec::new(), forbidden: Vec::new() };
    let mut places: HashMap<Uuid, (usize, BTreeSet<i32>)> = HashMap::new();
    for topic in topics {
        let name = topic.topic_name.as_str();
        if !context.may(Operation::Describe, ResourceType::Topic, name) {
            named.forbidden.push(refused(topic, sentences));
            continue;
        }
        let Some(found) = image.topic(name) else {
            named.unknown.push(uninitialized(topic));
            continue;
        };
        let (place, seen) = places.entry(found.id()).or_insert_with(|| {
            named.asked.push((found.id(), name.to_owned(), Vec::new()));
            (named.asked.len() - 1, BTreeSet::new())
        });
        let once = topic.partitions.into_iter().filter(|index| seen.insert(*index));
        named.asked[*place].2.extend(once);
    }
    named
}

/// All partitions that are initialized for the group, of the topics that the client may describe.
fn initialized(context: &Context, group_id: &str) -> Result<AskedTopics, GroupError> {
    let groups = context.broker().coordinators().groups();
    let found = groups.view(group_id, |coordinator| coordinator.initialized_share_partitions(group_id));
    let partitions: Partitions = found.unwrap_or(Err(GroupError::NotCoordinator))?;
    let image = context.broker().metadata().image();
    let topics = partitions.into_iter().filter_map(|(id, indexes)| {
        let name = image.topic_by_id(id)?.name().to_string();
        let may = context.might(Operation::Describe, ResourceType::Topic, &name);
        may.then(|| (id, name, indexes.into_iter().collect()))
    });
    Ok(topics.collect())
}

async fn look_up(
    context: &Context,
    group_id: &str,
    asked: AskedTopics,
    sentences: &mut Sentences,
) -> Vec<ShownTopic> {
    let summaries = summaries(context, group_id, &asked).await;
    let mut to_measure = TopicPartitions::new();
    for (topic_id, name, _) in &asked {
        let of_topic = summaries.range((*topic_id, i32::MIN)..=(*topic_id, i32::MAX));
        let with_lag = of_topic.filter(|(_, summary)| has_lag(summary));
        let indexes: Vec<i32> = with_lag.map(|((_, index), _)| *index).collect();
        if !indexes.is_empty() {
            to_measure.insert(name.clone(), indexes);
        }
    }
    let ends = context.broker().ask_ends(Subject::EndOffsets, to_measure).all().await;
    let unknown = Err(ShareStateError::UnknownTopicOrPartition);
    let topics = asked.into_iter().map(|(id, name, indexes)| {
        let mut shown = Vec::with_capacity(indexes.len());
        let mut place = (name, 0);
        for index in indexes {
            place.1 = index;
            let summary = summaries.get(&(id, index)).copied().unwrap_or(unknown);
            shown.push(show(context, (index, summary), ends.get(&place).copied(), sentences));
        }
        message!(ShownTopic { topic_id: id, partitions: shown, topic_name: text(place.0) })
    });
    topics.collect()
}

/// The states of the partitions that exist. A request may name any number of others.
async fn summaries(
    context: &Context,
    group_id: &str,
    asked: &AskedTopics,
) -> BTreeMap<(Uuid, i32), Result<StateSummary, ShareStateError>> {
    let image = context.broker().metadata().image();
    let exists =
        |id: Uuid, index| image.topic_by_id(id).is_some_and(|topic| topic.partition(index).is_some());
    let places = asked.iter().flat_map(|(id, _, indexes)| indexes.iter().map(|index| (*id, *index)));
    let places: Vec<(Uuid, i32)> = places.filter(|(id, index)| exists(*id, *index)).collect();
    let parts =
        places.iter().map(|(topic_id, partition)| SummaryPart { topic_id: *topic_id, partition: *partition });
    let found = states::request(context.broker(), group_id, parts.collect()).await;
    places.into_iter().zip(found).collect()
}

/// True if the lag follows from the state and the end offset.
fn has_lag(summary: &Result<StateSummary, ShareStateError>) -> bool {
    summary.is_ok_and(|summary| summary.start_offset != NONE && summary.delivery_complete_count != -1)
}

fn show(
    context: &Context,
    (index, summary): (i32, Result<StateSummary, ShareStateError>),
    end: Option<Result<i64, ErrorCode>>,
    sentences: &mut Sentences,
) -> ShownPartition {
    let Ok(summary) = summary else {
        return message!(ShownPartition { partition_index: index, start_offset: NONE });
    };
    if let Some(Err(error)) = end {
        let sentence = format!("The leader of the partition returned no end offset ({}).", error.name());
        return message!(ShownPartition {
            partition_index: index,
            error_code: error.code(),
            error_message: sentences.tell(Some(&text(sentence))),
        });
    }
    let StateSummary { start_offset, leader_epoch, delivery_complete_count, .. } = summary;
    let mut shown = message!(ShownPartition {
        partition_index: index,
        start_offset: start_offset,
        leader_epoch: leader_epoch,
    });
    if let Some(Ok(end)) = end.filter(|_| context.version() >= LAG_VERSION_MIN) {
        shown.lag = end.saturating_sub(start_offset).saturating_sub(delivery_complete_count.into());
    }
    shown
}

fn uninitialized(topic: DescribeShareGroupOffsetsRequestTopic) -> ShownTopic {
    let partitions = topic.partitions.into_iter();
    let partitions =
        partitions.map(|index| message!(ShownPartition { partition_index: index, start_offset: NONE }));
    message!(ShownTopic { topic_name: topic.topic_name, partitions: partitions.collect() })
}

fn refused(topic: DescribeShareGroupOffsetsRequestTopic, sentences: &mut Sentences) -> ShownTopic {
    let failure = forbidden(ErrorCode::TopicAuthorizationFailed);
    let message: Option<StrBytes> = failure.message.map(text);
    let code = failure.code.code();
    let partitions = topic.partitions.into_iter().map(|index| {
        message!(ShownPartition {
            partition_index: index,
            start_offset: NONE,
            error_code: code,
            error_message: sentences.tell(message.as_ref()),
        })
    });
    message!(ShownTopic { topic_name: topic.topic_name, partitions: partitions.collect() })
}
