//! Committed offsets of a group, and their reset: the page shows a plan first, and then carries out
//! exactly that plan if nothing was committed since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use levada_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use levada_wire::messages::{OffsetCommitRequest, OffsetFetchRequest};
use maud::{Markup, html};

use super::cluster::CHANGE_TIME;
use super::failure::{Failed, Needing as _, check};
use super::fields::Fields;
use super::groups::group_link;
use super::layout::{self, Page, Section, choice, field, notice, proof, table};
use super::question::{EARLIEST, LATEST, Place, within};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// The newest versions of OffsetFetch and OffsetCommit that name topics by name.
pub(super) const NEWEST_WITH_NAMES: i16 = 9;
/// Maximum number of partitions of one plan.
const PLAN_MAX: usize = 1000;

/// A committed offset, and the ends of its log where the visitor may see them.
pub(super) struct Committed {
    pub(super) place: Place,
    pub(super) offset: i64,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
}

impl Committed {
    /// Records from the committed offset to the end of the log.
    pub(super) fn lag(&self) -> Option<u64> {
        Some(u64::try_from(self.end? - self.offset).unwrap_or(0))
    }
}

/// A partition of a plan.
struct Move {
    place: Place,
    old: i64,
    new: i64,
}

impl Move {
    /// The move as the form carries it. A topic's name contains no `/`.
    fn coded(&self) -> String {
        format!("{}/{}/{}/{}", self.place.0, self.place.1, self.old, self.new)
    }

    fn decoded(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let place = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let (old, new) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { place, old, new })
    }
}

impl Console {
    /// The committed offsets of a group, with the ends of their logs.
    pub(super) async fn committed(&self, visitor: &Visitor, id: &str) -> Result<Vec<Committed>, Failed> {
        let mut group = OffsetFetchRequestGroup::default();
        group.group_id = StrBytes::from(id);
        group.member_epoch = -1;
        group.topics = None;
        let mut request = OffsetFetchRequest::default();
        request.groups = vec![group];
        let node = self.coordinator(id)?;
        let wanted = (Operation::Describe, ResourceType::Group, id);
        self.permitted(visitor, node, wanted, || format!("read the offsets of group {id}"))
            .needing("describe", format!("--group {id}"))?;
        let asked = (request, Duration::ZERO);
        let answer = self.ask_broker(visitor, (node, NEWEST_WITH_NAMES), asked).await?;
        let mut offsets: BTreeMap<Place, i64> = BTreeMap::new();
        for group in &answer.groups {
            check(group.error_code, None, || format!("read the offsets of group {id}"))
                .needing("describe", format!("--group {id}"))?;
            let visible = group.topics.iter().filter(|topic| {
                self.permits(visitor, (Operation::Describe, ResourceType::Topic, topic.name.as_str()))
            });
            for topic in visible {
                let known = topic.partitions.iter().filter(|one| one.committed_offset >= 0);
                offsets.extend(known.map(|one| {
                    ((topic.name.as_str().to_owned(), one.partition_index), one.committed_offset)
                }));
            }
        }
        let at = |time: i64| offsets.keys().cloned().map(move |place| (place, time));
        let first = self.offsets(visitor, at(EARLIEST)).await?;
        let last = self.offsets(visitor, at(LATEST)).await?;
        let committed = |(place, offset): (&Place, &i64)| Committed {
            place: place.clone(),
            offset: *offset,
            start: first.get(place).copied(),
            end: last.get(place).copied(),
        };
        Ok(offsets.iter().map(committed).collect())
    }
}

/// The form for the plan.
pub(super) fn reset_form<'a>(id: &str, topics: impl IntoIterator<Item = &'a str>) -> Markup {
    let goals = [
        ("latest", "the end of the log: skip the lag"),
        ("earliest", "the start of the log: read everything again"),
        ("time", "a time (UTC)"),
        ("offset", "an offset"),
        ("shift", "N records forward, or back (negative)"),
    ];
    let all = [("", "all topics")];
    let topics: Vec<(&str, &str)> =
        all.into_iter().chain(topics.into_iter().map(|name| (name, name))).collect();
    html! {
        details {
            summary { "Reset offsets" }
            form.card method="get" action="/group/reset" {
                input type="hidden" name="id" value=(id);
                p { "The next page shows the plan; nothing changes until you confirm it there." }
                (field("Topic", choice("topic", topics, "")))
                (field("Partition (empty: all)", html! { input type="number" name="partition" min="0"; }))
                (field("To", choice("to", goals, "latest")))
                (field("Time", html! { input type="datetime-local" step="1" name="time"; }))
                (field("Offset or number of records", html! { input type="number" name="number"; }))
                button { "Show the plan" }
            }
        }
    }
}

/// Renders the plan of a reset, before it is carried out.
pub(super) async fn plan(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = plan_page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, page)
}

async fn plan_page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let id = fields.raw("id");
    let group = console.group(visitor, id).await?;
    let moves = moves(console, visitor, fields).await?;
    if moves.len() > PLAN_MAX {
        let text = format!(
            "The plan has {} partitions, and one reset changes at most {PLAN_MAX}; choose a topic.",
            moves.len()
        );
        return Err(Failed::Input(text));
    }
    let (skipped, again) = change(&moves);
    let content = html! {
        p { "Group " (group_link(id)) ": nothing has changed yet." }
        @if !group.members.is_empty() {
            (notice("warn", format!("{} members consume in the group. The broker refuses the reset until its consumers have stopped.", group.members.len())))
        }
        p {
            "The group skips " strong { (format::count(skipped)) } " records and reads "
            strong { (format::count(again)) } " again."
        }
        (table(&["Topic", "#Partition", "#Committed now", "#After the reset", "#Change"], html! {
            @for one in &moves {
                tr {
                    th scope="row" { (one.place.0) }
                    td.n { (one.place.1) }
                    td.n { (format::count(i128::from(one.old))) }
                    td.n { (format::count(i128::from(one.new))) }
                    td.n { @if one.new > one.old { "+" } (format::count(i128::from(one.new - one.old))) }
                }
            }
            @if moves.is_empty() { tr { td colspan="5" { "The group has no committed offset there." } } }
        }))
        @if !moves.is_empty() {
            form method="post" action="/group/reset" {
                (proof(visitor))
                input type="hidden" name="id" value=(id);
                @for one in &moves { input type="hidden" name="move" value=(one.coded()); }
                button.danger { "Reset the offsets" }
            }
        }
    };
    Ok(Page::new(Section::Groups, "Plan of a reset", content))
}

