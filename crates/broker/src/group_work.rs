//! Work of group coordinators outside their partition: comparisons of expressions, and changes of
//! the state of share groups, one after the other for each group.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use levada_coordination::group::coordinator::{
    GroupWork, MatchWork, Matched, RefusedPartitions, ShareStateChange, ShareStateEnd, ShareStateWork,
};
use levada_coordination::group::{Coordinator, Event};
use levada_coordination::share_state::request::{DeletePart, InitializePart};
use levada_process::tasks::finished;
use levada_wire::ErrorCode;

use crate::broker::Broker;
use crate::coordinator::{Job, compare_names};
use crate::share::states::{self, RemotePart};

/// Does the work of all group coordinators until the broker stops.
pub(crate) async fn run(broker: Arc<Broker>) {
    let Some(mut jobs) = broker.coordinators().groups().take_jobs() else { return };
    let queues = Rc::new(Queues::default());
    while let Some(job) = jobs.recv().await {
        let job = Rc::new(job);
        match job.work() {
            GroupWork::Match(_) => {
                tokio::task::spawn_local(match_names(broker.clone(), job));
            }
            GroupWork::ShareState(work) => {
                let group_id = work.group_id.clone();
                if queues.push(&group_id, job) {
                    tokio::task::spawn_local(change_states(broker.clone(), queues.clone(), group_id));
                }
            }
        }
    }
}

/// Changes of state that wait for an earlier one of their group. A group coordinator has few of
/// them in progress for each group.
#[derive(Default)]
struct Queues(RefCell<HashMap<String, VecDeque<Rc<Job<Coordinator>>>>>);

impl Queues {
    /// Adds a job. Returns true if no task does the jobs of the group.
    fn push(&self, group_id: &str, job: Rc<Job<Coordinator>>) -> bool {
        let mut queues = self.0.borrow_mut();
        let is_first = !queues.contains_key(group_id);
        queues.entry(group_id.to_owned()).or_default().push_back(job);
        is_first
    }

    /// The next job of a group; none ends the task that does them.
    fn next(&self, group_id: &str) -> Option<Rc<Job<Coordinator>>> {
        let mut queues = self.0.borrow_mut();
        let next = queues.get_mut(group_id).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(group_id);
        }
        next
    }
}

/// Compares the expressions of a group. A job that panics has compared nothing: the coordinator
/// requests it again.
async fn match_names(broker: Arc<Broker>, job: Rc<Job<Coordinator>>) {
    let GroupWork::Match(work) = job.work() else { return };
    let (own, matched) = (job.clone(), work.clone());
    let turns = broker.turns().comparisons.clone();
    let compared = finished("matches of a group's expressions", async move {
        compare_names(&matched, own.is_over(), &turns).await
    });
    let found = match compared.await {
        Ok(Some(found)) => found,
        // The thread ends.
        Ok(None) => return,
        Err(_) => BTreeMap::new(),
    };
    let MatchWork { group_id, topics, .. } = work.clone();
    job.done(Event::Matched(Matched { group_id, topics, found }));
}

/// Carries out the changes of the state of one group, in their order.
async fn change_states(broker: Arc<Broker>, queues: Rc<Queues>, group_id: String) {
    while let Some(job) = queues.next(&group_id) {
        let GroupWork::ShareState(work) = job.work() else { continue };
        let (broker, change) = (broker.clone(), work.clone());
        let changed = finished("work for a share group", async move { change_state(&broker, &change).await });
        let result = match changed.await {
            Ok(Some(refused)) => Ok(refused),
            // The thread ends.
            Ok(None) => return,
            Err(_) => Err(ErrorCode::UnknownServerError),
        };
        job.done(Event::ShareStateDone(ShareStateEnd { id: work.id, group_id: group_id.clone(), result }));
    }
}

async fn change_state(broker: &Arc<Broker>, work: &ShareStateWork) -> RefusedPartitions {
    match &work.change {
        ShareStateChange::Initialize { state_epoch, offsets } => {
            let places = offsets.iter().flat_map(|(topic_id, partitions)| {
                partitions.iter().map(move |(partition, start)| (*topic_id, *partition, *start))
            });
            let parts = places.map(|(topic_id, partition, start_offset)| InitializePart {
                topic_id,
                partition,
                state_epoch: *state_epoch,
                start_offset,
            });
            refused(broker, &work.group_id, parts.collect()).await
        }
        ShareStateChange::Delete { partitions } => {
            let places = partitions.iter().flat_map(|(topic_id, partitions)| {
                partitions.iter().map(move |partition| (*topic_id, *partition))
            });
            let parts = places.map(|(topic_id, partition)| DeletePart { topic_id, partition });
            refused(broker, &work.group_id, parts.collect()).await
        }
    }
}

/// The partitions whose change the share coordinators refuse.
async fn refused<P: RemotePart>(broker: &Arc<Broker>, group_id: &str, parts: Vec<P>) -> RefusedPartitions {
    let places: Vec<_> = parts.iter().map(P::place).collect();
    let results = states::request(broker, group_id, parts).await;
    let results = places.into_iter().zip(results);
    results.filter_map(|(place, result)| Some((place, result.err()?.into()))).collect()
}
