//! Elections of leaders on request of an operator.

use std::collections::BTreeMap;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ElectLeadersRequest;
use levada_wire::messages::elect_leaders_request::TopicPartitions;

use super::Move;
use crate::kafka_error;
use crate::layout::Layout;

/// Time for the controller, in ms.
const TIMEOUT_MS: i32 = 60_000;

/// Replica that becomes the leader, numbered as in ElectLeaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// The first replica, if it is in sync.
    Preferred = 0,
    /// Any replica, of a partition without a leader. Records can be lost.
    Unclean = 1,
}

/// Results by partition; `Ok(false)` if no election was needed.
pub(crate) type Elected = BTreeMap<TopicPartition, Result<bool, Failure>>;

/// Elects leaders of these partitions.
pub(crate) fn elect(
    cluster: &mut Cluster,
    election: Election,
    places: &[TopicPartition],
) -> Result<Elected, Failure> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in places {
        topics.entry(topic).or_default().push(*partition);
    }
    let topic = |(name, partitions): (&str, Vec<i32>)| {
        let mut topic = TopicPartitions::default();
        (topic.topic, topic.partitions) = (StrBytes::from(name), partitions);
        topic
    };
    let mut request = ElectLeadersRequest::default();
    (request.election_type, request.timeout_ms) = (election as i8, TIMEOUT_MS);
    request.topic_partitions = Some(topics.into_iter().map(topic).collect());
    let response = cluster.ask_controller(&request, |response| response.error_code)?;
    let checked = kafka_error::check(response.error_code, "elect leaders", None);
    kafka_error::needing(checked, "alter", "--cluster")?;
    let mut elected = Elected::new();
    for topic in &response.replica_election_results {
        for one in &topic.partition_result {
            let place = (topic.topic.as_str().to_owned(), one.partition_id);
            let doing = format!("elect a leader of {}/{}", place.0, place.1);
            let result = match ErrorCode::of_code(one.error_code) {
                Some(ErrorCode::ElectionNotNeeded) => Ok(false),
                _ => {
                    let checked = kafka_error::check(one.error_code, &doing, one.error_message.as_deref());
                    kafka_error::needing(checked, "alter", "--cluster").map(|()| true)
                }
            };
            elected.insert(place, result);
        }
    }
    Ok(elected)
}

/// Makes the first replicas of moved partitions leaders, and prints a note about each that cannot
/// lead.
pub(super) fn prefer(cluster: &mut Cluster, moves: &[Move]) -> Result<(), Failure> {
    let layout = Layout::ask(cluster)?;
    let is_led_by_another = |place: &TopicPartition| {
        layout.partitions.get(place).is_some_and(|one| one.leader != one.replicas.first().copied())
    };
    let places: Vec<TopicPartition> = moves.iter().map(Move::place).filter(is_led_by_another).collect();
    if places.is_empty() {
        return Ok(());
    }
    for failure in elect(cluster, Election::Preferred, &places)?.into_values().filter_map(Result::err) {
        tell!("note: {}", failure.line());
    }
    Ok(())
}
