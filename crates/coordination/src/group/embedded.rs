//! Contents of the opaque fields of the classic protocol: subscriptions and assignments.

use bytes::{Bytes, BytesMut};
use levada_wire::messages::{
    ConsumerProtocolAssignment, consumer_protocol_assignment, decode_consumer_protocol_assignment,
    decode_consumer_protocol_subscription, encode_consumer_protocol_assignment,
};
use levada_wire::primitives::{ApiVersion, DecodeLimits, StrBytes};

use super::error::GroupError;
use super::records::Partitions;
use super::topics::Topics;

/// A classic group whose members send subscriptions or partitions that cannot be read.
pub(super) const MALFORMED: GroupError = GroupError::NoUpgrade("the embedded consumer protocol is malformed");

/// The latest version of an assignment.
const VERSION_MAX: i16 = 3;

/// Subscription of a member.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Subscribed topics.
    pub(super) topics: Vec<String>,
    /// Owned partitions, if its assignor keeps them during a rejoin.
    owned: Vec<(String, Vec<i32>)>,
    /// Rack of the member.
    pub(super) rack_id: Option<String>,
}

impl Subscription {
    /// Owned partitions of existing topics.
    pub(super) fn owned_ids(&self, topics: &dyn Topics) -> Partitions {
        by_id(self.owned.iter().map(|(topic, partitions)| (topic.as_str(), &partitions[..])), topics)
    }
}

/// Reads a subscription; none if it is not one.
pub(super) fn subscription(metadata: &Bytes) -> Option<Subscription> {
    let decoded = decode_consumer_protocol_subscription(metadata.clone(), DecodeLimits::default());
    let (_, read) = decoded.ok()?;
    let owned = read.owned_partitions.into_iter();
    Some(Subscription {
        topics: read.topics.into_iter().map(StrBytes::into_string).collect(),
        owned: owned.map(|topic| (topic.topic.into_string(), topic.partitions)).collect(),
        rack_id: read.rack_id.map(StrBytes::into_string).filter(|rack| !rack.is_empty()),
    })
}

/// Reads an assignment, of topics that exist, for a consumer group; an empty field assigns nothing.
///
/// # Errors
/// If it is not an assignment, or carries data of the assignor's own: a consumer group has no place
/// for them.
pub(super) fn assigned(assignment: &Bytes, topics: &dyn Topics) -> Result<Partitions, GroupError> {
    if assignment.is_empty() {
        return Ok(Partitions::new());
    }
    let decoded = decode_consumer_protocol_assignment(assignment.clone(), DecodeLimits::default());
    let (_, read) = decoded.map_err(|_| MALFORMED)?;
    if read.user_data.is_some_and(|data| !data.is_empty()) {
        return Err(GroupError::NoUpgrade(
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default \
             assignor before re-attempting the upgrade",
        ));
    }
    let assigned = read.assigned_partitions.iter();
    Ok(by_id(assigned.map(|topic| (topic.topic.as_str(), &topic.partitions[..])), topics))
}

/// Writes an assignment in the version of the member's subscription.
pub(super) fn assignment(assigned: &Partitions, topics: &dyn Topics, metadata: &Bytes) -> Bytes {
    let version = metadata.get(..2).map_or(0, |version| i16::from_be_bytes([version[0], version[1]]));
    let mut message = ConsumerProtocolAssignment::default();
    for (id, partitions) in assigned {
        if let Some((name, _)) = topics.by_id(*id) {
            let mut topic = consumer_protocol_assignment::TopicPartition::default();
            topic.topic = StrBytes::from(name);
            topic.partitions = partitions.iter().copied().collect();
            message.assigned_partitions.push(topic);
        }
    }
    let mut bytes = BytesMut::new();
    let version = version.clamp(0, VERSION_MAX);
    // Names and numbers of partitions that exist always fit.
    match encode_consumer_protocol_assignment(&mut bytes, &message, ApiVersion::new(version)) {
        Ok(_) => bytes.freeze(),
        Err(_) => Bytes::new(),
    }
}

fn by_id<'a>(named: impl Iterator<Item = (&'a str, &'a [i32])>, topics: &dyn Topics) -> Partitions {
    let known = named.filter_map(|(name, partitions)| Some((topics.by_name(name)?.0, partitions)));
    known.map(|(id, partitions)| (id, partitions.iter().copied().collect())).collect()
}
