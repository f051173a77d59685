//! Metadata (key 3), versions 0–13.
//!
//! Version 4 can forbid the creation of topics, 5 lists offline replicas (KIP-112), 7
//! leader epochs (KIP-320), 8 authorized operations (KIP-430; for the cluster up to 10, KIP-700),
//! 10 topic ids (KIP-516), and 13 has an error for the whole response (KIP-1102).
//!
//! Returns the live brokers with the endpoint of the client's listener, a controller (any live
//! broker), and topics: by name, by id (from version 12 on), or all topics (null; an empty list in
//! version 0). If one topic of the request has an id, the names in the request have no effect. A
//! named topic that does not exist is created if the client and `auto.create.topics.enable` allow
//! it. As in Kafka, the response still reports it as unknown. If the broker is its own controller,
//! the topic exists when the response is sent; a broker of a cluster gets it with the metadata log.
//!
//! Topics that are requested again within a second are encoded once for each image of the metadata
//! (`crate::encoded_topics`).
//!
//! Topics that the client may not describe are omitted from all topics, and refused by name or id.
//! A client whose request creates a topic needs Create on the cluster or on the topic.

use std::collections::HashSet;
use std::sync::Arc;

use levada_metadata::controller::{check_topic_name, is_internal};
use levada_metadata::image::{Image, Topic};
use levada_process::clock::steady_ms;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use levada_wire::messages::{MetadataRequest, MetadataResponse, StrBytes};
use levada_wire::metadata::{EncodedTopic, MetadataAnswer};

use crate::api::changes::log_change;
use crate::api::nodes::{NodeEndpoint, Nodes};
use crate::api::{Context, text};
use crate::encoded_topics::State;

/// Names may be null and ids are honoured from this version on; 10 and 11 carry ids but may not use
/// them.
const BY_ID_VERSION_MIN: i16 = 12;
const ID_VERSION_MIN: i16 = 10;
/// Clients of older versions rely on the creation of topics by this request.
const AUTO_CREATE_FLAG_VERSION_MIN: i16 = 4;
const OFFLINE_VERSION_MIN: i16 = 5;
/// The first version with a separate error for a leader without the client's listener.
const LISTENER_VERSION_MIN: i16 = 6;
/// First version that also lists replicas on brokers that are not in the response.
const REACHABLE_VERSION_MIN: i16 = 1;
const EPOCH_VERSION_MIN: i16 = 7;

/// A topic to describe, or the response about one that is not described.
type Found = Result<Arc<Topic>, MetadataResponseTopic>;

pub(crate) async fn answer(context: &Context, request: MetadataRequest) -> MetadataAnswer {
    let version = context.version();
    let broker = context.broker();
    // Before the image: a later change is not missed.
    let changes = broker.replicas().changes();
    let image = broker.metadata().image();
    let nodes = Nodes::of(context, &image);
    let mut response = message!(MetadataResponse {
        controller_id: nodes.controller_id(),
        brokers: nodes.all(false).into_iter().map(|node| show_broker(version, node)).collect(),
    });
    if version >= 2 {
        response.cluster_id = Some(broker.metadata().cluster_id().into());
    }
    if request.include_cluster_authorized_operations && (8..=10).contains(&version) {
        response.cluster_authorized_operations = context.cluster_operations();
    }
    let named = request.topics.filter(|topics| version > 0 || !topics.is_empty());
    let found = match named {
        None => all(context, &image),
        Some(mut topics) => {
            if version >= BY_ID_VERSION_MIN && topics.iter().any(|topic| !topic.topic_id.is_zero()) {
                // As in Kafka, names in a request by id have no effect.
                topics.retain(|topic| !topic.topic_id.is_zero());
                topics.iter_mut().for_each(|topic| topic.name = None);
            }
            // A topic that is named more than once is described once.
            let mut seen = HashSet::with_capacity(topics.len());
            topics.retain(|topic| seen.insert((topic.name.clone(), topic.topic_id)));
            let create = version < AUTO_CREATE_FLAG_VERSION_MIN || request.allow_auto_topic_creation;
            some(context, &nodes, &topics, create).await
        }
    };
    if !request.include_topic_authorized_operations
        && let Some(encoded) = encoded(context, &nodes, State { image: &image, changes }, &found)
    {
        return MetadataAnswer { response, encoded };
    }
    let show = |topic: Arc<Topic>| show(context, &nodes, &topic);
    response.topics = found.into_iter().map(|found| found.map_or_else(|refused| refused, show)).collect();
    if request.include_topic_authorized_operations {
        // As in Kafka, also of topics that do not exist, if the client may describe their names.
        let described = [ErrorCode::None, ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidTopic];
        let described = described.map(ErrorCode::code);
        for topic in response.topics.iter_mut().filter(|topic| described.contains(&topic.error_code)) {
            let name = topic.name.as_ref().map_or("", StrBytes::as_str);
            topic.topic_authorized_operations = context.operations(ResourceType::Topic, name);
        }
    }
    response.into()
}

