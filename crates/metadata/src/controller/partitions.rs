//! Placing partitions on brokers, and adding partitions to a topic.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use levada_wire::primitives::Uuid;

use super::topics::duplicates;
use super::{Decision, Permit, Reason, Refusal, check_quota};
use crate::image::{Image, PartitionRegistration};
use crate::records::Record;

/// More partitions for a topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MorePartitions {
    /// Name of the topic.
    pub topic: String,
    /// New total number of partitions.
    pub count: i32,
    /// Replicas of the new partitions, in order; `None` lets the controller choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Adds partitions to topics, each completely or not at all; outcomes are in the order of `topics`,
/// without repeated topics. For "validate only", drop the records.
pub fn create_partitions(
    image: &Image,
    topics: &[MorePartitions],
    permit: Permit<'_>,
) -> Decision<Vec<(String, Result<(), Refusal>)>> {
    let repeated = duplicates(topics.iter().map(|topic| &*topic.topic));
    let additional = topics.iter().map(|topic| {
        let present = image.topic(&topic.topic).map_or(0, |topic| topic.partition_count());
        usize::try_from(topic.count).unwrap_or(0).saturating_sub(present)
    });
    let too_many = check_total(additional);
    let mut decision = Decision::nothing(Vec::new());
    let mut seen = HashSet::new();
    for topic in topics.iter().filter(|topic| seen.insert(&*topic.topic)) {
        let outcome = if repeated.contains(&*topic.topic) {
            Err(Refusal::new(Reason::InvalidRequest, "Duplicate topic name."))
        } else if let Err(refusal) = &too_many {
            Err(refusal.clone())
        } else {
            add_partitions(image, topic, permit).map(|records| decision.records.extend(records))
        };
        decision.outcome.push((topic.topic.clone(), outcome));
    }
    decision
}

fn add_partitions(
    image: &Image,
    request: &MorePartitions,
    permit: Permit<'_>,
) -> Result<Vec<Record>, Refusal> {
    let MorePartitions { topic: name, count, assignments } = request;
    let topic = image.topic(name).ok_or(Refusal { reason: Reason::UnknownTopic, message: None })?;
    let present = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX);
    if *count == present {
        let message = format!("Topic already has {present} partition(s).");
        return Err(Refusal::new(Reason::InvalidPartitions, message));
    }
    if *count < present {
        let message = format!(
            "The topic {name} currently has {present} partition(s); {count} would not be an increase."
        );
        return Err(Refusal::new(Reason::InvalidPartitions, message));
    }
    let additional = count - present;
    if let Some(assignments) = assignments
        && i32::try_from(assignments.len()) != Ok(additional)
    {
        let message = format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were \
             specified.",
            assignments.len()
        );
        return Err(Refusal::new(Reason::InvalidReplicaAssignment, message));
    }
    check_quota(permit, usize::try_from(additional).unwrap_or(0))?;
    let Some((_, first)) = topic.partitions().next() else {
        let message = format!("Invalid state: topic {name} appears to have no partitions.");
        return Err(Refusal::new(Reason::ServerError, message));
    };
    let factor = first.replicas.len();
    let placements = match assignments {
        Some(assignments) => (present..)
            .zip(assignments)
            .map(|(index, replicas)| place_manually(image, index, replicas, Some(factor)))
            .collect::<Result<Vec<_>, _>>()?,
        None => place(image, present..*count, i32::try_from(factor).unwrap_or(i32::MAX))
            .map_err(|problem| Refusal::new(Reason::InvalidReplicationFactor, problem.to_string()))?,
    };
    let records = (present..).zip(placements);
    Ok(records.map(|(index, placement)| placement.into_record(image, topic.id(), index)).collect())
}

/// Maximum number of partitions in one request.
const MAX_PARTITIONS_PER_REQUEST: usize = 10_000;

/// Refuses a request for a number of partitions that would not fit into one change.
pub(super) fn check_total(partitions: impl Iterator<Item = usize>) -> Result<(), Refusal> {
    if partitions.fold(0, usize::saturating_add) <= MAX_PARTITIONS_PER_REQUEST {
        return Ok(());
    }
    Err(Refusal::new(Reason::PolicyViolation, "Excessively large number of partitions per request."))
}

