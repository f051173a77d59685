//! Rate limit of the audit log. Entries that a client without permissions can cause are limited per
//! origin, and counted beyond the limit. Entries about changes and allowed operations are always
//! written.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Instant;

use levada_wire::ApiKey;
use parking_lot::Mutex;

use levada_security::Session;
use levada_security::audit::{self, Attempt, AuditOrigin, Repeats, Weight};
use levada_security::authorizer::Rule;

/// Writes entries of the audit log, refusals at a pace.
#[derive(Debug, Default)]
pub(crate) struct AuditPace(Mutex<Repeats>);

impl AuditPace {
    /// A decision of access control.
    pub(crate) fn decided(&self, session: &Session, api: ApiKey, attempt: Attempt<'_>, rule: &Rule) {
        let is_paced = attempt.weight == Weight::Attempt && !rule.allows();
        if !is_paced || self.admits("authorization", Some(session.principal()), session.host()) {
            audit::decided(session, api, attempt, rule);
        }
    }

    /// A client connected; `mechanism` is `none` on a listener without authentication.
    pub(crate) fn entered(&self, session: &Session, listener: &str, mechanism: &str) {
        if !session.is_anonymous() || self.admits("authentication", Some(session.principal()), session.host())
        {
            audit::entered(session, listener, mechanism);
        }
    }

    /// Notes that a client has disconnected, or was disconnected.
    pub(crate) fn left(&self, session: &Session, listener: &str, reason: &dyn Display) {
        if !session.is_anonymous() || self.admits("end", Some(session.principal()), session.host()) {
            audit::left(session, listener, reason);
        }
    }

    /// Records the refusal of a client that has named no user of this broker.
    pub(crate) fn refused(&self, user: Option<&str>, address: IpAddr, listener: &str, reason: &dyn Display) {
        if self.admits("authentication", None, &address.to_canonical().to_string()) {
            audit::refused(user, address, listener, reason);
        }
    }

    /// Records the refusal of a client that has named a user of this broker. Refusals of each user
    /// have their own limit, so that refusals from many other addresses do not hide them.
    pub(super) fn refused_user(&self, user: &str, address: IpAddr, listener: &str, reason: &dyn Display) {
        let host = AuditOrigin::new("authentication", None, &address.to_canonical().to_string());
        let user_origin = AuditOrigin::of_user("authentication", Session::new(user, address).principal());
        if audit::is_on() && self.0.lock().admit_either((host, user_origin), Instant::now()) {
            audit::refused(Some(user), address, listener, reason);
        }
    }

    /// Returns the number of entries omitted since the last call.
    pub(crate) fn tell_left_out(&self) {
        let counts = self.0.lock().left_out(Instant::now());
        for (origin, count) in counts {
            audit::left_out(&origin, count);
        }
    }

    fn admits(&self, event: &'static str, principal: Option<&str>, host: &str) -> bool {
        audit::is_on() && self.0.lock().admit(AuditOrigin::new(event, principal, host), Instant::now())
    }
}
