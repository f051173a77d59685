//! The order of jobs: a state machine without processes and without a clock.

use super::Company;

/// Share of the processors' time that is left for another job.
const IDLE_MIN: f64 = 0.3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Passed,
    Failed,
    /// A job that it needs has failed.
    Skipped,
}

struct Entry {
    name: String,
    needs: &'static [&'static str],
    company: Company,
    state: State,
}

/// Jobs by their index, in the order in which they were added; earlier ones start first.
pub(super) struct Queue {
    entries: Vec<Entry>,
    /// Maximum number of jobs that share the machine.
    beside: usize,
    /// Number of additional jobs, because the others leave the processors idle.
    guests: usize,
}

impl Queue {
    pub(super) fn new(beside: usize) -> Self {
        assert!(beside > 0, "a queue in which nothing can start");
        Self { entries: Vec::new(), beside, guests: 0 }
    }

    /// Takes note of the processors' idle share since the last call. If it is large although all
    /// places are taken, the jobs wait for something else than processors: one more may start, up
    /// to three times as many in all. If it is small, a job starts only on a free regular place.
    pub(super) fn observe_idle(&mut self, share: f64) {
        let running = self.in_state(State::Running).filter(|one| one.company == Company::Shared).count();
        if share < IDLE_MIN {
            self.guests = 0;
        } else if running >= self.beside + self.guests {
            self.guests = (self.guests + 1).min(2 * self.beside);
        }
    }

    pub(super) fn add(&mut self, name: &str, needs: &'static [&'static str], company: Company) -> usize {
        self.entries.push(Entry { name: name.to_owned(), needs, company, state: State::Waiting });
        self.entries.len() - 1
    }

    /// The next job that may start now; it counts as running from then on.
    pub(super) fn start_next(&mut self) -> Option<usize> {
        self.skip();
        let next = (0..self.entries.len()).find(|index| self.may_start(&self.entries[*index]))?;
        self.entries[next].state = State::Running;
        Some(next)
    }

    /// Takes note of the end of a running job.
    pub(super) fn finish(&mut self, index: usize, good: bool) {
        let entry = &mut self.entries[index];
        assert_eq!(entry.state, State::Running, "{} ends without having run", entry.name);
        entry.state = if good { State::Passed } else { State::Failed };
        self.skip();
    }

    /// Names of the jobs that were not run because of a job that failed.
    pub(super) fn skipped(&self) -> Vec<&str> {
        self.in_state(State::Skipped).map(|entry| entry.name.as_str()).collect()
    }

    /// Number of jobs, and how many of them have ended or will never start.
    pub(super) fn progress(&self) -> (usize, usize) {
        let open = self.in_state(State::Waiting).chain(self.in_state(State::Running)).count();
        (self.entries.len(), self.entries.len() - open)
    }

    fn in_state(&self, state: State) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.state == state)
    }

    fn state_of(&self, name: &str) -> State {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.unwrap_or_else(|| panic!("a job needs `{name}`, which is not in the list")).state
    }

    fn may_start(&self, entry: &Entry) -> bool {
        let running = |company| self.in_state(State::Running).filter(|one| one.company == company).count();
        let has_room = match entry.company {
            _ if running(Company::Alone) > 0 => false,
            Company::Build => running(Company::Build) == 0,
            Company::Shared => running(Company::Shared) < self.beside + self.guests,
            Company::Alone => {
                let others = self.in_state(State::Waiting).filter(|one| one.company != Company::Alone);
                others.chain(self.in_state(State::Running)).next().is_none()
            }
        };
        let is_ready = || entry.needs.iter().all(|need| self.state_of(need) == State::Passed);
        entry.state == State::Waiting && has_room && is_ready()
    }

    /// Skips the jobs whose dependencies have failed, and those that depend on them.
    fn skip(&mut self) {
        let hopeless = |queue: &Self, entry: &Entry| {
            let failed = |need: &&str| matches!(queue.state_of(need), State::Failed | State::Skipped);
            entry.state == State::Waiting && entry.needs.iter().any(failed)
        };
        while let Some(index) = (0..self.entries.len()).find(|index| hopeless(self, &self.entries[*index])) {
            self.entries[index].state = State::Skipped;
        }
    }
}

#[cfg(test)]
mod tests;
