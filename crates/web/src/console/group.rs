//! One group: its members and what each of them is assigned, committed offsets with their lag, and
//! the lag of the last hour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::source::GroupState;
use levada_broker::source::LagSample;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest,
    decode_consumer_protocol_assignment,
};
use levada_wire::messages::{DecodeLimits, consumer_group_describe_response, describe_groups_response};
use maud::{Markup, html};

use super::cluster::CHANGE_TIME;
use super::failure::{Failed, Needing as _, check, nothing};
use super::fields::Fields;
use super::groups::{COORDINATORS, age};
use super::layout::{self, Page, Section, field, notice, proof, table_of, tile, topic_link};
use super::question::Place;
use super::reset::{Committed, reset_form};
use super::share::{self, SHARE};
use super::streams::{STREAMS, Streams};
use super::topics::confirmed;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Maximum number of partitions that the page shows, those with the largest lag first.
pub(super) const ROWS_MAX: usize = 500;
/// Maximum number of members that the page shows.
pub(super) const MEMBERS_MAX: usize = 200;
/// Columns of the table of partitions.
const COLUMNS: [&str; 8] =
    ["Topic", "#Partition", "#Committed", "#Start", "#End", "#Lag in records", "#Lag in time", "Member"];
/// Height of the chart in pixels, and width of the numbers at its left.
const CHART: (f64, f64) = (220.0, 80.0);
/// Units of the time axis, which the style sheet stretches to the width of the page.
const PLOT: f64 = 1000.0;
/// Time that the chart shows.
const HOUR_MS: i64 = 3_600_000;

/// A member of a group of any kind.
pub(super) struct GroupMember {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) client: String,
    pub(super) host: String,
    pub(super) assigned: Vec<Place>,
}

/// A group as its coordinator describes it.
pub(super) struct Described {
    pub(super) state: String,
    pub(super) protocol: &'static str,
    pub(super) assignor: String,
    pub(super) members: Vec<GroupMember>,
    /// Fields of streams groups only.
    pub(super) streams: Option<Streams>,
}

impl From<consumer_group_describe_response::DescribedGroup> for Described {
    fn from(group: consumer_group_describe_response::DescribedGroup) -> Self {
        let members = group.members.iter().map(|member| GroupMember {
            id: member.member_id.to_string(),
            instance: member.instance_id.as_ref().map(ToString::to_string),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: places(&member.assignment),
        });
        Self {
            state: group.group_state.to_string(),
            protocol: "consumer",
            assignor: group.assignor_name.to_string(),
            members: members.collect(),
            streams: None,
        }
    }
}

fn places(assignment: &consumer_group_describe_response::Assignment) -> Vec<Place> {
    let topics = assignment.topic_partitions.iter();
    topics
        .flat_map(|topic| {
            topic.partitions.iter().map(|partition| (topic.topic_name.as_str().to_owned(), *partition))
        })
        .collect()
}

impl From<describe_groups_response::DescribedGroup> for Described {
    fn from(group: describe_groups_response::DescribedGroup) -> Self {
        let members = group.members.iter().map(|member| GroupMember {
            id: member.member_id.to_string(),
            instance: member.group_instance_id.as_ref().map(ToString::to_string),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: assigned(member),
        });
        Self {
            state: group.group_state.to_string(),
            protocol: "classic",
            assignor: group.protocol_data.to_string(),
            members: members.collect(),
            streams: None,
        }
    }
}

/// The partitions of a classic member; none if its assignment is not that of a consumer.
fn assigned(member: &describe_groups_response::DescribedGroupMember) -> Vec<Place> {
    let bytes = member.member_assignment.clone();
    let decoded = decode_consumer_protocol_assignment(bytes, DecodeLimits::default());
    let topics = decoded.map(|(_, assignment)| assignment.assigned_partitions).unwrap_or_default();
    let places = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (topic.topic.as_str().to_owned(), *partition))
    });
    places.collect()
}

