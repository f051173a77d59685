//! Settings of the broker and of a topic: their values, origins and meanings, and changes of one at
//! a time.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use levada_config::without_effect;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::IncrementalAlterConfigsRequest;
use levada_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsSynonym,
};
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use maud::{Markup, html};

use super::cluster::Permission;
use super::failure::{Failed, Needing as _, check, missing};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, proof, table_of};
use super::topic::Tab;
use super::topics::TOPIC;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Kafka's number for brokers as resources.
const BROKER: i8 = 4;

/// Kafka's numbers for operations on a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Kafka's number for a default value as the source of a setting.
const DEFAULT_SOURCE: i8 = 5;

/// A resource with settings.
#[derive(Clone, Copy)]
struct Resource<'a> {
    kind: i8,
    name: &'a str,
}

impl Resource<'_> {
    fn page(&self) -> String {
        match self.kind {
            TOPIC => format!("/topics/{}/settings", format::linked(self.name)),
            _ => "/settings".to_owned(),
        }
    }

    fn called(&self) -> String {
        match self.kind {
            TOPIC => format!("topic {}", self.name),
            _ => format!("broker {}", self.name),
        }
    }

    /// The option of `levada acl add` that names it.
    fn option(&self) -> String {
        if self.kind == TOPIC { format!("--topic {}", self.name) } else { "--cluster".to_owned() }
    }

    /// The permission that a change of its settings needs.
    fn change(&self) -> Permission<'_> {
        match self.kind {
            TOPIC => (Operation::AlterConfigs, ResourceType::Topic, self.name),
            _ => (Operation::AlterConfigs, ResourceType::Cluster, CLUSTER_NAME),
        }
    }

    fn section(&self) -> Section {
        if self.kind == TOPIC { Section::Topics } else { Section::Settings }
    }
}

/// The settings of a topic.
pub(super) async fn show_topic(
    State(console): State<Arc<Console>>,
    Extension(visit): Visiting,
    Path(name): Path<String>,
) -> Response {
    show(&console, &visit, Resource { kind: TOPIC, name: &name }).await
}

/// The settings of the broker.
pub(super) async fn show_broker(State(console): State<Arc<Console>>, Extension(visit): Visiting) -> Response {
    let node = console.door.config().node_id.to_string();
    show(&console, &visit, Resource { kind: BROKER, name: &node }).await
}

/// Changes a setting of a topic.
pub(super) async fn alter_topic(
    State(console): State<Arc<Console>>,
    Extension(visit): Visiting,
    Path(name): Path<String>,
) -> Response {
    alter(&console, &visit, Resource { kind: TOPIC, name: &name }).await
}

/// Changes a setting of the broker.
pub(super) async fn alter_broker(
    State(console): State<Arc<Console>>,
    Extension(visit): Visiting,
) -> Response {
    let node = console.door.config().node_id.to_string();
    alter(&console, &visit, Resource { kind: BROKER, name: &node }).await
}

async fn show(console: &Console, Visit { visitor, fields }: &Visit, resource: Resource<'_>) -> Response {
    let page = page(console, visitor, (resource, fields)).await;
    layout::respond(visitor, resource.section(), page)
}

async fn page(
    console: &Console,
    visitor: &Visitor,
    (resource, fields): (Resource<'_>, &Fields),
) -> Result<Page, Failed> {
    if resource.kind == TOPIC {
        // Reports a topic that does not exist.
        console.topic(&visitor.caller, resource.name).await?;
    }
    let mut answers = console.settings(&visitor.caller, (resource.kind, &[resource.name]), None).await?;
    for one in &answers {
        check(one.error_code, one.error_message.as_deref(), || {
            format!("show the settings of {}", resource.called())
        })
        .needing("describe-configs", resource.option())?;
    }
    let mut configs = answers.pop().map(|answer| answer.configs).unwrap_or_default();
    configs.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
    let search = fields.text("search").to_lowercase();
    let which = which(resource.kind, fields);
    configs.retain(|config| is_shown(config, (&search, which)));
    let may_change = console.permits(visitor, resource.change());
    let kinds = [("all", "all"), ("set", "not at their default"), ("open", "that can be changed here")];
    let content = html! {
        (layout::done(fields.text("done")))
        form.line method="get" role="search" {
            (field("Name contains", html! { input type="search" name="search" value=(search); }))
            (field("Settings", choice("which", kinds, which)))
            button { "Search" }
        }
        p.soft { (format::counted(configs.len(), "setting")) }
        @if !may_change { div.notice { (missing(visitor, resource.change())) } }
        (table_of(&["Setting", "Value", "Source", "Change"], &[3], html! {
            @for config in &configs { (row(visitor, resource, (config, may_change))) }
        }))
    };
    Ok(match resource.kind {
        TOPIC => Tab::Settings.page(resource.name, content),
        _ => Page::new(Section::Settings, "Settings", content),
    })
}

/// The kind of settings that the page shows.
fn which(kind: i8, fields: &Fields) -> &str {
    match fields.text("which") {
        // Most of a broker's keys, of which there are hundreds, have their default.
        "" if kind == BROKER && fields.text("search").is_empty() => "set",
        "" => "all",
        given => given,
    }
}

/// True for a setting of this kind whose name contains the text.
fn is_shown(config: &DescribeConfigsResourceResult, (search, which): (&str, &str)) -> bool {
    config.name.as_str().to_lowercase().contains(search)
        && match which {
            "set" => config.config_source != DEFAULT_SOURCE,
            "open" => !config.read_only,
            _ => true,
        }
}

/// The reason why the page offers no change of a setting, if it offers none.
fn unchangeable(
    kind: i8,
    (config, may_change): (&DescribeConfigsResourceResult, bool),
) -> Option<&'static str> {
    if kind == BROKER && without_effect(config.name.as_str()).is_some() {
        Some("no effect")
    } else if config.read_only {
        Some("needs a restart")
    } else {
        (!may_change).then_some("not permitted")
    }
}

