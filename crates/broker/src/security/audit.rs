//! What is said about who came in and who was let do what, to the tracing target `levada::audit`. The target is off unless
//! it is asked for; no secret gets here.

use std::net::IpAddr;

use levada_wire::ApiKey;

use crate::security::Session;
use crate::security::acl::{Operation, ResourceType};
use crate::security::authorizer::Rule;

/// The tracing target.
pub const TARGET: &str = "levada::audit";

/// How much a question weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weight {
    /// The client wanted to do that.
    Attempt,
    /// The answer decides what a client gets to see.
    Filter,
}

/// A decision of access control. Refused attempts are told from level `info` up, granted ones from `debug` up, and what
/// only filters from `trace` up, as Kafka does.
pub(crate) fn decided(
    session: &Session,
    api: ApiKey,
    (operation, kind, name): (Operation, ResourceType, &str),
    (rule, weight): (&Rule, Weight),
) {
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

/// A client came in.
pub(crate) fn entered(session: &Session, listener: &str, mechanism: &str) {
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

/// A client was turned away.
pub(crate) fn refused(user: Option<&str>, address: IpAddr, listener: &str, reason: &dyn std::fmt::Display) {
    tracing::info!(
        target: "levada::audit",
        event = "authentication",
        allowed = false,
        user,
        host = %address.to_canonical(),
        listener,
        %reason,
    );
}
