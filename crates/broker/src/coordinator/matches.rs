//! Comparisons of the expressions of groups with the names of topics, for group coordinators: on
//! threads that may block, in turns of the members for whom the expressions are matched.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use levada_coordination::group::coordinator::{MatchWork, Matched};
use levada_coordination::group::{Coordinator, Event};
use levada_coordination::pattern::Comparison;
use levada_process::tasks::finished;
use levada_process::turns::Turns;

use crate::coordinator::{Coordinators, Job};

impl Coordinators {
    /// Does the comparisons of all group coordinators until the broker stops.
    pub(crate) async fn run_matches(self: Arc<Self>, turns: Turns) {
        let Some(mut jobs) = self.groups.take_jobs() else { return };
        while let Some(job) = jobs.recv().await {
            tokio::task::spawn_local(work(job, turns.clone()));
        }
    }
}

/// Does a job. A job that panics has compared nothing: the coordinator requests it again.
async fn work(job: Job<Coordinator>, turns: Turns) {
    let job = Rc::new(job);
    let own = job.clone();
    let compared = finished("matches of a group's expressions", async move {
        compare(own.work(), own.is_over(), &turns).await
    });
    let found = match compared.await {
        Ok(Some(found)) => found,
        // The thread ends.
        Ok(None) => return,
        Err(_) => BTreeMap::new(),
    };
    let MatchWork { group_id, topics, .. } = job.work().clone();
    job.done(Event::Matched(Matched { group_id, topics, found }));
}

/// The topics that each expression matches. Ends early when the result is no longer needed.
async fn compare(
    work: &MatchWork,
    is_over: impl Fn() -> bool,
    turns: &Turns,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut comparison = Comparison::of(work.patterns.clone());
    while !is_over() {
        let (topics, visible) = (work.topics.clone(), work.visible.clone());
        let piece = move || {
            // Not kept between the pieces: there may be as many comparisons as groups.
            let names = topics.names();
            (comparison.go_on(&names, |name| visible.has(name)), comparison)
        };
        let (is_more, so_far) = turns.run(work.visible.requester().clone(), piece).await;
        comparison = so_far;
        if !is_more {
            break;
        }
    }
    comparison.found()
}