/// The brokers of the replicas of a new partition, and the replicas that are in sync from the
/// start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placement {
    replicas: Vec<i32>,
    isr: Vec<i32>,
}

impl Placement {
    pub(super) fn replication_factor(&self) -> i16 {
        i16::try_from(self.replicas.len()).unwrap_or(i16::MAX)
    }

    pub(super) fn into_record(self, image: &Image, topic_id: Uuid, partition_id: i32) -> Record {
        let partition = PartitionRegistration {
            leader: self.isr[0],
            directories: self.replicas.iter().map(|id| image.brokers().directory(*id)).collect(),
            replicas: self.replicas,
            isr: self.isr,
            ..PartitionRegistration::default()
        };
        partition.to_record(topic_id, partition_id).into()
    }
}

/// The reason why replicas cannot be placed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlacementError {
    NotPositive { factor: i32 },
    AllFenced,
    TooFewBrokers { factor: i32, brokers: usize },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPositive { factor } => {
                write!(
                    formatter,
                    "Invalid replication factor {factor}: the replication factor must be positive."
                )
            }
            Self::AllFenced => formatter
                .write_str("All brokers are currently fenced, or have all their log directories cordoned."),
            Self::TooFewBrokers { factor, brokers } => write!(
                formatter,
                "The target replication factor of {factor} cannot be reached because only {brokers} \
                 broker(s) are registered or some brokers have all their log directories cordoned."
            ),
        }
    }
}

/// Places partitions on the active brokers in turn.
pub(super) fn place(
    image: &Image,
    partitions: Range<i32>,
    factor: i32,
) -> Result<Vec<Placement>, PlacementError> {
    let brokers = image.brokers();
    let mut active: Vec<i32> =
        brokers.iter().map(|broker| broker.broker_id).filter(|id| brokers.is_active(*id)).collect();
    let wanted = usize::try_from(factor).ok().filter(|wanted| *wanted > 0);
    let wanted = wanted.ok_or(PlacementError::NotPositive { factor })?;
    if active.is_empty() {
        return Err(PlacementError::AllFenced);
    }
    if wanted > brokers.len() {
        return Err(PlacementError::TooFewBrokers { factor, brokers: brokers.len() });
    }
    let actives = active.len();
    active.extend(brokers.iter().map(|broker| broker.broker_id).filter(|id| !brokers.is_active(*id)));
    let placements = partitions.map(|index| {
        // Active brokers take turns; the others only fill the remaining places.
        let turn = usize::try_from(index).unwrap_or(0) % actives;
        let ring = (0..actives).map(|step| active[(turn + step) % actives]);
        let replicas: Vec<i32> = ring.chain(active[actives..].iter().copied()).take(wanted).collect();
        let isr = replicas.iter().copied().filter(|id| brokers.is_active(*id)).collect();
        Placement { replicas, isr }
    });
    Ok(placements.collect())
}

/// Takes the replicas that the request gives. `factor` is how many other partitions have.
/// Checks that a partition can be where these replicas are.
pub fn check_replicas(image: &Image, index: i32, replicas: &[i32]) -> Result<(), Refusal> {
    place_manually(image, index, replicas, None).map(drop)
}

pub(super) fn place_manually(
    image: &Image,
    index: i32,
    replicas: &[i32],
    factor: Option<usize>,
) -> Result<Placement, Refusal> {
    let refuse = |message: String| Err(Refusal::new(Reason::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    for (position, id) in sorted.iter().enumerate() {
        if image.brokers().broker(*id).is_none() {
            return refuse(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ));
        }
        if position > 0 && sorted[position - 1] == *id {
            return refuse(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
    }
    if let Some(factor) = factor.filter(|factor| *factor != replicas.len()) {
        return refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not \
             consistent with previous partitions, which have {factor} replica(s).",
            replicas.len()
        ));
    }
    let isr: Vec<i32> = replicas.iter().copied().filter(|id| image.brokers().is_active(*id)).collect();
    if isr.is_empty() {
        return refuse(format!(
            "All brokers specified in the manual partition assignment for partition {index} are fenced or in \
             controlled shutdown."
        ));
    }
    Ok(Placement { replicas: replicas.to_vec(), isr })
}