/// Records that a plan skips, and records that it reads again.
fn change(moves: &[Move]) -> (i128, i128) {
    // A client may have committed any offset: the sum can exceed the largest one.
    let forward = |one: &Move| i128::from(one.new) - i128::from(one.old);
    let skipped = moves.iter().map(|one| forward(one).max(0)).sum();
    (skipped, moves.iter().map(|one| (-forward(one)).max(0)).sum())
}

async fn moves(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Vec<Move>, Failed> {
    let (topic, partition) = (fields.text("topic"), fields.number::<i32>("partition")?);
    let mut committed = console.committed(visitor, fields.raw("id")).await?;
    committed.retain(|one| {
        (topic.is_empty() || one.place.0 == topic) && partition.is_none_or(|index| index == one.place.1)
    });
    let to = fields.text("to");
    let number = fields.number::<i64>("number")?;
    let number = match to {
        "offset" | "shift" => number.ok_or_else(|| {
            Failed::Input("The offset or number of records is empty; fill it in.".to_owned())
        })?,
        _ => 0,
    };
    let timed = match to {
        "time" => {
            let text = fields.required("time")?;
            let time = format::parse_time(text).ok_or_else(|| {
                Failed::Input(format!("time: {text:?} is not a time; write 2026-01-31T12:00:00"))
            })?;
            let places = committed.iter().map(|one| (one.place.clone(), time));
            console.offsets(visitor, places).await?
        }
        _ => BTreeMap::new(),
    };
    let planned = committed.into_iter().filter_map(|one| {
        let (start, end) = (one.start?, one.end?);
        let new = match to {
            "earliest" => start,
            "offset" => number,
            "shift" => one.offset.saturating_add(number),
            // No record is so late.
            "time" => timed.get(&one.place).copied().filter(|offset| *offset >= 0).unwrap_or(end),
            _ => end,
        };
        Some(Move { old: one.offset, new: within(new, (start, end)), place: one.place })
    });
    Ok(planned.collect())
}

/// Carries a plan out.
pub(super) async fn submit(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = reset(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, done)
}

async fn reset(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let id = fields.raw("id");
    let malformed =
        || Failed::Input("The plan cannot be read. Request a new one on the page of the group.".to_owned());
    let moves: Option<Vec<Move>> = fields.all("move").map(Move::decoded).collect();
    let moves = moves.filter(|moves| !moves.is_empty() && moves.len() <= PLAN_MAX).ok_or_else(malformed)?;
    let now: BTreeMap<Place, i64> =
        console.committed(visitor, id).await?.into_iter().map(|one| (one.place, one.offset)).collect();
    if let Some(one) = moves.iter().find(|one| now.get(&one.place) != Some(&one.old)) {
        let (topic, partition) = &one.place;
        let text = format!(
            "The offset of {topic}/{partition} has changed since the plan was made. Nothing was reset. Next: request a new plan."
        );
        return Err(Failed::Input(text));
    }
    let mut topics: BTreeMap<String, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for one in moves {
        let mut partition = OffsetCommitRequestPartition::default();
        (partition.partition_index, partition.committed_offset) = (one.place.1, one.new);
        partition.committed_leader_epoch = -1;
        topics.entry(one.place.0).or_default().push(partition);
    }
    let mut request = OffsetCommitRequest::default();
    request.group_id = StrBytes::from(id);
    request.generation_id_or_member_epoch = -1;
    request.topics = topics
        .into_iter()
        .map(|(name, partitions)| {
            let mut topic = OffsetCommitRequestTopic::default();
            (topic.name, topic.partitions) = (StrBytes::from(name), partitions);
            topic
        })
        .collect();
    let node = console.coordinator(id)?;
    let kinds = request.topics.iter().map(|topic| (ResourceType::Topic, "--topic", topic.name.as_str()));
    for (kind, option, name) in kinds.chain([(ResourceType::Group, "--group", id)]) {
        let doing = || format!("reset the offsets of group {id}");
        console
            .permitted(visitor, node, (Operation::Read, kind, name), doing)
            .needing("read", format!("{option} {name}"))?;
    }
    let answer = console.ask_broker(visitor, (node, NEWEST_WITH_NAMES), (request, CHANGE_TIME)).await?;
    for topic in &answer.topics {
        for one in &topic.partitions {
            let is_of_topic = one.error_code == ErrorCode::TopicAuthorizationFailed.code();
            let is_refused = is_of_topic || one.error_code == ErrorCode::GroupAuthorizationFailed.code();
            let sentence = (!is_refused).then_some("Consumers of the group must have stopped.");
            let needed =
                if is_of_topic { format!("--topic {}", topic.name) } else { format!("--group {id}") };
            check(one.error_code, sentence, || {
                format!("reset the offset of {}/{}", topic.name, one.partition_index)
            })
            .needing("read", needed)?;
        }
    }
    Err(Failed::Redirect(format!("/group?id={}&done=reset", format::linked(id))))
}

#[cfg(test)]
mod tests;