/// The encoded topics of an earlier equal request, or newly encoded ones that later requests reuse.
/// None if no client repeats the request, or if a partition has an error.
fn encoded(
    context: &Context,
    nodes: &Nodes<'_>,
    state: State<'_>,
    found: &[Found],
) -> Option<Vec<EncodedTopic>> {
    let (broker, version) = (context.broker(), context.version());
    let mut lent = broker.encoded_topics().lend(state, (nodes.listener(), version), steady_ms())?;
    let encode = |topic| EncodedTopic::new(topic, version).ok().flatten();
    let encoded = found.iter().map(|found| match found {
        Ok(topic) => lent.topic(topic.id(), || {
            let encoded = encode(show(context, nodes, topic))?;
            Some((encoded, broker.replicas().is_opened(topic)))
        }),
        Err(refused) => encode(refused.clone()),
    });
    encoded.collect()
}

fn show_broker(version: i16, node: NodeEndpoint<'_>) -> MetadataResponseBroker {
    message!(MetadataResponseBroker {
        node_id: node.broker.broker_id,
        host: text(node.host),
        port: i32::from(node.port),
        rack: node.broker.rack.as_deref().filter(|_| version >= 1).map(Into::into),
    })
}

fn all(context: &Context, image: &Image) -> Vec<Found> {
    let visible = |topic: &&Arc<Topic>| context.might(Operation::Describe, ResourceType::Topic, topic.name());
    image.topics().iter().filter(visible).map(|topic| Ok(topic.clone())).collect()
}

async fn some(
    context: &Context,
    nodes: &Nodes<'_>,
    asked: &[MetadataRequestTopic],
    create: bool,
) -> Vec<Found> {
    let version = context.version();
    if version < BY_ID_VERSION_MIN
        && asked.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_zero())
    {
        return asked.iter().map(|topic| Err(refuse(context, topic, ErrorCode::InvalidRequest))).collect();
    }
    let (broker, image) = (context.broker(), nodes.image());
    if create && broker.config().auto_create_topics {
        let names = asked.iter().filter_map(|topic| topic.name.as_ref()).map(StrBytes::as_str);
        let missing = names.filter(|name| image.topic(name).is_none() && check_topic_name(name).is_ok());
        let may_create = |name: &&str| may_describe(context, name) && may_create(context, name);
        let missing: Vec<_> = missing.filter(may_create).map(str::to_owned).collect();
        if !missing.is_empty() {
            // As in Kafka, a topic beyond the quota is not created, and the client asks again.
            let quota = context.mutation_quota(0);
            let created = broker.controller().auto_create(missing, Some(context.creator()), quota);
            for (topic, partitions) in created.await {
                log_change!(context, "topic created", topic, partitions, automatic = true,);
            }
        }
    }
    let by_id = asked.iter().any(|topic| !topic.topic_id.is_zero());
    let creates = create && broker.config().auto_create_topics;
    asked.iter().map(|topic| look_up(context, image, topic, (by_id, creates))).collect()
}

