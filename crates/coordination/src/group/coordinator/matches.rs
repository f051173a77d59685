//! Expressions of consumer groups, which the host compares with the names of topics. A group has
//! one comparison at a time; if its result cannot be written, or topics have changed in the
//! meantime, the next heartbeat of a member begins another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Coordinator;
use super::consumers::{DraftedGroup, GroupDraft};
use super::share_work::GroupWork;
use crate::group::consumer::Draft;
use crate::group::event::Action;
use crate::group::topics::{Topics, Visible};

/// Expressions of a group that are to be compared with the names of topics.
#[derive(Clone, Debug)]
pub struct MatchWork {
    /// Id of the group.
    pub group_id: String,
    /// The expressions, each once.
    pub patterns: Vec<String>,
    /// Topics to compare.
    pub topics: Arc<dyn Topics>,
    /// The topics that are visible to the member on whose behalf the expressions are matched.
    pub visible: Visible,
}

impl PartialEq for MatchWork {
    fn eq(&self, other: &Self) -> bool {
        let same_topics = Arc::ptr_eq(&self.topics, &other.topics);
        same_topics && (&self.group_id, &self.patterns) == (&other.group_id, &other.patterns)
    }
}

/// The result of a [`MatchWork`].
#[derive(Clone, Debug)]
pub struct Matched {
    /// Id of the group.
    pub group_id: String,
    /// The topics of the work.
    pub topics: Arc<dyn Topics>,
    /// Names that each expression matches; expressions that were not compared are left out.
    pub found: BTreeMap<String, BTreeSet<String>>,
}

impl Coordinator {
    /// Starts to match the group's new expressions against the topics, after the response to a
    /// member. The coordinator assigns members at their next heartbeats after the match.
    pub(super) fn begin_matches(&mut self, group_id: &str, visible: Visible) {
        let Some(group) = self.consumers.get(group_id) else { return };
        let patterns = group.unmatched();
        if !patterns.is_empty() && self.matching.insert(group_id.to_owned()) {
            let topics = self.topics.clone();
            let work = MatchWork { group_id: group_id.to_owned(), patterns, topics, visible };
            self.actions.push(Action::Work(GroupWork::Match(work)));
        }
    }

    /// Applies the result of the host's comparison of a group's expressions.
    pub(super) fn matched(&mut self, matched: Matched, now_ms: i64) {
        let Matched { group_id, topics, found } = matched;
        self.matching.remove(&group_id);
        let Some(group) = self.consumers.get(&group_id) else { return };
        let is_current = Arc::ptr_eq(&topics, &self.topics);
        let Draft { group, records } = group.matched(found, (&*self.topics, is_current), now_ms);
        let becomes = DraftedGroup::Consumer(Box::new(group));
        self.write_draft(records, GroupDraft::of(becomes, topics), now_ms);
    }
}
