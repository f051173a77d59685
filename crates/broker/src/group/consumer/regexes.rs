//! Subscriptions by regular expression, and the topics that they match. The syntax is RE2's, as far
//! as the `regex` crate supports it; an expression must match the whole name.

use std::collections::BTreeSet;

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

impl ConsumerGroup {
    /// True if the member selects topics by an expression that has not been matched yet.
    pub(super) fn awaits_matches(&self, member: &Member) -> bool {
        member.regex().is_some_and(|regex| !self.regexes.contains_key(regex))
    }

    /// The group with the matches of its new expressions, among the topics that the member who sent
    /// the expression may describe. None if there is no expression to match. Known expressions keep
    /// their matches, unlike in Kafka: the cost of a new expression does not grow with the group.
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
        let mut draft = Draft::of(self);
        let changed = draft.resolve(new, topics, visible, now_ms);
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

    /// Matches the known expressions again, with the topics that the present member may describe,
    /// as Kafka does. True if any matches something else than before.
    pub(super) fn match_again(&mut self, topics: &dyn Topics, visible: &Visible, now_ms: i64) -> bool {
        let known = self.group.regexes.keys().cloned().collect();
        self.resolve(known, topics, visible, now_ms)
    }

    fn resolve(
        &mut self,
        patterns: BTreeSet<String>,
        topics: &dyn Topics,
        visible: &Visible,
        now_ms: i64,
    ) -> bool {
        if patterns.is_empty() {
            return false;
        }
        let mut changed = false;
        let mut names = topics.names();
        names.retain(|name| visible.has(name));
        for pattern in patterns {
            // An expression that an earlier version accepted and this version does not accept
            // matches nothing.
            let matching = compile(&pattern).map(|regex| {
                names.iter().filter(|name| regex.is_match(name)).cloned().collect::<BTreeSet<String>>()
            });
            let found = matching.unwrap_or_default();
            let before = self.group.regexes.get(&pattern).map(|before| &before.topics);
            if before == Some(&found) {
                continue;
            }
            changed |= before.is_some() || !found.is_empty();
            let value = RegexValue { topics: found, version: topics.version(), timestamp_ms: now_ms };
            self.write(ConsumerRecord::Regex(pattern, Some(value)));
        }
        changed
    }
}
