//! Shared parts of the descriptions of consumer groups, share groups and streams groups.

use std::collections::{BTreeSet, HashSet};

use levada_coordination::group::{Coordinator, GroupError};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code, sentence};
use levada_wire::messages::StrBytes;

use crate::api::group_order::in_kafkas_order;
use crate::api::{Context, text};

/// Kafka's text for a group with topics that the client may not describe.
const UNSEEN_TOPICS: &str = "The group has described topic(s) that the client is not authorized to describe.";

/// A reason against a description: error code and message.
pub(super) type Refusal = (i16, Option<StrBytes>);

/// Describes the groups of a request, each once; where their kind is not served, refuses all.
pub(super) fn describe_each<T>(
    context: &Context,
    (groups, are_served): (Vec<StrBytes>, bool),
    describe: impl Fn(&str) -> Result<T, Refusal>,
    refused: impl Fn(StrBytes, Refusal) -> T,
) -> Vec<T> {
    if !are_served {
        return groups.into_iter().map(|id| refused(id, refusal(ErrorCode::UnsupportedVersion))).collect();
    }
    let described = |(id, permitted): (StrBytes, Result<(), Refusal>)| {
        permitted.and_then(|()| describe(id.as_str())).unwrap_or_else(|refusal| refused(id, refusal))
    };
    in_order(context, groups).map(described).collect()
}

/// The groups in the order of the response, each once: first those that the client may not
/// describe.
fn in_order(
    context: &Context,
    groups: Vec<StrBytes>,
) -> impl Iterator<Item = (StrBytes, Result<(), Refusal>)> {
    let may = |id: &StrBytes| context.may(Operation::Describe, ResourceType::Group, id.as_str());
    let mut named = HashSet::new();
    let named = groups.into_iter().filter(|id| named.insert(id.clone()));
    let (permitted, forbidden): (Vec<_>, Vec<_>) = named.partition(may);
    // Kafka answers for the nameless one before it sorts the others.
    let (nameless, named): (Vec<_>, Vec<_>) = permitted.into_iter().partition(|id| id.as_str().is_empty());
    let permitted = nameless.into_iter().chain(in_kafkas_order(context, named));
    let refused = || Err(refusal(ErrorCode::GroupAuthorizationFailed));
    forbidden.into_iter().map(move |id| (id, refused())).chain(permitted.map(|id| (id, Ok(()))))
}

/// Describes a group of this kind ("share group").
///
/// # Errors
/// This coordinator does not have the group.
pub(super) fn find<T>(
    context: &Context,
    (group_id, kind): (&str, &str),
    describe: impl FnOnce(&Coordinator) -> Result<T, GroupError>,
) -> Result<T, Refusal> {
    if group_id.is_empty() {
        return Err(refusal(ErrorCode::InvalidGroupId));
    }
    let groups = context.broker().coordinators().groups();
    let found = groups.view(group_id, |coordinator| (describe(coordinator), coordinator.knows(group_id)));
    let (described, is_known) = found.ok_or_else(|| refusal(ErrorCode::NotCoordinator))?;
    described.map_err(|error| {
        let message = (error == GroupError::GroupIdNotFound).then(|| {
            let what = if is_known { format!("is not a {kind}") } else { "not found".to_owned() };
            text(sentence(format!("Group {group_id} {what}.")))
        });
        (error_code(Some(error)), message)
    })
}

/// # Errors
/// The client may not describe one of the topics, so it does not see the group.
pub(super) fn check_topics<'a>(
    context: &Context,
    topics: impl Iterator<Item = &'a str>,
) -> Result<(), Refusal> {
    let topics: BTreeSet<&str> = topics.collect();
    if topics.iter().all(|topic| context.might(Operation::Describe, ResourceType::Topic, topic)) {
        Ok(())
    } else {
        Err((ErrorCode::TopicAuthorizationFailed.code(), Some(text(UNSEEN_TOPICS))))
    }
}

/// A refusal without a message.
fn refusal(error: ErrorCode) -> Refusal {
    (error.code(), None)
}
