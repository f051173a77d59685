//! Creation of internal topics of streams applications: names of topics that are being created, and
//! reasons of failures, which are sent to the members of a group.

use std::collections::{BTreeSet, HashMap, HashSet};

use levada_process::clock::steady_ms;
use parking_lot::Mutex;

/// Maximum number of topic names whose creation is in progress. Heartbeats request the creation of
/// further ones again.
const CREATING_MAX: usize = 10_000;

/// Maximum number of failures that are kept, as in Kafka; the ones that expire first are dropped.
const FAILURES_MAX: usize = 1_000;

/// Names of topics that are being created, and failures.
#[derive(Debug, Default)]
pub(crate) struct StreamsTopics {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    creating: HashSet<String>,
    failures: HashMap<String, Failed>,
    /// Names by the time at which their failure expires.
    by_time: BTreeSet<(i64, String)>,
}

#[derive(Debug)]
struct Failed {
    reason: String,
    until_ms: i64,
}

impl StreamsTopics {
    /// The topics whose creation may begin: it is not in progress, and has not failed recently. It
    /// counts as in progress from now on.
    pub(crate) fn begin<T>(&self, topics: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.forget(steady_ms());
        let may_begin = |topic: &T| {
            let name = name(topic);
            !state.failures.contains_key(name)
                && state.creating.len() < CREATING_MAX
                && state.creating.insert(name.to_owned())
        };
        topics.into_iter().filter(may_begin).collect()
    }

    /// Records the end of the creation of these topics; reasons of failures are kept for some time.
    pub(crate) fn end(&self, names: &[String], failures: Vec<(String, String)>, kept_ms: i64) {
        let mut state = self.state.lock();
        for name in names {
            state.creating.remove(name);
        }
        let until_ms = steady_ms().saturating_add(kept_ms);
        for (name, reason) in failures {
            state.keep(name, Failed { reason, until_ms });
        }
    }

    /// The topics among these whose creation has failed lately, and the reasons.
    pub(crate) fn failures<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, String)> {
        let mut state = self.state.lock();
        state.forget(steady_ms());
        names.filter_map(|name| Some((name, state.failures.get(name)?.reason.clone()))).collect()
    }
}

impl State {
    fn keep(&mut self, name: String, failed: Failed) {
        self.by_time.insert((failed.until_ms, name.clone()));
        if let Some(before) = self.failures.insert(name.clone(), failed)
            && self.failures.get(&name).is_none_or(|now| now.until_ms != before.until_ms)
        {
            self.by_time.remove(&(before.until_ms, name));
        }
        if self.failures.len() > FAILURES_MAX
            && let Some((_, name)) = self.by_time.pop_first()
        {
            self.failures.remove(&name);
        }
    }

    /// Drops failures whose time has passed.
    fn forget(&mut self, now_ms: i64) {
        while self.by_time.first().is_some_and(|(until_ms, _)| *until_ms <= now_ms)
            && let Some((_, name)) = self.by_time.pop_first()
        {
            self.failures.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
