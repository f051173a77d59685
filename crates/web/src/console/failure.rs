//! Reasons why a page cannot be shown or an action was not done, as the reader sees them.

use std::time::Duration;

use axum::http::StatusCode;
use levada_broker::desk::AskError;
use levada_security::acl::ResourceType;
use levada_wire::error_code::ErrorCode;
use maud::{Markup, html};

use super::cluster::Permission;
use super::visitor::Visitor;

/// The permission that an action needs, in the words of `levada acl add`.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    operation: String,
    /// The option that names the resource.
    resource: String,
}

/// A page or action that failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The broker refused the request: its name, the error's number, and the broker's message.
    Refused { doing: String, code: i16, sentence: Option<String>, needs: Option<Needs> },
    /// The request got no response.
    Unanswered(AskError),
    /// Another broker did not respond.
    Unheard { node: i32, reason: String },
    /// The controllers did not respond within this time.
    ControllersSilent(Duration),
    /// A field of a form or a link is not valid.
    Input(String),
    /// The subject does not exist.
    Missing(String),
    /// Not a failure: the action is done, and the browser is redirected to another page.
    Redirect(String),
}

impl From<AskError> for Failed {
    fn from(error: AskError) -> Self {
        Self::Unanswered(error)
    }
}

impl Failed {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Refused { code, .. } if is_authorization(*code) => StatusCode::FORBIDDEN,
            Self::Refused { code, .. } if is_unknown(*code) => StatusCode::NOT_FOUND,
            Self::Refused { .. } => StatusCode::CONFLICT,
            Self::Unanswered(_) | Self::Unheard { .. } | Self::ControllersSilent(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Input(_) => StatusCode::BAD_REQUEST,
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Redirect(_) => StatusCode::SEE_OTHER,
        }
    }

    /// The heading of the page that shows the failure.
    pub(super) fn title(&self) -> &'static str {
        if self.status() == StatusCode::NOT_FOUND { "Not found" } else { "Not done" }
    }

    /// The reason in one sentence.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused { doing, code, sentence, .. } => {
                format!("Cannot {doing}: {}. {}", name(*code), sentence.as_deref().unwrap_or_default())
            }
            Self::Unanswered(error) => error.to_string(),
            Self::Unheard { node, reason } => format!("Broker {node} did not respond: {reason}."),
            Self::ControllersSilent(limit) => {
                format!("The controller did not respond within {} ms.", limit.as_millis())
            }
            Self::Input(text) | Self::Missing(text) | Self::Redirect(text) => text.clone(),
        }
    }

    /// The reason and the next step, as a whole page for the user who was refused.
    pub(super) fn shown(&self, user: &str) -> Markup {
        html! {
            (self.explained(user))
            p { a href="" data-back { "Back" } }
        }
    }

    /// The reason and the next step, in place of a part of a page.
    pub(super) fn explained(&self, user: &str) -> Markup {
        html! {
            div.notice.bad role="alert" {
                @match self {
                    Self::Refused { doing, code, sentence, needs } => {
                        p { "Cannot " (doing) ": " strong { (name(*code)) } }
                        @if let Some(sentence) = sentence { p { (sentence) } }
                        @if is_authorization(*code) { (next(user, needs.as_ref())) }
                    },
                    Self::Unanswered(error) => { p { (error) } },
                    Self::Unheard { .. } | Self::ControllersSilent(_) => { p { (self.text()) } },
                    Self::Input(text) | Self::Missing(text) | Self::Redirect(text) => { p { (text) } },
                }
            }
        }
    }
}

/// Kafka's name for an error.
pub(super) fn name(code: i16) -> String {
    ErrorCode::of_code(code).map_or_else(|| format!("error {code}"), |known| known.name().to_owned())
}

/// Fails if the response of the broker has an error.
pub(super) fn check(code: i16, sentence: Option<&str>, doing: impl FnOnce() -> String) -> Result<(), Failed> {
    if code == ErrorCode::None.code() {
        return Ok(());
    }
    Err(Failed::Refused { doing: doing(), code, sentence: sentence.map(str::to_owned), needs: None })
}

/// A result whose refusal names the permission that was missing.
pub(super) trait Needing: Sized {
    /// Names the operation and the option of `levada acl add` for the resource.
    fn needing(self, operation: &'static str, resource: impl Into<String>) -> Self;
}

impl<T> Needing for Result<T, Failed> {
    fn needing(mut self, operation: &'static str, resource: impl Into<String>) -> Self {
        if let Err(Failed::Refused { needs, .. }) = &mut self {
            *needs = Some(Needs { operation: operation.to_owned(), resource: resource.into() });
        }
        self
    }
}

/// A permission that the visitor lacks, and the next step.
pub(super) fn missing(visitor: &Visitor, (operation, kind, name): Permission<'_>) -> Markup {
    let word = |name: &str| name.to_lowercase().replace('_', "-");
    let resource = match kind {
        ResourceType::Cluster => "--cluster".to_owned(),
        _ => format!("--{} {name}", word(kind.name())),
    };
    next(visitor.caller.session().user(), Some(&Needs { operation: word(operation.name()), resource }))
}

/// The next step of a user without a permission.
fn next(user: &str, needs: Option<&Needs>) -> Markup {
    let Some(Needs { operation, resource }) = needs else {
        return html! { p { "Next: log in as another user, or have an entry added by levada acl." } };
    };
    let (option, name) = match resource.split_once(' ') {
        Some((option, name)) => (option, Some(name)),
        None => (resource.as_str(), None),
    };
    let words = match name {
        Some(name) => format!("{} {name}", option.trim_start_matches("--").replace('-', " ")),
        None => "the cluster".to_owned(),
    };
    let principal = quoted(&format!("User:{user}"));
    html! {
        p { "User:" (user) " may not " (operation) " " (words) "." }
        p { "Next: " code {
            "levada acl add " (principal) " --allow " (operation) " " (option)
            @if let Some(name) = name { " " @if is_plain(name) { (name) } @else { (quoted(name)) } }
        } ", by a user who may change access." }
    }
}

/// The text of a list without entries. If the list omits entries that the visitor may not describe,
/// it names the option of `levada acl add` that shows them.
pub(super) fn nothing(subject: &str, visitor: &Visitor, hidden: Option<&str>) -> Markup {
    let Some(option) = hidden else { return html! { "No " (subject) "." } };
    let (user, principal) = (visitor.caller.session().user(), quoted(visitor.caller.session().principal()));
    html! {
        "No " (subject) " that User:" (user) " may describe. To see more: "
        code { "levada acl add " (principal) " --allow describe " (option) " NAME" }
    }
}

/// True if a shell accepts the name without quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A text in shell quotes, so that nothing in it is executed: the name may come from a link.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// True if the subject of the request does not exist.
fn is_unknown(code: i16) -> bool {
    [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId, ErrorCode::GroupIdNotFound]
        .iter()
        .any(|refused| refused.code() == code)
}

fn is_authorization(code: i16) -> bool {
    [
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::ClusterAuthorizationFailed,
        ErrorCode::TransactionalIdAuthorizationFailed,
    ]
    .iter()
    .any(|refused| refused.code() == code)
}

#[cfg(test)]
mod tests;
