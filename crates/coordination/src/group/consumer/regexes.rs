//! Subscriptions by regular expression, and the topics that they match. The syntax is RE2's, as far
//! as the `regex` crate supports it; an expression must match the whole name. The coordinator's
//! host compares the expressions with the names, because that can take long.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConsumerGroup, Draft, Member};
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, RegexValue};
use crate::group::topics::Topics;
use crate::pattern;

/// Checks an expression. The API has compiled it before, on a thread that may block.
pub(super) fn check(pattern: &str) -> Result<(), GroupError> {
    pattern::whole(pattern).map(drop).map_err(|_| GroupError::InvalidRegularExpression)
}

impl ConsumerGroup {
    /// Marks the known expressions for another match.
    pub(super) fn match_all_again(&mut self) {
        self.rematch = self.regexes.keys().cloned().collect();
    }

    /// True if the member selects topics by an expression that has not been matched yet.
    pub(super) fn awaits_matches(&self, member: &Member) -> bool {
        member.regex().is_some_and(|regex| !self.regexes.contains_key(regex))
    }

    /// The expressions that are to be matched: those that are not known yet, and the known ones
    /// after a change of topics. Known expressions keep their matches until then, unlike in Kafka,
    /// so that the cost of a new expression does not grow with the group.
    pub(in crate::group) fn unmatched(&self) -> Vec<String> {
        let new = self.members.values().filter(|member| self.awaits_matches(member));
        let mut unmatched: BTreeSet<String> =
            new.filter_map(|member| Some(member.regex()?.to_owned())).collect();
        unmatched.extend(self.rematch.iter().cloned());
        unmatched.into_iter().collect()
    }

    /// The group with the topics that its expressions match; they take effect together.
    /// `is_current` is false if topics have changed since: then the known expressions are still to
    /// be matched.
    pub(in crate::group) fn matched(
        &self,
        found: BTreeMap<String, BTreeSet<String>>,
        (topics, is_current): (&dyn Topics, bool),
        now_ms: i64,
    ) -> Draft {
        let mut draft = Draft::of(self);
        let used: BTreeSet<&str> = self.members.values().filter_map(Member::regex).collect();
        let mut changed = false;
        for (pattern, matches) in found {
            let known = self.regexes.get(&pattern);
            if is_current {
                draft.group.rematch.remove(&pattern);
            }
            if known.is_some_and(|known| known.topics == matches) || !used.contains(&*pattern) {
                continue;
            }
            changed |= known.is_some() || !matches.is_empty();
            draft.write_matches(pattern, matches, (topics.version(), now_ms));
        }
        let is_over = is_current && draft.group.stale && draft.group.rematch.is_empty();
        if is_over || !draft.records.is_empty() {
            draft.raise_epoch(changed, topics);
        }
        draft
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
