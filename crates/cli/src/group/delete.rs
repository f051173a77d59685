//! `levada group delete`: deletes groups, or their offsets for some topics.

use std::io::Write;

use levada_client::{Cluster, Coordinated, TopicPartition, committed, share_offsets};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::DeleteGroupsRequest;

use super::share::SHARE;
use super::state;
use crate::outcomes::{Outcome, Outcomes};
use crate::{kafka_error, question};
use levada_terminal::failure::Failure;
use levada_terminal::output::{FormatArgs, counted};

/// Delete groups without members, or their offsets of some topics
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group delete readers
  levada group delete readers --topic clicks     deletes only its offsets of clicks")]
pub(crate) struct Delete {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// Delete the offsets of this topic alone, or its state in a share group, and keep the group;
    /// repeatable
    #[arg(short, long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// A group that does not exist is not an error
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

impl Delete {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let what = if self.topic.is_empty() {
            format!("delete {}", self.groups.join(", "))
        } else {
            format!("delete the offsets of {} for {}", self.groups.join(", "), self.topic.join(", "))
        };
        self.question.ask(&what, question::NOTHING_DELETED)?;
        let mut outcomes = Outcomes::new(self.format);
        for group in &self.groups {
            let subject = ("group", group.as_str());
            let done = if self.topic.is_empty() {
                delete(cluster, group).map(|()| format!("deleted group {group}"))
            } else {
                self.forget(cluster, group)
            };
            match done {
                Ok(done) => outcomes.add(subject, Outcome::Done, &done),
                Err(failure)
                    if self.if_exists && failure.cause().code() == Some(ErrorCode::GroupIdNotFound) =>
                {
                    outcomes.add(subject, Outcome::Unchanged, &format!("there is no group {group}"));
                }
                Err(failure) => outcomes.fail(subject, failure),
            }
        }
        outcomes.end(out)
    }

    fn forget(&self, cluster: &mut Cluster, group: &str) -> Result<String, Failure> {
        let committed = committed::fetch(cluster, group)?;
        let places = committed.into_keys().filter(|(topic, _)| self.topic.contains(topic));
        let places: Vec<TopicPartition> = places.collect();
        if places.is_empty() {
            return self.forget_shared(cluster, group);
        }
        committed::delete(cluster, group, &places)?;
        Ok(format!("deleted {} of group {group}", counted(places.len() as u64, "offset", "offsets")))
    }

    /// Deletes the state of the topics in a share group. Other groups have no offsets for them.
    fn forget_shared(&self, cluster: &mut Cluster, group: &str) -> Result<String, Failure> {
        let topics = self.topic.join(", ");
        match state::describe_any(cluster, group)? {
            None => kafka_error::check(ErrorCode::GroupIdNotFound.code(), &format!("group {group}"), None)?,
            Some(described) if described.kind == SHARE => {
                share_offsets::delete(cluster, group, &self.topic)?;
                return Ok(format!("deleted the state of {topics} in share group {group}"));
            }
            Some(_) => {}
        }
        let what = format!("group {group} has no committed offsets for {topics}");
        Err(Failure::with_next(what, format!("levada group describe {group}")))
    }
}

fn delete(cluster: &mut Cluster, group: &str) -> Result<(), Failure> {
    let mut request = DeleteGroupsRequest::default();
    request.groups_names = vec![StrBytes::from(group)];
    let response = cluster.ask_coordinator(Coordinated::Group, group, (&request, i16::MAX), |response| {
        response.results.first().map_or(0, |one| one.error_code)
    })?;
    let doing = format!("delete group {group}");
    let mut results = response.results.iter();
    let checked =
        results.try_for_each(|one| kafka_error::check(one.error_code, &doing, one.error_message.as_deref()));
    kafka_error::needing(checked, "delete", &format!("--group {group}"))
}

#[cfg(test)]
mod tests;
