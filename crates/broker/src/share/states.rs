//! Requests to share coordinators, on this broker or on another: the group coordinator and the
//! leaders of shared partitions keep their state there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use levada_coordination::machine::partition_for;
use levada_coordination::share_state::request::{StatePart, StateRequest};
use levada_coordination::share_state::{ShareKey, ShareStateError};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::broker::Broker;
use crate::peers::{Peer, Subject};
use crate::replica::SHARE_STATES_TOPIC;

mod parts;

pub(crate) use parts::RemotePart;

/// Time after which a request is no longer repeated.
const PATIENCE: Duration = Duration::from_secs(15);

/// Pause before the first repetition; each further one is twice as long, up to the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Most parts of one request to a coordinator.
const REQUEST_PARTS_MAX: usize = 1_000;

/// The result of one part of a request.
type PartResult<P> = Result<<P as StatePart>::Answer, ShareStateError>;

/// Sends each part to the share coordinator of its key, on this broker or another, and again while
/// coordinators move or load, up to `PATIENCE`. A change may have been made although its result is
/// an error. Results are in the order of the parts.
pub(crate) async fn request<P: RemotePart>(
    broker: &Arc<Broker>,
    group_id: &str,
    parts: Vec<P>,
) -> Vec<PartResult<P>> {
    let deadline = Instant::now() + PATIENCE;
    let mut results: Vec<Option<PartResult<P>>> = parts.iter().map(|_| None).collect();
    let mut open: Vec<usize> = (0..parts.len()).collect();
    let mut pause = PAUSE;
    loop {
        for (at, result) in request_once(broker, group_id, (&parts, &open), deadline).await {
            results[at] = Some(result);
        }
        open.retain(|at| results[*at].as_ref().is_none_or(may_be_repeated));
        if open.is_empty() || Instant::now() + pause > deadline || broker.is_stopping() {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    let missing = || Err(ShareStateError::CoordinatorNotAvailable);
    results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
}

/// True if the coordinator is on another broker or not ready, so that another attempt may succeed.
fn may_be_repeated<T>(result: &Result<T, ShareStateError>) -> bool {
    matches!(
        result,
        Err(ShareStateError::CoordinatorLoadInProgress
            | ShareStateError::CoordinatorNotAvailable
            | ShareStateError::NotCoordinator)
    )
}

/// Sends the parts with these indexes once. A part without a coordinator has no result.
async fn request_once<P: RemotePart>(
    broker: &Arc<Broker>,
    group_id: &str,
    (parts, places): (&[P], &[usize]),
    deadline: Instant,
) -> Vec<(usize, PartResult<P>)> {
    if broker.controller().ensure_internal_topic(SHARE_STATES_TOPIC).await.is_err() {
        return Vec::new();
    }
    let mut requests = Vec::new();
    for ((index, node), places) in by_coordinator(broker, group_id, (parts, places)) {
        for places in places.chunks(REQUEST_PARTS_MAX) {
            let parts = places.iter().map(|at| parts[*at].clone()).collect();
            requests.push((places.to_vec(), send(broker, group_id, (index, node), parts)));
        }
    }
    let mut results = Vec::new();
    for (places, sent) in requests {
        let answers = match sent {
            Sent::Here(answer) => answer.await,
            // The broker may be stopping. A node that is slow may have many requests to answer.
            Sent::There(answer) => {
                timeout_at(deadline, answer).await.unwrap_or(Ok(Vec::new())).unwrap_or_default()
            }
        };
        results.extend(places.into_iter().zip(answers));
    }
    results
}

/// Indexes of the parts, by the coordinator's partition for their keys and its leader.
fn by_coordinator<P: RemotePart>(
    broker: &Broker,
    group_id: &str,
    (parts, places): (&[P], &[usize]),
) -> BTreeMap<(i32, i32), Vec<usize>> {
    let mut found: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let image = broker.metadata().image();
    let Some(topic) = image.topic(SHARE_STATES_TOPIC) else { return found };
    let count = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX);
    for at in places {
        let (topic_id, partition) = parts[*at].place();
        let key = ShareKey { group_id: group_id.into(), topic_id, partition }.to_string();
        let index = partition_for(&key, count);
        if let Some(partition) = topic.partition(index).filter(|partition| partition.has_leader()) {
            found.entry((index, partition.leader)).or_default().push(*at);
        }
    }
    found
}

/// A request that is being sent.
enum Sent<H, P: RemotePart> {
    Here(H),
    There(oneshot::Receiver<Vec<PartResult<P>>>),
}

fn send<P: RemotePart>(
    broker: &Broker,
    group_id: &str,
    (index, node): (i32, i32),
    parts: Vec<P>,
) -> Sent<impl Future<Output = Vec<PartResult<P>>> + use<P>, P> {
    if node == broker.node_id() {
        let request = StateRequest::new(group_id, parts);
        let states = broker.coordinators().share_states();
        return Sent::Here(states.submit_at(Some(index), request, ShareStateError::NotCoordinator));
    }
    let (sender, answer) = oneshot::channel();
    let group_id = group_id.to_owned();
    let call = move |peer: Option<Peer<'_>>| {
        if sender.is_closed() {
            return;
        }
        let response = peer.and_then(|peer| peer.ask(P::API, |_| P::request(&group_id, &parts)));
        // The request may have been given up meanwhile.
        let _ = sender.send(response.map_or_else(Vec::new, |response| parts::results(&parts, response)));
    };
    broker.peers().call(node, Subject::ShareStates, Box::new(call));
    Sent::There(answer)
}