fn may_describe(context: &Context, name: &str) -> bool {
    context.may(Operation::Describe, ResourceType::Topic, name)
}

fn may_create(context: &Context, name: &str) -> bool {
    context.might_cluster(Operation::Create) || context.may(Operation::Create, ResourceType::Topic, name)
}

fn look_up(
    context: &Context,
    image: &Image,
    asked: &MetadataRequestTopic,
    (by_id, creates): (bool, bool),
) -> Found {
    let refused = |error| Err(refuse(context, asked, error));
    if by_id {
        return match image.topic_by_id(asked.topic_id) {
            // An id is not a secret, but a name is.
            Some(topic) if !may_describe(context, topic.name()) => {
                refused(ErrorCode::TopicAuthorizationFailed)
            }
            Some(topic) => Ok(topic.clone()),
            None => refused(ErrorCode::UnknownTopicId),
        };
    }
    let name = asked.name.as_ref().map_or("", StrBytes::as_str);
    if !may_describe(context, name) {
        let mut refused = refuse(context, asked, ErrorCode::TopicAuthorizationFailed);
        refused.is_internal = false;
        return Err(refused);
    }
    match image.topic(name) {
        Some(topic) => Ok(topic.clone()),
        None if creates && !may_create(context, name) => refused(ErrorCode::TopicAuthorizationFailed),
        None if check_topic_name(name).is_err() => refused(ErrorCode::InvalidTopic),
        None => refused(ErrorCode::UnknownTopicOrPartition),
    }
}

fn refuse(context: &Context, asked: &MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic {
    let mut topic = message!(MetadataResponseTopic { error_code: error.code(), name: asked.name.clone() });
    if context.version() >= ID_VERSION_MIN {
        topic.topic_id = asked.topic_id;
    }
    if context.version() < BY_ID_VERSION_MIN && topic.name.is_none() {
        topic.name = Some("".into());
    }
    topic.is_internal =
        context.version() >= 1 && topic.name.as_ref().is_some_and(|name| is_internal(name.as_str()));
    topic
}

fn show(context: &Context, nodes: &Nodes<'_>, topic: &Arc<Topic>) -> MetadataResponseTopic {
    let version = context.version();
    let is_online = context.broker().replicas().online(topic);
    let partitions = topic.partitions().map(|(index, partition)| {
        let online = is_online(index);
        let mut shown = message!(MetadataResponsePartition {
            partition_index: index,
            leader_id: nodes.leader(partition, online),
            replica_nodes: partition.replicas.clone(),
            isr_nodes: partition.isr.clone(),
        });
        if version < REACHABLE_VERSION_MIN {
            // Clients of this version do not expect replicas that are not among the brokers.
            shown.replica_nodes.retain(|id| nodes.is_reachable(*id));
            shown.isr_nodes.retain(|id| nodes.is_reachable(*id));
        }
        let count = |listed: &MetadataResponsePartition| (listed.replica_nodes.len(), listed.isr_nodes.len());
        if shown.leader_id < 0 {
            let is_unheard = version >= LISTENER_VERSION_MIN && nodes.lacks_listener(partition.leader);
            let error = if is_unheard { ErrorCode::ListenerNotFound } else { ErrorCode::LeaderNotAvailable };
            shown.error_code = error.code();
        } else if count(&shown) != (partition.replicas.len(), partition.isr.len()) {
            shown.error_code = ErrorCode::ReplicaNotAvailable.code();
        }
        if version >= EPOCH_VERSION_MIN {
            shown.leader_epoch = partition.leader_epoch;
        }
        if version >= OFFLINE_VERSION_MIN {
            shown.offline_replicas = nodes.offline(partition, online);
        }
        shown
    });
    message!(MetadataResponseTopic {
        name: Some((&**topic.name()).into()),
        topic_id: if version >= ID_VERSION_MIN { topic.id() } else { Uuid::ZERO },
        is_internal: version >= 1 && is_internal(topic.name()),
        partitions: partitions.collect(),
    })
}
