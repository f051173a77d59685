//! Users with SCRAM passwords: list, set a password, delete.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use levada_security::nonce;
use levada_security::scram::{ITERATIONS_MIN, ScramMechanism};
use levada_wire::StrBytes;
use levada_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use levada_wire::messages::{AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest};
use maud::{Markup, html};

use super::Console;
use super::acls;
use super::allowed::ALTER_CLUSTER;
use super::failure::{Failed, Needing as _, check};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof, table_of};
use super::topics::confirmed;
use super::visitor::{Visit, Visiting, Visitor};

/// Maximum number of users that the page shows.
const USERS_MAX: usize = 500;
/// Longest password.
const PASSWORD_BYTES_MAX: usize = 1024;

/// The page, with the access control entries below the users.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Users, page)
}

async fn page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let content = html! {
        (layout::done(fields.text("done")))
        h2 { "Users" }
        @match users(console, visitor).await {
            Ok(users) => { (users) },
            Err(failed) => { (failed.explained(visitor.caller.session().user())) },
        }
        h2 { "Access control" }
        @match acls::section(console, visitor, fields).await {
            Ok(entries) => { (entries) },
            Err(failed) => { (failed.explained(visitor.caller.session().user())) },
        }
    };
    Ok(Page::new(Section::Users, "Users and ACLs", content))
}

async fn users(console: &Console, visitor: &Visitor) -> Result<Markup, Failed> {
    let mut request = DescribeUserScramCredentialsRequest::default();
    request.users = None;
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    check(answer.error_code, answer.error_message.as_deref(), || "list the users".to_owned())
        .needing("describe", "--cluster")?;
    let (logins, may_change) = (console.asks_for_login(), console.permits(visitor, ALTER_CLUSTER));
    Ok(html! {
        @if !logins { (notice("warn", "No listener has SASL: clients connect without a password, and these users are not in use.")) }
        (table_of(&["User", "Mechanism", "#Iterations", "Delete"], &[3], html! {
            @for user in answer.results.iter().take(USERS_MAX) {
                @for one in &user.credential_infos {
                    tr {
                        th.wide scope="row" { (user.user.as_str()) }
                        td { (ScramMechanism::from_code(one.mechanism).map_or("unknown", ScramMechanism::name)) }
                        td.n { (one.iterations) }
                        td { @if may_change { (delete_form(visitor, user.user.as_str(), one.mechanism)) } @else { "—" } }
                    }
                }
            }
            @if answer.results.is_empty() { tr { td colspan="4" { "No user has a SCRAM password." } } }
        }))
        @if answer.results.len() > USERS_MAX { p.soft { "Further users are not shown; levada user list has all." } }
        (console.offered(visitor, ALTER_CLUSTER, ("Add a user or change a password", set_form(visitor))))
    })
}

fn delete_form(visitor: &Visitor, user: &str, mechanism: i8) -> Markup {
    html! {
        details {
            summary { "Delete" }
            form.card method="post" action="/users/delete" {
                (proof(visitor))
                input type="hidden" name="user" value=(user);
                input type="hidden" name="mechanism" value=(mechanism);
                (field(&format!("Type {user} to confirm"), html! { input name="confirm" autocomplete="off" required; }))
                button.danger { "Delete the password" }
            }
        }
    }
}

fn set_form(visitor: &Visitor) -> Markup {
    let mechanisms = ScramMechanism::ALL.map(|one| (one.name(), one.name()));
    html! {
        details {
            summary { "Add a user or change a password" }
            form.card method="post" action="/users/set" {
                (proof(visitor))
                (field("User", html! { input name="user" required autocomplete="off"; }))
                (field("Password", html! { input type="password" name="password" required autocomplete="new-password"; }))
                (field("Mechanism", choice("mechanism", mechanisms, "SCRAM-SHA-512")))
                button { "Set the password" }
            }
        }
    }
}

/// Sets a password.
pub(super) async fn set(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = set_password(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Users, done)
}

async fn set_password(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let user = fields.required("user")?.to_owned();
    let password = fields.raw("password").to_owned();
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(Failed::Input(format!("A password has 1 to {PASSWORD_BYTES_MAX} bytes.")));
    }
    let mechanism = ScramMechanism::from_name(fields.text("mechanism")).ok_or_else(|| {
        Failed::Input("The mechanism is not one of SCRAM-SHA-256 and SCRAM-SHA-512.".to_owned())
    })?;
    let salt = nonce();
    let mut upsertion = ScramCredentialUpsertion::default();
    upsertion.name = StrBytes::from(user.as_str());
    (upsertion.mechanism, upsertion.iterations) = (mechanism.code(), ITERATIONS_MIN);
    upsertion.salt = Bytes::from(salt.clone());
    // Hashing takes milliseconds; logins wait their turn in the same way.
    let hash = move || mechanism.salted_password(&password, salt.as_bytes(), ITERATIONS_MIN.unsigned_abs());
    let salted = console.logins.run(visitor.caller.session().requester(), hash).await;
    upsertion.salted_password = Bytes::from(salted);
    let mut request = AlterUserScramCredentialsRequest::default();
    request.upsertions = vec![upsertion];
    alter(console, visitor, (&request, &user)).await?;
    Err(Failed::Redirect("/users?done=password".to_owned()))
}

async fn alter(
    console: &Console,
    visitor: &Visitor,
    (request, user): (&AlterUserScramCredentialsRequest, &str),
) -> Result<(), Failed> {
    let answer = console.desk.ask(&visitor.caller, request).await?;
    for one in &answer.results {
        check(one.error_code, one.error_message.as_deref(), || format!("change the password of {user}"))
            .needing("alter", "--cluster")?;
    }
    Ok(())
}

/// Deletes a password.
pub(super) async fn delete(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = delete_password(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Users, done)
}

async fn delete_password(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let user = fields.raw("user");
    confirmed(fields, user)?;
    let mut deletion = ScramCredentialDeletion::default();
    deletion.name = StrBytes::from(user);
    deletion.mechanism = fields.number("mechanism")?.unwrap_or_default();
    let mut request = AlterUserScramCredentialsRequest::default();
    request.deletions = vec![deletion];
    alter(console, visitor, (&request, user)).await?;
    Err(Failed::Redirect("/users?done=deleted".to_owned()))
}
