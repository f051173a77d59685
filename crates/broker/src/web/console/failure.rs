//! Reasons why a page cannot be shown or an action was not done, as the reader sees them.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::desk::AskError;
use crate::error_code::ErrorCode;

/// A page or action that failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The broker refused: what was asked, the error's number, and the broker's sentence.
    Refused { doing: String, code: i16, sentence: Option<String> },
    /// The request had no answer.
    Unanswered(AskError),
    /// A field of a form or a link is not valid.
    Input(String),
    /// There is no such thing.
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
            Self::Refused { .. } => StatusCode::CONFLICT,
            Self::Unanswered(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Input(_) => StatusCode::BAD_REQUEST,
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Redirect(_) => StatusCode::SEE_OTHER,
        }
    }

    /// The reason in one sentence.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Refused { doing, code, sentence } => {
                format!("Cannot {doing}: {}. {}", name(*code), sentence.as_deref().unwrap_or_default())
            }
            Self::Unanswered(error) => error.to_string(),
            Self::Input(text) | Self::Missing(text) | Self::Redirect(text) => text.clone(),
        }
    }

    /// The reason, and the next step.
    pub(super) fn shown(&self) -> Markup {
        html! {
            div.notice.bad role="alert" {
                @match self {
                    Self::Refused { doing, code, sentence } => {
                        p { "Cannot " (doing) ": " strong { (name(*code)) } }
                        @if let Some(sentence) = sentence { p { (sentence) } }
                        @if is_authorization(*code) {
                            p { "Next: log in as another user, or have an entry added by levada acl." }
                        }
                    },
                    Self::Unanswered(error) => { p { (error) } },
                    Self::Input(text) | Self::Missing(text) | Self::Redirect(text) => { p { (text) } },
                }
            }
            p { a href="" data-back { "Back" } }
        }
    }
}

/// Kafka's name for an error.
pub(super) fn name(code: i16) -> String {
    ErrorCode::of_code(code).map_or_else(|| format!("error {code}"), |known| known.name().to_owned())
}

/// Fails if the broker answered with an error.
pub(super) fn check(code: i16, sentence: Option<&str>, doing: impl FnOnce() -> String) -> Result<(), Failed> {
    if code == ErrorCode::None.code() {
        return Ok(());
    }
    Err(Failed::Refused { doing: doing(), code, sentence: sentence.map(str::to_owned) })
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
