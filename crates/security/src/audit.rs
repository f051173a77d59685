//! Audit entries about authentication and authorization, sent to the tracing target
//! `levada::audit`. The target is off by default; it never contains secrets.

use std::net::IpAddr;

use levada_base::log_pace::{Shortened, shortened};
use levada_wire::ApiKey;

use crate::Session;
use crate::acl::{Operation, ResourceType};
use crate::authorizer::Rule;

mod repeats;
#[cfg(test)]
mod tests;

pub use self::repeats::{AuditOrigin, Repeats};

/// Target of the audit log's lines.
pub const TARGET: &str = "levada::audit";

/// Log level of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// The client wanted to do that.
    Attempt,
    /// The decision determines which resources a client sees.
    Filter,
}

/// An operation on a resource, and the weight of the question.
pub struct Attempt<'a> {
    /// The operation that is wanted.
    pub operation: Operation,
    /// The kind of the resource.
    pub kind: ResourceType,
    /// The name of the resource.
    pub name: &'a str,
    /// The weight of the decision.
    pub weight: Weight,
}

/// A decision of access control. As in Kafka, refused attempts are written at level `info`, granted
/// ones at `debug`, and attempts that only filter a list at `trace`.
pub fn decided(session: &Session, api: ApiKey, attempt: Attempt<'_>, rule: &Rule) {
    let Attempt { operation, kind, name, weight } = attempt;
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                target: "levada::audit",
                event = "authorization",
                allowed = rule.allows(),
                principal = session.principal(),
                host = session.host(),
                request = api.name(),
                operation = operation.name(),
                resource_type = kind.name(),
                resource = name,
                %rule,
            )
        };
    }
    match (rule.allows(), weight) {
        (false, Weight::Attempt) => tell!(info),
        (true, Weight::Attempt) => tell!(debug),
        (_, Weight::Filter) => tell!(trace),
    }
}

/// One thing that a client has changed.
pub struct Change<'a> {
    /// Kind of the parent entity.
    pub kind: &'a str,
    /// Name of the parent entity.
    pub name: &'a str,
    /// Key of the part that changed.
    pub key: &'a str,
    /// The value before, if it was set.
    pub old: Option<&'a str>,
    /// The value now, if it is set.
    pub new: Option<&'a str>,
}

/// True if the audit log has a reader.
pub fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

/// Writes an entry about a change by a client.
pub fn changed(session: &Session, api: ApiKey, change: &Change<'_>) {
    tracing::info!(
        target: "levada::audit",
        event = "change",
        principal = session.principal(),
        host = session.host(),
        request = api.name(),
        resource_type = change.kind,
        resource = change.name,
        key = change.key,
        old = change.old,
        new = change.new,
    );
}

/// Notes that a client has disconnected, or was disconnected.
pub fn left(session: &Session, listener: &str, reason: &dyn std::fmt::Display) {
    tracing::info!(
        target: "levada::audit",
        event = "end",
        principal = session.principal(),
        host = session.host(),
        listener,
        reason = %Shortened(reason),
    );
}

/// A client connected; `mechanism` is `none` on a listener without authentication.
pub fn entered(session: &Session, listener: &str, mechanism: &str) {
    tracing::info!(
        target: "levada::audit",
        event = "authentication",
        allowed = true,
        principal = session.principal(),
        host = session.host(),
        listener,
        mechanism,
    );
}

/// Writes an entry about the refusal of a client.
pub fn refused(user: Option<&str>, address: IpAddr, listener: &str, reason: &dyn std::fmt::Display) {
    tracing::info!(
        target: "levada::audit",
        event = "authentication",
        allowed = false,
        user = user.map(shortened),
        host = %address.to_canonical(),
        listener,
        reason = %Shortened(reason),
    );
}

/// Records the number of entries of this origin that were omitted because of the rate limit.
pub fn left_out(origin: &AuditOrigin, count: u64) {
    tracing::info!(
        target: "levada::audit",
        event = "left_out",
        of = origin.event,
        principal = origin.principal,
        host = origin.host,
        count,
    );
}
