//! Entries of access control: list, create, delete.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_security::acl::{CLUSTER_NAME, Operation, PatternType, Permission, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::create_acls_request::AclCreation;
use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};
use maud::{Markup, html};

use super::Console;
use super::allowed::ALTER_CLUSTER;
use super::failure::{Failed, Needing as _, check};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof, table_of};
use super::visitor::{Visit, Visiting, Visitor};

/// Maximum number of entries that the page shows.
const ENTRIES_MAX: usize = 1000;
/// Kafka's number for any value in a filter.
const ANY: i8 = 1;

/// The entries, and the form that adds one.
pub(super) async fn section(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Markup, Failed> {
    let mut request = DescribeAclsRequest::default();
    (request.resource_type_filter, request.pattern_type_filter) = (ANY, ANY);
    (request.operation, request.permission_type) = (ANY, ANY);
    // The default of the message is the empty text, which matches no entry.
    (request.resource_name_filter, request.principal_filter, request.host_filter) = (None, None, None);
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    if answer.error_code == ErrorCode::SecurityDisabled.code() {
        let text = "The broker has no authorizer: everybody may do everything. Next: set authorizer.class.name to \
                    org.apache.kafka.metadata.authorizer.StandardAuthorizer and name an administrator in super.users.";
        return Ok(notice("warn", text));
    }
    check(answer.error_code, answer.error_message.as_deref(), || {
        "list the access control entries".to_owned()
    })
    .needing("describe", "--cluster")?;
    let search = fields.text("search").to_lowercase();
    let mut entries = Vec::new();
    for resource in &answer.resources {
        for acl in &resource.acls {
            let mut entry = AclCreation::default();
            (entry.resource_type, entry.resource_pattern_type) =
                (resource.resource_type, resource.pattern_type);
            entry.resource_name = resource.resource_name.clone();
            (entry.principal, entry.host) = (acl.principal.clone(), acl.host.clone());
            (entry.operation, entry.permission_type) = (acl.operation, acl.permission_type);
            entries.push(entry);
        }
    }
    entries.retain(|one| {
        one.principal.to_lowercase().contains(&search) || one.resource_name.to_lowercase().contains(&search)
    });
    let may_change = console.permits(visitor, ALTER_CLUSTER);
    Ok(html! {
        form.line method="get" role="search" {
            (field("Principal or resource contains", html! { input type="search" name="search" value=(search); }))
            button { "Search" }
        }
        p.soft { (entries.len()) " entries" @if entries.len() > ENTRIES_MAX { ", of which the first " (ENTRIES_MAX) " are shown" } }
        (table_of(&["Principal", "Permission", "Operation", "Resource", "Name", "Host", "Delete"], &[6], html! {
            @for one in entries.iter().take(ENTRIES_MAX) { (row(visitor, one, may_change)) }
            @if entries.is_empty() { tr { td colspan="7" { "No entry: only super.users may do anything." } } }
        }))
        (console.offered(visitor, ALTER_CLUSTER, ("Add an entry", create_form(visitor))))
    })
}

fn row(visitor: &Visitor, entry: &AclCreation, may_change: bool) -> Markup {
    let prefixed = entry.resource_pattern_type == PatternType::Prefixed.code();
    html! {
        tr {
            th.wide scope="row" { (entry.principal.as_str()) }
            td { (Permission::from_code(entry.permission_type).map_or("unknown", Permission::name)) }
            td { (Operation::from_code(entry.operation).map_or("unknown", Operation::name)) }
            td { (ResourceType::from_code(entry.resource_type).map_or("unknown", ResourceType::name)) }
            td.wide { (entry.resource_name.as_str()) @if prefixed { "… " span.form-tag { "prefix" } } }
            td { (entry.host.as_str()) }
            td { @if may_change { (delete_form(visitor, entry)) } @else { "—" } }
        }
    }
}

fn delete_form(visitor: &Visitor, entry: &AclCreation) -> Markup {
    let numbers = [entry.resource_type, entry.resource_pattern_type, entry.operation, entry.permission_type]
        .map(|number| number.to_string());
    let names = ["type", "pattern", "operation", "permission"];
    html! {
        details {
            summary { "Delete" }
            form.card method="post" action="/acls/delete" {
                (proof(visitor))
                @for (name, number) in names.iter().zip(&numbers) { input type="hidden" name=(name) value=(number); }
                input type="hidden" name="name" value=(entry.resource_name.as_str());
                input type="hidden" name="principal" value=(entry.principal.as_str());
                input type="hidden" name="host" value=(entry.host.as_str());
                button.danger { "Delete the entry" }
            }
        }
    }
}

fn create_form(visitor: &Visitor) -> Markup {
    let number = |code: i8| code.to_string();
    let kinds: Vec<(String, &str)> =
        ResourceType::ALL.iter().map(|one| (number(one.code()), one.name())).collect();
    let patterns: Vec<(String, &str)> =
        PatternType::ALL.iter().map(|one| (number(one.code()), one.name())).collect();
    let operations: Vec<(String, &str)> =
        Operation::ALL.iter().map(|one| (number(one.code()), one.name())).collect();
    let permissions: Vec<(String, &str)> =
        Permission::ALL.iter().rev().map(|one| (number(one.code()), one.name())).collect();
    let list = |name: &str, options: &[(String, &str)]| {
        choice(name, options.iter().map(|(code, text)| (code.as_str(), *text)), "")
    };
    html! {
        details {
            summary { "Add an entry" }
            form.card method="post" action="/acls/create" {
                (proof(visitor))
                (field("Principal", html! { input name="principal" required value="User:"; }))
                (field("Permission", list("permission", &permissions)))
                (field("Operation", list("operation", &operations)))
                (field("Resource", list("type", &kinds)))
                (field("Name matches", list("pattern", &patterns)))
                (field(&format!("Name (* for all; {CLUSTER_NAME} for the cluster)"), html! { input name="name" required; }))
                (field("Host (* for all)", html! { input name="host" required value="*"; }))
                button { "Add the entry" }
            }
        }
    }
}

/// Adds an entry.
pub(super) async fn create(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = create_entry(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Users, done)
}

async fn create_entry(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let mut entry = AclCreation::default();
    entry.resource_type = fields.number("type")?.unwrap_or_default();
    entry.resource_pattern_type = fields.number("pattern")?.unwrap_or_default();
    entry.operation = fields.number("operation")?.unwrap_or_default();
    entry.permission_type = fields.number("permission")?.unwrap_or_default();
    entry.resource_name = StrBytes::from(fields.required("name")?);
    entry.principal = StrBytes::from(fields.required("principal")?);
    entry.host = StrBytes::from(fields.required("host")?);
    let mut request = CreateAclsRequest::default();
    request.creations = vec![entry];
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.results {
        check(one.error_code, one.error_message.as_deref(), || "add the entry".to_owned())
            .needing("alter", "--cluster")?;
    }
    Err(Failed::Redirect("/users?done=altered".to_owned()))
}

/// Deletes exactly one entry.
pub(super) async fn delete(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = delete_entry(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Users, done)
}

async fn delete_entry(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let mut filter = DeleteAclsFilter::default();
    // An empty number would be a filter for many entries.
    let whole = |name: &str| -> Result<i8, Failed> {
        fields.required(name)?;
        Ok(fields.number::<i8>(name)?.filter(|number| *number > ANY).unwrap_or_default())
    };
    (filter.resource_type_filter, filter.pattern_type_filter) = (whole("type")?, whole("pattern")?);
    (filter.operation, filter.permission_type) = (whole("operation")?, whole("permission")?);
    filter.resource_name_filter = Some(StrBytes::from(fields.required("name")?));
    filter.principal_filter = Some(StrBytes::from(fields.required("principal")?));
    filter.host_filter = Some(StrBytes::from(fields.required("host")?));
    let mut request = DeleteAclsRequest::default();
    request.filters = vec![filter];
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.filter_results {
        check(one.error_code, one.error_message.as_deref(), || "delete the entry".to_owned())
            .needing("alter", "--cluster")?;
    }
    Err(Failed::Redirect("/users?done=deleted".to_owned()))
}
