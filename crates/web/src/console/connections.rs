//! Open connections of clients to this broker, by listener and by address.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::server::OpenConnections;
use levada_security::acl::Operation;
use maud::{Markup, html};

use super::failure::Failed;
use super::layout::{self, Page, Section, table};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, clients, format};

/// Most addresses that the page shows, those with most connections.
const ADDRESSES_MAX: usize = 200;

/// The page.
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
    let content = html! {
        (clients::tabs("/connections"))
        div #connections data-refresh="5" {
            @if console.has_others() {
                p.soft { "Connections to broker " (console.own()) ". The consoles of the other brokers show theirs." }
            }
            (lists(&open))
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
