//! Comparisons of the expressions of groups with the names of topics, for group coordinators: on
//! threads that may block, in a fair queue of the members for whom the expressions are matched.

use std::collections::{BTreeMap, BTreeSet};

use levada_coordination::group::coordinator::MatchWork;
use levada_coordination::pattern::Comparison;
use levada_process::turns::Turns;

/// The topics that each expression matches. Ends early when the result is no longer needed.
pub(crate) async fn compare_names(
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
