//! Quotas of users, client ids and addresses.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_wire::messages::DescribeClientQuotasRequest;
use levada_wire::messages::describe_client_quotas_response::{EntityData, EntryData};
use maud::{Markup, html};

use super::failure::{Failed, Needing as _, check};
use super::layout::{self, Page, Section, table};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Maximum number of quotas that the page shows.
const ROWS_MAX: usize = 500;

/// Renders the page of quotas.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let page = page(&console, &visitor).await;
    layout::respond(&visitor, Section::Clients, page)
}

async fn page(console: &Console, visitor: &Visitor) -> Result<Page, Failed> {
    let answer = console.desk.ask(&visitor.caller, &DescribeClientQuotasRequest::default()).await?;
    check(answer.error_code, answer.error_message.as_deref(), || "list the quotas".to_owned())
        .needing("describe-configs", "--cluster")?;
    let entries = answer.entries.unwrap_or_default();
    let content = html! {
        (super::clients::tabs("/quotas"))
        p.soft {
            "A client above its quota waits for its responses. Set quotas with "
            code { "levada config set quota user=NAME producer_byte_rate=1048576" } ", or for " code { "client-id=NAME" } " and " code { "ip=ADDRESS" } "."
        }
        (list(&entries))
    };
    Ok(Page::new(Section::Clients, "Quotas", content))
}

fn list(entries: &[EntryData]) -> Markup {
    let rows = || {
        entries
            .iter()
            .flat_map(|entry| entry.values.iter().map(move |value| (entry.entity.as_slice(), value)))
    };
    let count = rows().count();
    html! {
        (table(&["Clients", "Quota", "#Limit"], html! {
            @for (entity, value) in rows().take(ROWS_MAX) {
                tr {
                    th scope="row" { (clients(entity)) }
                    td { (value.key.as_str()) }
                    td.n { (limit(value.key.as_str(), value.value)) }
                }
            }
            @if count == 0 { tr { td colspan="3" { "No quota: every client may use as much as the brokers can serve." } } }
        }))
        @if count > ROWS_MAX { p.soft { (count - ROWS_MAX) " further quotas are not shown." } }
    }
}

/// The clients of a quota as text.
fn clients(entity: &[EntityData]) -> String {
    let part = |one: &EntityData| {
        let kind = one.entity_type.as_str();
        match one.entity_name.as_deref() {
            Some(name) => format!("{kind} {name}"),
            None => format!("every other {kind}"),
        }
    };
    entity.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// A limit with the unit of its key.
fn limit(key: &str, value: f64) -> String {
    match key {
        "producer_byte_rate" | "consumer_byte_rate" if value >= 0.0 => {
            format!("{}/s", format::bytes(value as u64))
        }
        "request_percentage" => format!("{value} % of a thread"),
        _ => format!("{value}/s"),
    }
}

#[cfg(test)]
mod tests;
