//! Orders of jobs, played through without a process.

use super::Queue;
use crate::job::Company::{self, Alone, Build, Shared};

fn queue(beside: usize, jobs: &[(&str, &'static [&'static str], Company)]) -> Queue {
    let mut queue = Queue::new(beside);
    for (name, needs, company) in jobs {
        queue.add(name, needs, *company);
    }
    queue
}

fn started(queue: &mut Queue) -> Vec<usize> {
    std::iter::from_fn(|| queue.start_next()).collect()
}

#[test]
fn one_build_runs_beside_some_others() {
    let jobs: [(&str, &[&str], _); 6] = [
        ("first build", &[], Build),
        ("second build", &[], Build),
        ("a", &[], Shared),
        ("b", &[], Shared),
        ("c", &[], Shared),
        ("d", &["first build"], Shared),
    ];
    let mut queue = queue(2, &jobs);
    assert_eq!(started(&mut queue), [0, 2, 3]);
    queue.finish(0, true);
    assert_eq!(started(&mut queue), [1]);
    queue.finish(2, true);
    queue.finish(3, true);
    assert_eq!(started(&mut queue), [4, 5]);
}

#[test]
fn exclusive_jobs_run_last_and_one_by_one() {
    let jobs: [(&str, &[&str], _); 4] =
        [("quiet", &[], Alone), ("still", &[], Alone), ("build", &[], Build), ("a", &["build"], Shared)];
    let mut queue = queue(4, &jobs);
    assert_eq!(started(&mut queue), [2]);
    queue.finish(2, true);
    assert_eq!(started(&mut queue), [3]);
    queue.finish(3, false);
    assert_eq!(started(&mut queue), [0]);
    queue.finish(0, true);
    assert_eq!(started(&mut queue), [1]);
    assert_eq!(queue.progress(), (4, 3));
}

#[test]
fn discovered_jobs_run_before_exclusive_ones() {
    let mut queue = queue(1, &[("build", &[], Build), ("quiet", &[], Alone)]);
    assert_eq!(started(&mut queue), [0]);
    let found = queue.add("found", &["build"], Shared);
    queue.finish(0, true);
    assert_eq!(started(&mut queue), [found]);
    queue.finish(found, true);
    assert_eq!(started(&mut queue), [1]);
}

#[test]
fn failed_job_skips_only_its_dependents() {
    let jobs: [(&str, &[&str], _); 4] = [
        ("build", &[], Build),
        ("suite", &["build"], Shared),
        ("last", &["suite"], Alone),
        ("other", &[], Alone),
    ];
    let mut queue = queue(1, &jobs);
    assert_eq!(started(&mut queue), [0]);
    queue.finish(0, false);
    assert_eq!(queue.skipped(), ["suite", "last"]);
    assert_eq!(started(&mut queue), [3]);
    queue.finish(3, true);
    assert_eq!(started(&mut queue), [] as [usize; 0]);
    assert_eq!(queue.progress(), (4, 4));
}

#[test]
#[should_panic(expected = "needs `nobody`")]
fn unknown_job_dependency_is_refused() {
    started(&mut queue(1, &[("suite", &["nobody"], Shared)]));
}

#[test]
fn idle_processors_start_another_job() {
    let names: Vec<String> = (0..9).map(|number| format!("job {number}")).collect();
    let jobs: Vec<(&str, &'static [&'static str], Company)> =
        names.iter().map(|name| (name.as_str(), &[] as &[&str], Shared)).collect();
    let mut queue = queue(2, &jobs);
    assert_eq!(started(&mut queue), [0, 1]);
    queue.observe_idle(0.1);
    assert_eq!(started(&mut queue), [] as [usize; 0]);
    queue.observe_idle(0.5);
    assert_eq!(started(&mut queue), [2]);
    for next in [3, 4, 5] {
        queue.observe_idle(0.9);
        assert_eq!(started(&mut queue), [next]);
    }
    queue.observe_idle(0.9);
    assert_eq!(started(&mut queue), [] as [usize; 0], "three times as many are the most");
    queue.observe_idle(0.0);
    (0..4).for_each(|index| queue.finish(index, true));
    assert_eq!(started(&mut queue), [] as [usize; 0], "two of the six still run");
    queue.finish(4, true);
    assert_eq!(started(&mut queue), [6]);
}

#[test]
fn free_places_are_used_before_idle_processors() {
    let mut queue = queue(2, &[("first", &[], Shared)]);
    assert_eq!(started(&mut queue), [0]);
    queue.observe_idle(1.0);
    ["a", "b"].into_iter().for_each(|name| {
        queue.add(name, &[], Shared);
    });
    assert_eq!(started(&mut queue), [1]);
}
