//! Subscriptions by regular expression, and the topics that they match. The syntax is RE2's, as far
//! as the `regex` crate supports it; an expression must match the whole name.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{ConsumerGroup, Draft, Member};
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, RegexValue};
use crate::group::topics::{Topics, Visible};
use crate::pattern;

/// Compiles an expression that must match whole names. The API has done it before, on a thread that
/// may block.
pub(super) fn compile(pattern: &str) -> Result<Regex, GroupError> {
    pattern::whole(pattern).map_err(|_| GroupError::InvalidRegularExpression)
}

/// Cost of the matches of one step, in bytes of names: some 10 ms. The coordinator's thread serves
/// other clients in between. One expression at least is matched in a step.
const STEP_COST_MAX: usize = 1 << 19;
/// Cost of a match beside the bytes of the name.
const NAME_COST: usize = 16;
/// Cost of an expression that has to be compiled: milliseconds at worst.
const COMPILATION_COST: usize = STEP_COST_MAX / 4;

/// Expressions of a group that are matched again, a few at each heartbeat.
#[derive(Clone, Debug, Default)]
pub(super) struct Rematch {
    /// Expressions that have not been matched again.
    waiting: BTreeSet<String>,
    /// Matches that have changed. They take effect together.
    found: BTreeMap<String, BTreeSet<String>>,
}

impl Rematch {
    /// True if no expression waits.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Names of topics that expressions are compared with.
struct Names {
    names: Vec<String>,
    /// Cost of the comparison with one expression.
    cost: usize,
}

impl Names {
    fn of(topics: &dyn Topics, visible: &Visible) -> Self {
        let mut names = topics.names();
        names.retain(|name| visible.has(name));
        let cost = names.iter().map(|name| NAME_COST + name.len()).sum();
        Self { names, cost }
    }

    /// The first of these expressions, as many as one step matches.
    fn step(&self, patterns: impl Iterator<Item = String>) -> Vec<String> {
        let mut cost = 0_usize;
        let fits = |pattern: &String| {
            let is_first = cost == 0;
            let compilation = if pattern::is_cached(pattern) { 0 } else { COMPILATION_COST };
            cost += self.cost.max(1) + compilation;
            is_first || cost <= STEP_COST_MAX
        };
        patterns.take_while(fits).collect()
    }

    /// Names that an expression matches. An expression that an earlier version accepted and this
    /// one does not matches nothing.
    fn matching(&self, pattern: &str) -> BTreeSet<String> {
        let Ok(regex) = compile(pattern) else { return BTreeSet::new() };
        self.names.iter().filter(|name| regex.is_match(name)).cloned().collect()
    }
}

impl ConsumerGroup {
    /// The known expressions are to be matched again.
    pub(super) fn match_all_again(&mut self) {
        self.rematch = Rematch { waiting: self.regexes.keys().cloned().collect(), found: BTreeMap::new() };
    }

    /// True if the member selects topics by an expression that has not been matched yet.
    pub(super) fn awaits_matches(&self, member: &Member) -> bool {
        member.regex().is_some_and(|regex| !self.regexes.contains_key(regex))
    }

    /// The group with the matches of its new expressions, among the topics that the member who sent
    /// the expression may describe. None if there is no expression to match. Known expressions keep
    /// their matches, unlike in Kafka: the cost of a new expression does not grow with the group.
    /// If one step does not match all new expressions, the next heartbeats of their members match
    /// the others.
    pub(in crate::group) fn match_new(
        &self,
        topics: &dyn Topics,
        visible: &Visible,
        now_ms: i64,
    ) -> Option<Draft> {
        let waiting = self.members.values().filter(|member| self.awaits_matches(member));
        let new: BTreeSet<String> = waiting.filter_map(|member| Some(member.regex()?.to_owned())).collect();
        if new.is_empty() {
            return None;
        }
        let names = Names::of(topics, visible);
        let mut draft = Draft::of(self);
        let mut changed = false;
        for pattern in names.step(new.into_iter()) {
            let found = names.matching(&pattern);
            changed |= !found.is_empty();
            draft.write_matches(pattern, found, (topics.version(), now_ms));
        }
        draft.raise_epoch(changed, topics);
        Some(draft)
    }
}

impl Draft {
    /// Removes the expressions that no member uses. True if there were any.
    pub(super) fn forget_regexes(&mut self) -> bool {
        let used: BTreeSet<&str> = self.group.members.values().filter_map(Member::regex).collect();
        let unused = self.group.regexes.keys().filter(|regex| !used.contains(regex.as_str()));
        let unused: Vec<String> = unused.cloned().collect();
        let any = !unused.is_empty();
        for regex in unused {
            self.write(ConsumerRecord::Regex(regex, None));
        }
        any
    }

    /// Matches some of the waiting expressions again, with the topics that the present member may
    /// describe, as Kafka does. True if this step matched the last of them and any matches other
    /// topics than before; the new matches then take effect.
    pub(super) fn match_again(&mut self, topics: &dyn Topics, visible: &Visible, now_ms: i64) -> bool {
        if self.group.rematch.is_over() {
            return false;
        }
        let mut rematch = std::mem::take(&mut self.group.rematch);
        rematch.waiting.retain(|pattern| self.group.regexes.contains_key(pattern));
        let names = Names::of(topics, visible);
        for pattern in names.step(rematch.waiting.iter().cloned()) {
            rematch.waiting.remove(&pattern);
            let found = names.matching(&pattern);
            if self.group.regexes.get(&pattern).is_some_and(|before| before.topics != found) {
                rematch.found.insert(pattern, found);
            }
        }
        if !rematch.is_over() {
            self.group.rematch = rematch;
            return false;
        }
        let known = |(pattern, _): &(String, _)| self.group.regexes.contains_key(pattern);
        let found: Vec<_> = rematch.found.into_iter().filter(known).collect();
        let changed = !found.is_empty();
        for (pattern, found) in found {
            self.write_matches(pattern, found, (topics.version(), now_ms));
        }
        changed
    }

    fn write_matches(
        &mut self,
        pattern: String,
        topics: BTreeSet<String>,
        (version, timestamp_ms): (i64, i64),
    ) {
        let value = RegexValue { topics, version, timestamp_ms };
        self.write(ConsumerRecord::Regex(pattern, Some(value)));
    }
}
