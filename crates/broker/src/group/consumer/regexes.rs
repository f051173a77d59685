//! Subscriptions by regular expression: which topics they match. The syntax is RE2's, as far as the `regex`
//! crate has it; an expression must match the whole name.

use std::collections::BTreeSet;

use regex::Regex;

use super::Draft;
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, RegexValue};
use crate::group::topics::{Topics, Visible};
use crate::pattern;

/// Compiles an expression that must match whole names. The API has done it before, where waiting disturbs nobody.
pub(super) fn compile(pattern: &str) -> Result<Regex, GroupError> {
    pattern::whole(pattern).map_err(|_| GroupError::InvalidRegularExpression)
}

impl Draft {
    /// Matches every expression that members use with the topics that the member may know of who is heard now, and forgets the others,
    /// as Kafka does. True if any matches something else than before.
    pub(super) fn resolve(&mut self, topics: &dyn Topics, visible: &Visible, now_ms: i64) -> bool {
        let used: BTreeSet<String> =
            self.group.members.values().filter_map(|member| Some(member.regex()?.to_owned())).collect();
        let unused: Vec<String> =
            self.group.regexes.keys().filter(|regex| !used.contains(*regex)).cloned().collect();
        let mut changed = false;
        for regex in unused {
            self.write(ConsumerRecord::Regex(regex, None));
            changed = true;
        }
        if used.is_empty() {
            return changed;
        }
        let mut names = topics.names();
        names.retain(|name| visible.has(name));
        for pattern in used {
            // One that an earlier version accepted and this one does not matches nothing.
            let matching = compile(&pattern).map(|regex| {
                names.iter().filter(|name| regex.is_match(name)).cloned().collect::<BTreeSet<String>>()
            });
            let found = matching.unwrap_or_default();
            if self.group.regexes.get(&pattern).is_some_and(|before| before.topics == found) {
                continue;
            }
            let value = RegexValue { topics: found, version: topics.version(), timestamp_ms: now_ms };
            self.write(ConsumerRecord::Regex(pattern, Some(value)));
            changed = true;
        }
        changed
    }
}
