//! The frame of every page: head, navigation, heading, notices, and the elements that pages share.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::failure::Failed;
use super::format;
use super::visitor::Visitor;

/// Name of the field that proves that a form came from a page of the console.
pub(super) const PROOF: &str = "_proof";

/// A page before it is put into the frame.
pub(super) struct Page {
    pub(super) title: String,
    /// The tab of the page, which the title of the window names as well.
    pub(super) tab: Option<&'static str>,
    /// None of a page outside of all sections.
    pub(super) section: Option<Section>,
    pub(super) content: Markup,
}

/// The parts of the console.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Section {
    Overview,
    Brokers,
    Topics,
    Groups,
    Transactions,
    Clients,
    Users,
    Settings,
    Performance,
    Laboratory,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Overview, "/", "Overview"),
        (Self::Brokers, "/brokers", "Brokers"),
        (Self::Topics, "/topics", "Topics"),
        (Self::Groups, "/groups", "Groups"),
        (Self::Transactions, "/transactions", "Transactions"),
        (Self::Clients, "/clients", "Clients"),
        (Self::Users, "/users", "Users"),
        (Self::Settings, "/settings", "Settings"),
        (Self::Performance, "/performance", "Performance"),
        (Self::Laboratory, "/laboratory", "Laboratory"),
    ];
}

impl Page {
    pub(super) fn new(section: Section, title: impl Into<String>, content: Markup) -> Self {
        Self { title: title.into(), tab: None, section: Some(section), content }
    }

    /// The page as one of several with the same heading.
    pub(super) fn in_tab(self, tab: &'static str) -> Self {
        Self { tab: Some(tab), ..self }
    }
}

/// A page, or the reason why there is none, as a response.
pub(super) fn respond(visitor: &Visitor, section: Section, page: Result<Page, Failed>) -> Response {
    match page {
        Ok(page) => Html(framed(Some(visitor), &page).into_string()).into_response(),
        Err(Failed::Redirect(target)) => see_other(&target),
        Err(failed) => {
            let page = Page::new(section, failed.title(), failed.shown(visitor.caller.session().user()));
            (failed.status(), Html(framed(Some(visitor), &page).into_string())).into_response()
        }
    }
}

/// A response that sends the browser to another page.
pub(super) fn see_other(target: &str) -> Response {
    axum::response::Redirect::to(target).into_response()
}

/// A page outside of all sections and without navigation, such as the login.
pub(super) fn plain(status: StatusCode, title: &str, content: Markup) -> Response {
    alone(None, (status, title), content)
}

/// The page for a path that has none, with the navigation of the visitor, if there is one.
pub(super) fn missing(visitor: Option<&Visitor>, path: &str) -> Response {
    let content = html! {
        p { "The console has no page " code { (path) } "." }
        p { a href="/" { "Open the console" } }
    };
    alone(visitor, (StatusCode::NOT_FOUND, "No such page"), content)
}

/// A page outside of all sections.
fn alone(visitor: Option<&Visitor>, (status, title): (StatusCode, &str), content: Markup) -> Response {
    let page = Page { title: title.to_owned(), tab: None, section: None, content };
    (status, Html(framed(visitor, &page).into_string())).into_response()
}

fn framed(visitor: Option<&Visitor>, page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) @if let Some(tab) = page.tab { " · " (tab) } " · Levada" }
                link rel="stylesheet" href="/console.css";
                link rel="icon" href="/console.svg" type="image/svg+xml";
                script src="/console.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    a.brand href="/" { (logo()) "Levada" }
                    @if let Some(visitor) = visitor {
                        nav aria-label="Console" { ul {
                            @for (section, target, name) in Section::ALL {
                                li { a href=(target) aria-current=[(Some(section) == page.section).then_some("page")] { (name) } }
                            }
                        } }
                        (leave(visitor))
                    }
                }
                main #content tabindex="-1" {
                    h1 { (page.title) }
                    @if let Some(visitor) = visitor { div #unheard { (visitor.others.notice()) } }
                    (page.content)
                }
            }
        }
    }
}

fn leave(visitor: &Visitor) -> Markup {
    html! {
        form.who method="post" action="/logout" {
            span.soft { (visitor.caller.session().user()) }
            @if visitor.session.is_some() {
                (proof(visitor))
                button.quiet { "Log out" }
            }
        }
    }
}

fn logo() -> Markup {
    PreEscaped(include_str!("console.svg").to_owned())
}

/// The hidden field that proves that a form came from a page of the console.
pub(super) fn proof(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(PROOF) value=(visitor.proof); }
}

/// A table that scrolls horizontally where it is too wide. Columns whose name begins with `#`
/// contain numbers.
pub(super) fn table(columns: &[&str], rows: Markup) -> Markup {
    table_of(columns, &[], rows)
}

/// Like [`table`], without the columns `minor` in a narrow window; columns are numbered from 1.
pub(super) fn table_of(columns: &[&str], minor: &[usize], rows: Markup) -> Markup {
    let minor: Vec<String> = minor.iter().map(|column| format!("minor-{column}")).collect();
    html! {
        div class={ "scroll " (minor.join(" ")) } tabindex="0" {
            table {
                thead { tr {
                    @for column in columns {
                        @match column.strip_prefix('#') {
                            Some(name) => { th.n scope="col" { (name) } },
                            None => { th scope="col" { (column) } },
                        }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}

/// A figure with its name.
pub(super) fn tile(name: &str, value: impl maud::Render, live: Option<&str>) -> Markup {
    html! {
        div.tile { span.name { (name) } span.value data-live=[live] { (value) } }
    }
}

/// A notice for the reader.
pub(super) fn notice(kind: &str, content: impl maud::Render) -> Markup {
    html! { p class={ "notice " (kind) } role="status" { (content) } }
}

/// The confirmation of an action, if the link of this page carries its code.
pub(super) fn done(code: &str) -> Markup {
    let sentence = match code {
        "created" => "The topic was created.",
        "deleted" => "Deleted.",
        "altered" => "The change is in force.",
        "trimmed" => "The records were deleted.",
        "partitions" => "The partitions were added.",
        "reset" => "The offsets were reset.",
        "aborted" => "The transaction was aborted.",
        "password" => "The password was set.",
        "stopped" => "The run was stopped.",
        _ => return html! {},
    };
    notice("good", sentence)
}

/// A labelled control of a form.
pub(super) fn field(label: &str, control: Markup) -> Markup {
    html! { label.field { span { (label) } (control) } }
}

/// A list to choose from.
pub(super) fn choice<'a>(
    name: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> Markup {
    html! {
        select name=(name) {
            @for (value, text) in options {
                option value=(value) selected[value == chosen] { (text) }
            }
        }
    }
}

/// Links to the pages of a long list: `target` ends where the number of the page follows.
pub(super) fn pages(target: &str, page: usize, count: usize) -> Markup {
    html! {
        @if count > 1 {
            nav.pages aria-label="Pages" {
                @if page > 0 { a rel="prev" href={ (target) (page - 1) } { "← Previous" } }
                span.soft { "Page " (format::count(page as i128 + 1)) " of " (format::count(count as i128)) }
                @if page + 1 < count { a rel="next" href={ (target) (page + 1) } { "Next →" } }
            }
        }
    }
}

/// The link to a topic.
pub(super) fn topic_link(name: &str) -> Markup {
    html! { a href={ "/topics/" (format::linked(name)) } { (name) } }
}
