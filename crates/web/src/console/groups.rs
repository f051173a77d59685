//! The list of groups of all kinds, those with the largest lag first. The lag of share groups is on
//! their pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::source::GroupState;
use levada_wire::messages::ListGroupsRequest;
use levada_wire::messages::list_groups_response::ListedGroup;
use maud::{Markup, html};

use super::failure::{Failed, check, nothing};
use super::fields::Fields;
use super::layout::{self, Page, Section, field, table};
use super::share::SHARE;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Groups on one page of the list.
const PAGE_GROUPS: usize = 100;
/// Topic of the coordinators of groups.
pub(super) const COORDINATORS: &str = "__consumer_offsets";

/// The page.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = list_page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Groups, page)
}

impl Console {
    /// Groups that the visitor may describe.
    pub(super) async fn groups(&self, visitor: &Visitor) -> Result<Vec<ListedGroup>, Failed> {
        let answer = self.desk.ask(&visitor.caller, &ListGroupsRequest::default()).await?;
        check(answer.error_code, None, || "list the groups".to_owned())?;
        Ok(answer.groups)
    }

    /// Lag of all groups as `/metrics` shows it, by group. It adds a sample to the history of each.
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

/// Seconds of lag in words.
pub(super) fn age(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) if seconds < 0.001 => "0".to_owned(),
        Some(seconds) => format::duration(std::time::Duration::from_secs_f64(seconds)),
        None => "—".to_owned(),
    }
}

/// A row of the list.
struct Row {
    listed: ListedGroup,
    state: Option<GroupState>,
}

impl Row {
    /// The state of a group that commits offsets.
    fn commits(&self) -> Option<&GroupState> {
        self.state.as_ref().filter(|_| self.listed.group_type.as_str() != SHARE)
    }

    fn records(&self) -> Option<u64> {
        self.commits().map(|state| state.lags.iter().map(|lag| lag.records).sum())
    }

    /// Lag of a group without members.
    fn is_abandoned(&self) -> bool {
        self.records().is_some_and(|records| records > 0)
            && self.state.as_ref().is_some_and(|one| one.members == 0)
    }
}

async fn list_page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let search = fields.text("search").to_lowercase();
    let listed = console.groups(visitor).await?;
    let mut states = console.lags(visitor).await;
    let named = listed.into_iter().filter(|one| one.group_id.to_lowercase().contains(&search));
    let mut rows: Vec<Row> =
        named.map(|listed| Row { state: states.remove(listed.group_id.as_str()), listed }).collect();
    rows.sort_by(|one, other| {
        let key = |row: &Row| (std::cmp::Reverse(row.records()), row.listed.group_id.as_str().to_owned());
        key(one).cmp(&key(other))
    });
    let leaders = console.leaders_of(COORDINATORS);
    let effect = "Groups with their coordinator there are not in this list, and lag behind partitions elsewhere is not counted.";
    let elsewhere = console.elsewhere(visitor, leaders, effect).await?;
    let (found, number) = (rows.len(), fields.number::<usize>("page")?.unwrap_or(0));
    let shown = rows.iter().skip(number.saturating_mul(PAGE_GROUPS)).take(PAGE_GROUPS);
    let target = format!("/groups?search={}&page=", format::linked(&search));
    let content = html! {
        (layout::done(fields.text("done")))
        (elsewhere)
        form.line method="get" role="search" {
            (field("Name contains", html! { input type="search" name="search" value=(search); }))
            button { "Search" }
        }
        div #groups data-refresh="5" {
            p.soft { (format::count(found as i128)) " groups, the largest lag first" }
            (table(&["Group", "State", "Protocol", "#Members", "#Lag in records", "#Lag in time", "#Rebalances"], html! {
                @for row in shown { (self::row(row)) }
                @if found == 0 {
                    tr { td colspan="7" {
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

fn row(row: &Row) -> Markup {
    let state = row.state.as_ref();
    html! {
        tr {
            th scope="row" {
                (group_link(&row.listed.group_id))
                @if row.is_abandoned() { span.hint.warn-text { "lag, and no member" } }
            }
            td { (row.listed.group_state.as_str()) }
            td { (row.listed.group_type.as_str()) }
            td.n { @if let Some(state) = state { (state.members) } @else { "—" } }
            td.n { (row.records().map_or("—".to_owned(), |records| format::count(i128::from(records)))) }
            td.n { (age(row.commits().and_then(GroupState::seconds))) }
            td.n { @if let Some(state) = state { (state.rebalances) } @else { "—" } }
        }
    }
}
