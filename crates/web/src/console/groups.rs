//! The list of groups of all types, those with the largest lag first.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::source::GroupState;
use levada_client::member_counts::MemberRequests;
use maud::{Markup, html};

use super::failure::{Failed, nothing};
use super::fields::Fields;
use super::lags::{Coordinated, GroupLag};
use super::layout::{self, Page, Section, field, table_of};
use super::share::SHARE;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Number of groups on one page of the list.
const PAGE_GROUPS: usize = 100;
const COLUMNS: [&str; 8] = [
    "Group",
    "State",
    "Protocol",
    "#Members",
    "#Lag in records",
    "#Lag in time",
    "#Rebalances",
    "#Coordinator",
];
/// State of a group without members.
const EMPTY: &str = "Empty";
/// Topic of the coordinators of groups.
pub(super) const COORDINATORS: &str = "__consumer_offsets";

/// Renders the page of all groups.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = list_page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, page)
}

impl Console {
    /// The list of groups with their lags, the largest lag first.
    pub(super) async fn group_rows(&self, visitor: &Visitor) -> Result<Vec<GroupRow>, Failed> {
        let groups = self.groups(visitor).await?;
        let mut states = self.lags(visitor).await;
        // Without other brokers the states have all lags.
        let mut lags =
            if self.has_others() { self.group_lags(visitor, &groups, None).await? } else { BTreeMap::new() };
        lags.extend(self.share_lags(visitor, &groups).await?);
        let row = |group: Coordinated| {
            let (state, lag) = (states.remove(group.id()), lags.remove(group.id()));
            GroupRow { lag, state, group, counted: None }
        };
        let mut rows: Vec<GroupRow> = groups.into_iter().map(row).collect();
        rows.sort_by(|one, other| {
            let key = |row: &GroupRow| (std::cmp::Reverse(row.records()), row.group.id().to_owned());
            key(one).cmp(&key(other))
        });
        Ok(rows)
    }

    /// Lag of the groups of this broker's coordinators as `/metrics` shows it, by group. It adds a
    /// sample to the history of each.
    pub(super) async fn lags(&self, visitor: &Visitor) -> BTreeMap<String, GroupState> {
        let (broker, requester) = (self.door.clone(), visitor.caller.session().requester());
        let states = self.reads.run(requester, move || broker.source().groups()).await;
        states.groups.into_iter().map(|state| (state.group.clone(), state)).collect()
    }
}

/// The link to a group.
pub(super) fn group_link(id: &str) -> Markup {
    html! { a href={ "/group?id=" (format::linked(id)) } { @if id.is_empty() { "(empty name)" } @else { (id) } } }
}

/// Seconds of lag as text.
pub(super) fn age(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) if seconds < 0.001 => "0".to_owned(),
        Some(seconds) => format::duration(std::time::Duration::from_secs_f64(seconds)),
        None => "—".to_owned(),
    }
}

/// A row of the list.
pub(super) struct GroupRow {
    pub(super) group: Coordinated,
    /// The lag in all partitions, of a share group or if there are other brokers.
    lag: Option<GroupLag>,
    /// The state of a group whose coordinator is here.
    state: Option<GroupState>,
    /// Number of members that another coordinator has returned.
    counted: Option<u64>,
}

impl GroupRow {
    /// The state of a group that commits offsets.
    fn commits(&self) -> Option<&GroupState> {
        self.state.as_ref().filter(|_| self.group.listed.group_type.as_str() != SHARE)
    }

    pub(super) fn records(&self) -> Option<u64> {
        let here = || self.commits().map(|state| state.lags.iter().map(|lag| lag.records).sum());
        self.lag.map(|lag| lag.records).or_else(here)
    }

    fn members(&self) -> Option<u64> {
        let is_empty = self.group.listed.group_state.as_str() == EMPTY;
        let here = self.state.as_ref().map(|state| state.members);
        here.or(self.counted).or_else(|| is_empty.then_some(0))
    }

    /// Lag of a group without members.
    pub(super) fn is_abandoned(&self) -> bool {
        self.records().is_some_and(|records| records > 0) && self.members() == Some(0)
    }
}

async fn list_page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let search = fields.text("search").to_lowercase();
    let mut rows = console.group_rows(visitor).await?;
    rows.retain(|row| row.group.id().to_lowercase().contains(&search));
    let (found, number) = (rows.len(), fields.number::<usize>("page")?.unwrap_or(0));
    let mut shown: Vec<GroupRow> =
        rows.into_iter().skip(number.saturating_mul(PAGE_GROUPS)).take(PAGE_GROUPS).collect();
    let elsewhere = shown.iter().filter(|row| row.members().is_none()).map(|row| &row.group);
    let elsewhere = elsewhere.map(|one| (one.node, one.listed.group_type.as_str(), one.id()));
    let mut counts = console.member_counts(visitor, MemberRequests::of(elsewhere)).await?;
    for row in &mut shown {
        row.counted = counts.remove(row.group.id());
    }
    let target = format!("/groups?search={}&page=", format::linked(&search));
    let content = html! {
        (layout::done(fields.text("done")))
        form.line method="get" role="search" {
            (field("Name contains", html! { input type="search" name="search" value=(search); }))
            button { "Search" }
        }
        div #groups data-refresh="5" {
            p.soft { (format::counted(found, "group")) ", the largest lag first" }
            (table_of(&COLUMNS, &[3, 4, 7, 8], html! {
                @for row in &shown { (self::row(row)) }
                @if found == 0 {
                    tr { td colspan="8" {
                        (nothing("group", visitor, console.hides(visitor, "--group")))
                        " A consumer with a group.id creates one."
                    } }
                }
            }))
        }
        (layout::pages(&target, number, found.div_ceil(PAGE_GROUPS)))
    };
    Ok(Page::new(Section::Groups, "Groups", content))
}

fn row(row: &GroupRow) -> Markup {
    let state = row.state.as_ref();
    html! {
        tr {
            th scope="row" {
                (group_link(row.group.id()))
                @if row.is_abandoned() { span.hint.warn-text { "lag, and no member" } }
            }
            td { (row.group.listed.group_state.as_str()) }
            td { (row.group.listed.group_type.as_str()) }
            td.n { @if let Some(members) = row.members() { (members) } @else { "—" } }
            td.n { (row.records().map_or("—".to_owned(), |records| format::count(i128::from(records)))) }
            td.n { (age(row.commits().and_then(GroupState::seconds))) }
            td.n { @if let Some(state) = state { (state.rebalances) } @else { "—" } }
            td.n { (row.group.node) }
        }
    }
}