impl Console {
    /// A group of any kind.
    pub(super) async fn group(&self, visitor: &Visitor, id: &str) -> Result<Described, Failed> {
        let missing = || Failed::Missing(format!("There is no group {id} that you may see."));
        let node = self.coordinator(id)?;
        let doing = || format!("describe group {id}");
        let wanted = (Operation::Describe, ResourceType::Group, id);
        self.permitted(visitor, node, wanted, doing).needing("describe", format!("--group {id}"))?;
        let request = (ListGroupsRequest::default(), Duration::ZERO);
        let listed = self.ask_broker(visitor, (node, i16::MAX), request).await?;
        check(listed.error_code, None, doing)?;
        let found = listed.groups.iter().find(|one| one.group_id.as_str() == id).ok_or_else(missing)?;
        if found.group_type.as_str() == "consumer" {
            let mut request = ConsumerGroupDescribeRequest::default();
            request.group_ids = vec![StrBytes::from(id)];
            let answer = self.ask_broker(visitor, (node, i16::MAX), (request, Duration::ZERO)).await?;
            let group = answer.groups.into_iter().next().ok_or_else(missing)?;
            check(group.error_code, group.error_message.as_deref(), || format!("describe group {id}"))
                .needing("describe", format!("--group {id}"))?;
            return Ok(group.into());
        }
        if found.group_type.as_str() == SHARE {
            return self.share_group(visitor, (node, id)).await;
        }
        if found.group_type.as_str() == STREAMS {
            return self.streams_group(visitor, (node, id)).await;
        }
        let mut request = DescribeGroupsRequest::default();
        request.groups = vec![StrBytes::from(id)];
        let answer = self.ask_broker(visitor, (node, i16::MAX), (request, Duration::ZERO)).await?;
        let group = answer.groups.into_iter().next().ok_or_else(missing)?;
        check(group.error_code, None, || format!("describe group {id}"))
            .needing("describe", format!("--group {id}"))?;
        Ok(group.into())
    }

    /// The broker that coordinates a group; this one before there are coordinators.
    pub(super) fn coordinator(&self, id: &str) -> Result<i32, Failed> {
        let Some(index) = self.door.partition_of_group(id) else { return Ok(self.own()) };
        self.leader(COORDINATORS, index).ok_or_else(|| {
            Failed::Missing(format!(
                "Group {id} has no coordinator: partition {COORDINATORS}/{index} has no leader."
            ))
        })
    }
}

/// Renders the page of one group.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, page)
}

async fn page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let id = fields.raw("id");
    let node = console.coordinator(id)?;
    let group = console.group(visitor, id).await?;
    if group.protocol == SHARE {
        return share::page(console, visitor, fields, &group).await;
    }
    let mut committed = console.committed(visitor, id).await?;
    let state = console.lags(visitor).await.remove(id);
    let history = console.door.lags_of_group(id);
    committed.sort_by_key(|one| (std::cmp::Reverse(one.lag()), one.place.clone()));
    let records: u64 = committed.iter().filter_map(Committed::lag).sum();
    let topics: std::collections::BTreeSet<&str> = committed.iter().map(|one| one.place.0.as_str()).collect();
    let content = html! {
        (layout::done(fields.text("done")))
        div #group data-refresh="5" {
            (diagnosis(&group, &committed))
            div.tiles {
                (tile("State", &group.state, None))
                (tile("Protocol", group.protocol, None))
                (tile("Assignor", &group.assignor, None))
                (tile("Members", group.members.len(), None))
                (tile("Lag in records", format::count(i128::from(records)), None))
                (tile("Lag in time", age(state.as_ref().and_then(GroupState::seconds)), None))
                @if console.has_others() { (tile("Coordinator", format!("broker {node}"), None)) }
            }
            h2 { "Lag of the last hour" }
            @if history.is_empty() && node != console.own() {
                p.soft { "The console of broker " (node) " has the history: it coordinates the group." }
            } @else { (chart(&history)) }
            @if let Some(streams) = &group.streams { (streams.page(&group.members, &committed)) }
            h2 { "Partitions" }
            (partitions(&group, &committed, state.as_ref()))
            @if committed.is_empty() {
                p.soft { (nothing("committed offset", visitor, console.hides(visitor, "--topic"))) }
            }
            h2 { "Members" }
            @match &group.streams {
                Some(streams) => (streams.members(&group.members)),
                None => (members(&group.members)),
            }
        }
        h2 { "Changes" }
        (console.offered(visitor, (Operation::Read, ResourceType::Group, id), ("Reset offsets", reset_form(id, topics))))
        (delete_form(console, visitor, id, "Deletes the group with its committed offsets. Its consumers then start at the \
            position of their auto.offset.reset."))
    };
    Ok(Page::new(Section::Groups, format!("Group {id}"), content))
}

