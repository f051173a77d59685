//! The groups of a topic: groups with committed offsets of its partitions, with their lag.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::failure::{Failed, nothing};
use super::groups::group_link;
use super::lags::{Coordinated, GroupLag};
use super::layout::{self, Page, Section, notice, table_of};
use super::topic::Tab;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Maximum number of groups that the page shows, those with the largest lag first.
const ROWS_MAX: usize = 200;

/// Renders the page of the groups that consume a topic.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let page = page(&console, &visitor, &name).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn page(console: &Console, visitor: &Visitor, name: &str) -> Result<Page, Failed> {
    let topic = console.topic(&visitor.caller, name).await?;
    let indexes: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition_index).collect();
    let groups = console.groups(visitor).await?;
    let mut lags = console.group_lags(visitor, &groups, Some((name, &indexes))).await?;
    let with_lag = |group: Coordinated| Some((lags.remove(group.id())?, group));
    let mut rows: Vec<(GroupLag, Coordinated)> = groups.into_iter().filter_map(with_lag).collect();
    rows.sort_by_key(|(lag, group)| (Reverse(lag.records), group.id().to_owned()));
    let content = html! {
        div #groups data-refresh="5" {
            p.soft { "Groups that have committed offsets of this topic, the largest lag first." }
            (list(console, visitor, &rows))
        }
    };
    Ok(Tab::Groups.page(name, content))
}

fn list(console: &Console, visitor: &Visitor, rows: &[(GroupLag, Coordinated)]) -> Markup {
    let columns = ["Group", "State", "Protocol", "#Partitions", "#Lag in records", "#Coordinator"];
    html! {
        @if rows.iter().any(|(lag, _)| lag.unknown > 0) {
            (notice("warn", "The ends of some partitions are not known: they have no leader, or the leader did not respond."))
        }
        (table_of(&columns, &[3, 6], html! {
            @for (lag, group) in rows.iter().take(ROWS_MAX) {
                tr {
                    th scope="row" { (group_link(group.id())) }
                    td { (group.listed.group_state.as_str()) }
                    td { (group.listed.group_type.as_str()) }
                    td.n { (lag.partitions + lag.unknown) }
                    td.n { (format::count(i128::from(lag.records))) }
                    td.n { (group.node) }
                }
            }
            @if rows.is_empty() {
                tr { td colspan="6" {
                    (nothing("group of this topic", visitor, console.hides(visitor, "--group")))
                    " A group comes here with its first commit."
                } }
            }
        }))
        @if rows.len() > ROWS_MAX { p.soft { (rows.len() - ROWS_MAX) " further groups have less lag." } }
    }
}
