//! Open connections of clients to this broker, by listener and by address, and the clients with the
//! highest rates of the last minute, by client id and by user.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::server::OpenConnections;
use levada_broker::source::{BusiestClients, ByteRates};
use levada_process::clock::steady_ms;
use levada_security::acl::Operation;
use maud::{Markup, html};

use super::failure::Failed;
use super::layout::{self, Page, Section, table};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, clients, format};

/// Maximum number of addresses that the page shows, those with most connections.
const ADDRESSES_MAX: usize = 200;

/// Client ids and users that the page shows: those that have produced most, and as many that have
/// fetched most.
const BUSIEST_MAX: usize = 20;

/// Renders the page of connections.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let page = page(&console, &visitor).await;
    layout::respond(&visitor, Section::Clients, page)
}

async fn page(console: &Console, visitor: &Visitor) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Describe).await?;
    let open = console.door.connections(ADDRESSES_MAX);
    let busiest = console.door.source().stats().busiest(BUSIEST_MAX, steady_ms());
    let content = html! {
        (clients::tabs("/connections"))
        div #connections data-refresh="5" {
            @if console.has_others() {
                p.soft { "Connections to broker " (console.own()) ". The consoles of the other brokers show theirs." }
            }
            (lists(&open))
            (rates(&busiest))
        }
    };
    Ok(Page::new(Section::Clients, "Connections", content))
}

fn lists(open: &OpenConnections) -> Markup {
    html! {
        h2 { "By listener" }
        (table(&["Listener", "#Connections"], html! {
            @for (name, count) in &open.listeners {
                tr { th scope="row" { (name) } td.n { (format::count(i128::from(*count))) } }
            }
            @if open.listeners.is_empty() { tr { td colspan="2" { "No client is connected." } } }
        }))
        h2 { "By address" }
        (table(&["Address", "#Connections"], html! {
            @for (address, count) in &open.addresses {
                tr { th scope="row" { (address) } td.n { (format::count(i128::from(*count))) } }
            }
            @if open.addresses.is_empty() { tr { td colspan="2" { "No client is connected." } } }
        }))
        @if open.others > 0 { p.soft { (open.others) " further addresses have fewer connections." } }
    }
}

fn rates(busiest: &BusiestClients) -> Markup {
    html! {
        h2 { "By client id, in the last minute" }
        p.soft { "Record bytes a second of the clients that produce or fetch most." }
        (rate_table("Client id", "(no client id)", &busiest.client_ids))
        h2 { "By user, in the last minute" }
        (rate_table("User", "(no name)", &busiest.users))
    }
}

fn rate_table(column: &str, unnamed: &str, rates: &[ByteRates]) -> Markup {
    let rate = |bytes: f64| format!("{}/s", format::bytes(bytes as u64));
    table(
        &[column, "#Produced", "#Fetched"],
        html! {
            @for one in rates {
                tr {
                    th.wide scope="row" { @if one.name.is_empty() { (unnamed) } @else { (one.name) } }
                    td.n { (rate(one.produced)) }
                    td.n { (rate(one.fetched)) }
                }
            }
            @if rates.is_empty() { tr { td colspan="3" { "No client has produced or fetched records." } } }
        },
    )
}

#[cfg(test)]
mod tests;