/// The form that deletes a group, with the effect of the deletion.
pub(super) fn delete_form(console: &Console, visitor: &Visitor, id: &str, effect: &str) -> Markup {
    let form = html! {
        details {
            summary { "Delete the group" }
            form.card method="post" action="/group/delete" {
                (proof(visitor))
                input type="hidden" name="id" value=(id);
                p { (effect) }
                (field(&format!("Type {id} to confirm"), html! { input name="confirm" autocomplete="off" required; }))
                button.danger { "Delete the group" }
            }
        }
    };
    console.offered(visitor, (Operation::Delete, ResourceType::Group, id), ("Delete the group", form))
}

/// The reason for the lag, as far as offsets and assignments show it.
fn diagnosis(group: &Described, committed: &[Committed]) -> Markup {
    let late: Vec<&Committed> = committed.iter().filter(|one| one.lag().is_some_and(|lag| lag > 0)).collect();
    let lost = committed.iter().filter(|one| one.start.is_some_and(|start| one.offset < start)).count();
    let owned = owners(&group.members);
    let unowned = late.iter().filter(|one| !owned.contains_key(&one.place)).count();
    let worst = late.iter().filter_map(|one| Some((*owned.get(&one.place)?, one.lag()?)));
    let by_member = worst.fold(BTreeMap::<&str, u64>::new(), |mut sums, (member, lag)| {
        *sums.entry(member).or_default() += lag;
        sums
    });
    let unknown = committed.iter().filter(|one| one.lag().is_none()).count();
    let slowest = slowest(&by_member, &group.members);
    html! {
        @if unknown > 0 {
            (notice("warn", format!("The lag in {} is not known: no leader, or the leader did not respond.", format::counted(unknown, "partition"))))
        }
        @if late.is_empty() && unknown > 0 {
            (notice("good", "The group has read everything in the other partitions."))
        } @else if late.is_empty() && !committed.is_empty() {
            (notice("good", "The group has read everything that it has committed offsets for."))
        } @else if late.is_empty() {}
        @else if group.members.is_empty() {
            (notice("bad", "The group lags because it has no member. Next: start its consumers, or reset its offsets below."))
        } @else if unowned > 0 {
            (notice("warn", format!("No member is assigned {} with lag: the group does not subscribe to the topic, or it rebalances.", format::counted(unowned, "partition"))))
        } @else if let Some((member, lag)) = slowest {
            (notice("warn", format!("Member {} (client {}, host {}) has the largest share of the lag: {} records. It reads slower than producers write, or it does not commit.", member.id, member.client, member.host.trim_start_matches('/'), format::count(i128::from(lag)))))
        }
        @if lost > 0 {
            (notice("bad", format!("Retention deleted records before the group read them: {} before the start of the log.", format::counted(lost, "committed offset"))))
        }
    }
}

/// The member with the largest lag, if that is at least twice the mean of the others: members that
/// keep up lag by the records since their last commits, about equally. A member alone is always
/// the one.
fn slowest<'a>(
    by_member: &BTreeMap<&str, u64>,
    members: &'a [GroupMember],
) -> Option<(&'a GroupMember, u64)> {
    let (id, lag) = by_member.iter().max_by_key(|(_, lag)| **lag)?;
    let others = members.len().saturating_sub(1) as u64;
    let rest: u64 = by_member.values().sum::<u64>() - lag;
    if lag.saturating_mul(others) < rest.saturating_mul(2) {
        return None;
    }
    Some((members.iter().find(|member| member.id == *id)?, *lag))
}

/// The member to which each partition is assigned.
fn owners(members: &[GroupMember]) -> BTreeMap<Place, &str> {
    members
        .iter()
        .flat_map(|member| member.assigned.iter().map(|place| (place.clone(), member.id.as_str())))
        .collect()
}

fn partitions(group: &Described, committed: &[Committed], state: Option<&GroupState>) -> Markup {
    let owned = owners(&group.members);
    let lags = state.map(|state| state.lags.as_slice()).unwrap_or_default();
    let seconds: BTreeMap<(&str, i32), Option<f64>> =
        lags.iter().map(|lag| ((lag.topic.as_str(), lag.partition), lag.seconds)).collect();
    let number =
        |value: Option<i64>| value.map_or("—".to_owned(), |value| format::count(i128::from(value)));
    html! {
        (table_of(&COLUMNS, &[3, 4, 7, 8], html! {
            @for one in committed.iter().take(ROWS_MAX) {
                tr {
                    th scope="row" { (topic_link(&one.place.0)) }
                    td.n { (one.place.1) }
                    td.n { (format::count(i128::from(one.offset))) }
                    td.n { (number(one.start)) }
                    td.n { (number(one.end)) }
                    td.n { (number(one.lag().map(u64::cast_signed))) }
                    td.n { (age(seconds.get(&(one.place.0.as_str(), one.place.1)).copied().flatten())) }
                    td { (owned.get(&one.place).copied().unwrap_or("none")) }
                }
            }
        }))
        @if committed.len() > ROWS_MAX { p.soft { (committed.len() - ROWS_MAX) " further partitions have less lag." } }
    }
}

