//! One share group: its members, and the position of the group in each partition.

use std::collections::BTreeMap;
use std::time::Duration;

use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use levada_wire::messages::{
    DescribeShareGroupOffsetsRequest, ShareGroupDescribeRequest, share_group_describe_response,
};
use maud::{Markup, html};

use super::failure::{Failed, Needing as _, check, nothing};
use super::fields::Fields;
use super::group::{Described, GroupMember, ROWS_MAX, delete_form, members};
use super::layout::{self, Page, Section, notice, table_of, tile, topic_link};
use super::question::Place;
use super::visitor::Visitor;
use super::{Console, format};

/// Name of the kind, in lists of groups.
pub(super) const SHARE: &str = "share";

/// A partition of the group. Numbers that are not known are none.
struct Shared {
    place: Place,
    start: Option<i64>,
    lag: Option<i64>,
    members: usize,
}

impl From<share_group_describe_response::DescribedGroup> for Described {
    fn from(group: share_group_describe_response::DescribedGroup) -> Self {
        let members = group.members.iter().map(|member| {
            let topics = member.assignment.topic_partitions.iter();
            let assigned = topics.flat_map(|topic| {
                topic.partitions.iter().map(|partition| (topic.topic_name.as_str().to_owned(), *partition))
            });
            GroupMember {
                id: member.member_id.to_string(),
                instance: None,
                client: member.client_id.to_string(),
                host: member.client_host.to_string(),
                assigned: assigned.collect(),
            }
        });
        Self {
            state: group.group_state.to_string(),
            protocol: SHARE,
            assignor: group.assignor_name.to_string(),
            members: members.collect(),
            streams: None,
        }
    }
}

impl Console {
    /// A share group.
    pub(super) async fn share_group(
        &self,
        visitor: &Visitor,
        (node, id): (i32, &str),
    ) -> Result<Described, Failed> {
        let mut request = ShareGroupDescribeRequest::default();
        request.group_ids = vec![StrBytes::from(id)];
        let answer = self.ask_broker(visitor, (node, i16::MAX), (request, Duration::ZERO)).await?;
        let group = answer.groups.into_iter().next();
        let group = group.ok_or_else(|| Failed::Missing(format!("There is no group {id}.")))?;
        check(group.error_code, group.error_message.as_deref(), || format!("describe group {id}"))
            .needing("describe", format!("--group {id}"))?;
        Ok(group.into())
    }

    /// The partitions of a share group, those with the largest lag first.
    async fn shared(&self, visitor: &Visitor, id: &str, group: &Described) -> Result<Vec<Shared>, Failed> {
        let mut asked = DescribeShareGroupOffsetsRequestGroup::default();
        asked.group_id = StrBytes::from(id);
        asked.topics = None;
        let mut request = DescribeShareGroupOffsetsRequest::default();
        request.groups = vec![asked];
        let node = self.coordinator(id)?;
        let answer = self.ask_broker(visitor, (node, i16::MAX), (request, Duration::ZERO)).await?;
        let mut places: BTreeMap<Place, (Option<i64>, Option<i64>, usize)> = BTreeMap::new();
        for found in &answer.groups {
            check(found.error_code, found.error_message.as_deref(), || {
                format!("read the offsets of group {id}")
            })
            .needing("describe", format!("--group {id}"))?;
            let visible = found.topics.iter().filter(|topic| {
                self.permits(visitor, (Operation::Describe, ResourceType::Topic, topic.topic_name.as_str()))
            });
            for topic in visible {
                let known = |number: i64, code: i16| Some(number).filter(|number| *number >= 0 && code == 0);
                places.extend(topic.partitions.iter().map(|one| {
                    let place = (topic.topic_name.as_str().to_owned(), one.partition_index);
                    let start = known(one.start_offset, one.error_code);
                    (place, (start, known(one.lag, one.error_code), 0))
                }));
            }
        }
        for place in group.members.iter().flat_map(|member| &member.assigned) {
            places.entry(place.clone()).or_default().2 += 1;
        }
        let shared = places.into_iter();
        let mut shared: Vec<Shared> =
            shared.map(|(place, (start, lag, members))| Shared { place, start, lag, members }).collect();
        shared.sort_by_key(|one| std::cmp::Reverse(one.lag));
        Ok(shared)
    }
}

/// The page of a share group.
pub(super) async fn page(
    console: &Console,
    visitor: &Visitor,
    fields: &Fields,
    group: &Described,
) -> Result<Page, Failed> {
    let id = fields.raw("id");
    let shared = console.shared(visitor, id, group).await?;
    let lag: i64 = shared.iter().filter_map(|one| one.lag).sum();
    let content = html! {
        (layout::done(fields.text("done")))
        div #group data-refresh="5" {
            (diagnosis(group, &shared))
            div.tiles {
                (tile("State", &group.state, None))
                (tile("Protocol", group.protocol, None))
                (tile("Assignor", &group.assignor, None))
                (tile("Members", group.members.len(), None))
                (tile("Lag in records", format::count(i128::from(lag)), None))
            }
            h2 { "Partitions" }
            (partitions(&shared))
            @if shared.is_empty() {
                p.soft { (nothing("partition", visitor, console.hides(visitor, "--topic"))) }
            }
            h2 { "Members" }
            (members(&group.members))
        }
        h2 { "Changes" }
        p.soft { "levada group reset sets start offsets while the group has no members." }
        (delete_form(console, visitor, id, "Deletes the group with its start offsets and delivery counts. \
            A later group of this name begins where share.auto.offset.reset says."))
    };
    Ok(Page::new(Section::Groups, format!("Group {id}"), content))
}

fn diagnosis(group: &Described, shared: &[Shared]) -> Markup {
    let late = shared.iter().filter(|one| one.lag.is_some_and(|lag| lag > 0)).count();
    let unread = shared.iter().filter(|one| one.start.is_none()).count();
    html! {
        @if late > 0 && group.members.is_empty() {
            (notice("bad", "Records wait, and the group has no member. Next: start its consumers."))
        } @else if late == 0 && unread == 0 && !shared.is_empty() {
            (notice("good", "The delivery of all records is complete."))
        }
        @if unread > 0 {
            (notice("warn", format!("No member has fetched from {} yet.", format::counted(unread, "partition"))))
        }
    }
}

fn partitions(shared: &[Shared]) -> Markup {
    let number =
        |value: Option<i64>| value.map_or("—".to_owned(), |value| format::count(i128::from(value)));
    html! {
        (table_of(&["Topic", "#Partition", "#Start offset", "#Lag in records", "#Members"], &[3], html! {
            @for one in shared.iter().take(ROWS_MAX) {
                tr {
                    th scope="row" { (topic_link(&one.place.0)) }
                    td.n { (one.place.1) }
                    td.n { (number(one.start)) }
                    td.n { (number(one.lag)) }
                    td.n { (one.members) }
                }
            }
        }))
        @if shared.len() > ROWS_MAX { p.soft { (shared.len() - ROWS_MAX) " further partitions have less lag." } }
    }
}

#[cfg(test)]
mod tests;