/// A number of milliseconds or bytes, by the ending of its key, in larger units; none for a number
/// that has no larger unit.
fn in_words(key: &str, value: &str) -> Option<String> {
    let number = value.parse::<i64>().ok()?;
    match key.rsplit('.').next()? {
        "ms" | "bytes" if number == i64::MAX => Some("no limit".to_owned()),
        "ms" if number >= 1000 => Some(format::millis(number)),
        "bytes" if number >= 1024 => Some(format::bytes(number.unsigned_abs())),
        _ => None,
    }
}

fn row(
    visitor: &Visitor,
    resource: Resource<'_>,
    (config, may_change): (&DescribeConfigsResourceResult, bool),
) -> Markup {
    let name = config.name.as_str();
    let value = config.value.as_deref();
    html! {
        tr {
            th.wide scope="row" {
                code { (name) }
                @if let Some(text) = config.documentation.as_deref() { span.hint { (text) } }
            }
            td.wide {
                @if config.is_sensitive { span.soft { "hidden" } }
                @else if let Some(value) = value {
                    code { (value) }
                    @if let Some(words) = in_words(name, value) { span.hint { (words) } }
                }
                @else { span.soft { "unset" } }
            }
            td {
                (source(config.config_source))
                @for (value, source) in synonyms(config.value.as_deref(), &config.synonyms) {
                    span.hint { (source) ": " code { (value) } }
                }
            }
            td {
                @if let Some(reason) = unchangeable(resource.kind, (config, may_change)) {
                    span.soft { (reason) }
                } @else {
                    details {
                        summary { "Change" }
                        form.card method="post" action=(resource.page()) {
                            (proof(visitor))
                            input type="hidden" name="key" value=(name);
                            (field("Value", html! { input name="value" value=[value.filter(|_| !config.is_sensitive)] aria-label={ "value of " (name) }; }))
                            button name="operation" value="set" { "Set" }
                            button.quiet name="operation" value="delete" { "Back to the default" }
                        }
                    }
                }
            }
        }
    }
}

/// The values that this one hides, with their sources.
fn synonyms<'a>(
    value: Option<&'a str>,
    synonyms: &'a [DescribeConfigsSynonym],
) -> impl Iterator<Item = (&'a str, &'static str)> {
    let hidden = synonyms.iter().filter(move |one| one.value.as_deref() != value);
    hidden.filter_map(|one| Some((one.value.as_deref()?, source(one.source))))
}

/// A source as text, by Kafka's number.
fn source(number: i8) -> &'static str {
    match number {
        1 => "set for this topic",
        2 => "set for this broker",
        3 => "set for all brokers",
        4 => "set at the start",
        DEFAULT_SOURCE => "default",
        6 => "set for its logger",
        7 => "set for client metrics",
        8 => "set for this group",
        _ => "unknown",
    }
}

async fn alter(console: &Console, Visit { visitor, fields }: &Visit, resource: Resource<'_>) -> Response {
    let altered = alter_one(console, visitor, (resource, fields)).await;
    layout::respond(visitor, resource.section(), altered)
}

async fn alter_one(
    console: &Console,
    visitor: &Visitor,
    (resource, fields): (Resource<'_>, &Fields),
) -> Result<Page, Failed> {
    let key = fields.required("key")?;
    let mut config = AlterableConfig::default();
    config.name = StrBytes::from(key);
    match fields.text("operation") {
        "delete" => config.config_operation = DELETE,
        _ => {
            config.config_operation = SET;
            config.value = Some(StrBytes::from(fields.raw("value")));
        }
    }
    let mut altered = AlterConfigsResource::default();
    altered.resource_type = resource.kind;
    altered.resource_name = StrBytes::from(resource.name);
    altered.configs = vec![config];
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = vec![altered];
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.responses {
        check(one.error_code, one.error_message.as_deref(), || {
            format!("change {key} of {}", resource.called())
        })
        .needing("alter-configs", resource.option())?;
    }
    Err(Failed::Redirect(format!("{}?done=altered&search={}", resource.page(), format::linked(key))))
}

#[cfg(test)]
mod tests;