pub(super) fn members(members: &[GroupMember]) -> Markup {
    html! {
        (table_of(&["Member", "Client", "Host", "#Partitions", "Assignment"], &[2, 3], html! {
            @for member in members.iter().take(MEMBERS_MAX) {
                tr {
                    th.wide scope="row" {
                        (member.id)
                        @if let Some(instance) = &member.instance { span.hint { "instance " (instance) } }
                    }
                    td { (member.client) }
                    td { (member.host) }
                    td.n { (member.assigned.len()) }
                    td.wide { (assignment(&member.assigned)) }
                }
            }
            @if members.is_empty() { tr { td colspan="5" { "This group has no members." } } }
        }))
        @if members.len() > MEMBERS_MAX { p.soft { (members.len() - MEMBERS_MAX) " further members are not shown." } }
    }
}

/// Partitions by topic, at most 100 of a topic.
fn assignment(assigned: &[Place]) -> Markup {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    assigned.iter().for_each(|(topic, partition)| topics.entry(topic).or_default().push(*partition));
    let shown = |partitions: &[i32]| {
        let mut numbers: Vec<String> = partitions.iter().take(100).map(ToString::to_string).collect();
        if partitions.len() > 100 {
            numbers.push("…".to_owned());
        }
        numbers.join(", ")
    };
    html! { @for (topic, partitions) in &topics { div { (topic) ": " (shown(partitions)) } } }
}

/// The lag in records over time.
fn chart(history: &[LagSample]) -> Markup {
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return html! {} };
    if history.len() < 2 {
        let text = "The first sample was taken now. Samples are taken while this page or the list of groups is open, and with each \
                    scrape of /metrics.";
        return html! { p.soft { (text) } };
    }
    let (height, left) = CHART;
    let bottom = height - 25.0;
    let top = history.iter().map(|one| one.records).max().unwrap_or_default().max(1);
    let x = |at_ms: i64| PLOT - (last.at_ms - at_ms) as f64 / HOUR_MS as f64 * PLOT;
    let y = |records: u64| bottom - records as f64 / top as f64 * (bottom - 10.0);
    let mut points: Vec<String> =
        history.iter().map(|one| format!("{:.1},{:.1}", x(one.at_ms), y(one.records))).collect();
    points.push(format!("{:.1},{bottom}", x(last.at_ms)));
    points.push(format!("{:.1},{bottom}", x(first.at_ms)));
    let label = format!("Lag in records over the last hour, at most {}", format::count(i128::from(top)));
    html! {
        div.chart {
            svg role="img" aria-label=(label) {
                @for records in [0, top] {
                    line.grid x1=(left) x2="100%" y1=(y(records)) y2=(y(records)) {}
                    text x=(left - 8.0) y=(y(records)) text-anchor="end" dominant-baseline="central" {
                        (format::count(i128::from(records)))
                    }
                }
                svg.plot x=(left) height=(height) viewBox={ "0 0 " (PLOT) " " (height) } preserveAspectRatio="none" {
                    polygon.s0 points=(points.join(" ")) {}
                }
                text x=(left) y=(height - 4.0) { "an hour ago" }
                text x="100%" y=(height - 4.0) text-anchor="end" { "now" }
            }
        }
    }
}

/// Deletes a group whose name was typed for confirmation.
pub(super) async fn delete(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let deleted = delete_group(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, deleted)
}

async fn delete_group(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let id = fields.raw("id");
    confirmed(fields, id)?;
    let mut request = DeleteGroupsRequest::default();
    request.groups_names = vec![StrBytes::from(id)];
    let wanted = (Operation::Delete, ResourceType::Group, id);
    let node = console.coordinator(id)?;
    console
        .permitted(visitor, node, wanted, || format!("delete group {id}"))
        .needing("delete", format!("--group {id}"))?;
    let answer = console.ask_broker(visitor, (node, i16::MAX), (request, CHANGE_TIME)).await?;
    for one in &answer.results {
        check(one.error_code, None, || format!("delete group {id}"))
            .needing("delete", format!("--group {id}"))?;
    }
    Err(Failed::Redirect("/groups?done=deleted".to_owned()))
}

#[cfg(test)]
mod tests;
