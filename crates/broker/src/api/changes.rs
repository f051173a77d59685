//! Changes that a request made to the metadata, written to the log and to the audit log: the image
//! before the request is compared with the image after it. If two requests change the same resource
//! at the same time, a change may be written twice.
//!
//! The log has a line for each change, with the principal, up to a rate; the audit log has all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Context;
use crate::clock::steady_ms;
use crate::config::{HIDDEN, is_sensitive, topic_key};
use crate::metadata::image::{ConfigResource, Image, QuotaEntity, ResourceKind};
use crate::security::acl::Acl;
use crate::security::audit::{self, Change};
use crate::security::scram;

/// Writes a line of the log about a change that the client of this request has made, unless there
/// were too many lately. The line has the client's principal and host, these fields, and the number
/// of lines that were left out before it.
macro_rules! log_change {
    ($context:expr, $message:literal, $($field:tt)*) => {
        if let Some(left_out) = $crate::api::changes::admitted($context) {
            let session = $context.session();
            tracing::info!(
                $($field)*
                principal = session.principal(),
                host = session.host(),
                left_out,
                $message
            );
        }
    };
}

pub(super) use log_change;

/// True if a line may be written now; the number of lines left out before it, if there are any.
pub(super) fn admitted(context: &Context) -> Option<Option<u64>> {
    let left_out = context.broker().change_log().admit(steady_ms())?;
    Some(Some(left_out).filter(|count| *count > 0))
}

/// The image before a request that changes something.
pub(super) struct Before(Arc<Image>);

impl Before {
    pub(super) fn of(context: &Context) -> Self {
        Self(context.broker().metadata().image())
    }

    /// Writes the changes of these resources' configuration, without the values of secrets.
    pub(super) fn configs(&self, context: &Context, resources: &[ConfigResource]) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for resource in resources {
            let none = BTreeMap::new();
            let values =
                |image: &Arc<Image>| image.configs(resource).map_or(none.clone(), |set| (**set).clone());
            let hides = |key: &str| match resource.kind {
                ResourceKind::Topic => topic_key(key).is_none(),
                ResourceKind::Broker | ResourceKind::BrokerLogger => is_sensitive(key),
                ResourceKind::Group | ResourceKind::ClientMetrics => false,
            };
            let kind = match resource.kind {
                ResourceKind::Topic => "TOPIC",
                ResourceKind::Broker | ResourceKind::BrokerLogger => "BROKER",
                ResourceKind::Group => "GROUP",
                ResourceKind::ClientMetrics => "CLIENT_METRICS",
            };
            differences(
                context,
                Subject { kind, name: &resource.name },
                (&values(before), &values(&after)),
                hides,
            );
        }
    }

    /// Writes the changes of these entities' quotas.
    pub(super) fn quotas<'a>(&self, context: &Context, entities: impl Iterator<Item = &'a QuotaEntity>) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for entity in entities {
            let parts = entity
                .iter()
                .map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("<default>")));
            let name = parts.collect::<Vec<_>>().join(",");
            let values = |image: &Image| -> BTreeMap<String, String> {
                let limits = image.quotas().limits(entity).into_iter().flatten();
                limits.map(|(key, limit)| (key.clone(), limit.to_string())).collect()
            };
            differences(
                context,
                Subject { kind: "CLIENT_QUOTA", name: &name },
                (&values(before), &values(&after)),
                |_| false,
            );
        }
    }

    /// Writes which SCRAM credentials of these users have changed, without the credentials.
    pub(super) fn credentials<'a>(&self, context: &Context, users: impl Iterator<Item = &'a str>) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for user in users {
            for mechanism in scram::ScramMechanism::ALL {
                let of = |image: &Arc<Image>| image.credentials().find(user, mechanism.code()).cloned();
                let (old, new) = (of(before), of(&after));
                if old != new {
                    let (old, new) = (old.map(|_| HIDDEN), new.map(|_| HIDDEN));
                    let change = Change { kind: "USER", name: user, key: mechanism.name(), old, new };
                    audit::changed(context.session(), context.header.api, &change);
                    let removed = new.is_none();
                    log_change!(context, "credentials changed", user, mechanism = mechanism.name(), removed,);
                }
            }
        }
    }

    /// Writes added or removed entries of access control.
    pub(super) fn acls<'a>(context: &Context, acls: impl Iterator<Item = &'a Acl>, came: bool) {
        for acl in acls {
            let text = acl.to_string();
            let (old, new) = if came { (None, Some(&*text)) } else { (Some(&*text), None) };
            let change =
                Change { kind: acl.resource_type.name(), name: &acl.resource_name, key: "acl", old, new };
            audit::changed(context.session(), context.header.api, &change);
            match came {
                true => log_change!(context, "access control entry added", entry = text,),
                false => log_change!(context, "access control entry removed", entry = text,),
            }
        }
    }
}

/// The resource whose settings have changed.
struct Subject<'a> {
    kind: &'a str,
    name: &'a str,
}

fn differences(
    context: &Context,
    subject: Subject<'_>,
    (before, after): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    hides: impl Fn(&str) -> bool,
) {
    let Subject { kind, name } = subject;
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        if old != new {
            let hidden = hides(key);
            let shown = |value: Option<&String>| {
                value.map(|value| if hidden { HIDDEN.to_owned() } else { value.clone() })
            };
            let (old, new) = (shown(old), shown(new));
            let change = Change { kind, name, key, old: old.as_deref(), new: new.as_deref() };
            audit::changed(context.session(), context.header.api, &change);
            log_change!(
                context,
                "configuration changed",
                resource_type = kind,
                resource = name,
                key = key.as_str(),
                old = old.as_deref(),
                new = new.as_deref(),
            );
        }
    }
}
